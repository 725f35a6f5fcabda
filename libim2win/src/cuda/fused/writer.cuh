// From sums in registers to outputs in memory: through a patch of shared memory for each warp, so
// that lanes write neighbours.
#pragma once

#include <cstdint>

#include "cuda/fused/arguments.cuh"
#include "cuda/fused/block.cuh"
#include "cuda/fused/boxes.cuh"
#include "cuda/fused/slabs.cuh"
#include "cuda/fused/sum_again.cuh"
#include "cuda/fused/sums.cuh"
#include "cuda/ptx.cuh"

namespace im2win::cuda::fused {

/// Neighbouring pixels of a filter, which are written at once.
template <class Element, int kCount>
struct alignas(kCount * sizeof(Element)) Pixels {
  Element x[kCount];
};

template <class Element, int kCount>
__device__ __forceinline__ Pixels<Element, kCount> to_pixels(const float* sums) {
  const auto from = *reinterpret_cast<const Pixels<float, kCount>*>(sums);
  Pixels<Element, kCount> pixels;
#pragma unroll
  for (int i = 0; i < kCount; ++i) pixels.x[i] = from_compute<Element>(from.x[i]);
  return pixels;
}

/// Two 16-bit elements, the first in the low half.
template <class Element>
__device__ __forceinline__ uint32_t packed_pair(float x, float y) {
  const Pixels<Element, 2> pair = {from_compute<Element>(x), from_compute<Element>(y)};
  return reinterpret_cast<const uint32_t&>(pair);
}

/// Whether any of a thread's sums may have to be formed again, if any ever has.
template <class T>
__device__ __forceinline__ bool is_doubtful(const Sums<T::kSums>& sums) {
  if constexpr (T::kOperands == Operands::kSplit) {
    return sums.doubt[0] != 0 || sums.doubt[1] != 0;
  } else {
    // Zero, or NaN where any is NaN (or infinite, which is rare enough): several, as each waits for the last.
    constexpr int kChains = 4;
    float zero[kChains] = {};
#pragma unroll
    for (int i = 0; i < T::kSums; ++i) zero[i % kChains] = fmaf(sums.sum[i], 0, zero[i % kChains]);
    const float all = (zero[0] + zero[1]) + (zero[2] + zero[3]);
    return all != all;
  }
}

/// Writes the sums of tiles. A warp has 16 filters, and takes 32 columns at a time.
///
/// Where outputs are the sums and a bias, perhaps clamped from below, and lie as GPUs like it, they
/// go out as boxes, whole rows of pixels or words of filters; else one by one.
template <class T>
class Writer {
 public:
  using Element = typename T::Element;

  /// The table of columns, by all threads that multiply, before any tile. A tile's outputs are near each
  /// other (Search::has_near_outputs).
  __device__ __forceinline__ static void place_columns(const Arguments<Element>& a,
                                                       Block<T> block) {
    const int first = static_cast<int>(threadIdx.x) - T::kFirstMultiplier;
    for (int i = first; i < table_columns(a.tile, T::kShape); i += T::kShape.multiplying_threads())
      block.columns()[i] = located(a, i);
  }

  __device__ __forceinline__ Writer(const Arguments<Element>& a, Block<T> block,
                                    const TilePosition& tile)
      : a_(a),
        block_(block),
        tile_(tile),
        thread_(ptx::thread_in_block(T::kFirstMultiplier)),
        lane_(thread_ % 32),
        patch_(block.patch(thread_ / 32)),
        images_(static_cast<int>(min(a.n - tile.n, int64_t{a.tile.images}))),
        rows_(min(a.p - tile.p, a.tile.rows)),
        columns_(min(a.q - tile.q, a.tile.columns)) {}

  /// `turn` alternates from tile to tile.
  __device__ __forceinline__ void write(const Sums<T::kSums>& sums, bool turn) {
    const int filter = tile_.filter_tile * T::kShape.filters + first_filter();  // of the group
    const int filters = min(static_cast<int>(a_.filters_per_group) - filter, kPatchFilters);
    const int64_t k = tile_.group * a_.filters_per_group + filter;
    float bias[2];
#pragma unroll
    for (int i = 0; i < 2; ++i)
      bias[i] = lane_ / 4 + 8 * i < filters ? a_.outputs.bias(k + lane_ / 4 + 8 * i) : 0;
    if constexpr (kHasBoxes<T>) {
      if (a_.stored) {
        const int set = T::kShape.takes_turns ? warpgroup() : first_filter() / kBoxedFilters;
        wait(&barriers().outputs_empty[set], turn ? 0 : 1);
        if constexpr (T::kShape.pixel_rows) {
          write_pixel_boxes(sums, bias, k, filters, set);
        } else {
          write_boxes(sums, bias, k, filters);
        }
        ::cuda::ptx::fence_proxy_async(::cuda::ptx::space_shared);
        __syncwarp();
        if (lane_ == 0) ::cuda::ptx::mbarrier_arrive(&barriers().outputs_full[set]);
        return;
      }
    }
    if (filters <= 0) return;

    const auto pixel = a_.outputs.pixel(tile_.n, tile_.p, tile_.q);
    output_ = a_.outputs.data() + pixel.output + k * a_.outputs.strides()[1];
    const bool doubtful = has_doubts(sums);
    if (doubtful || !a_.outputs.only_adds_bias_and_clamps() || filters < kPatchFilters ||
        a_.tile.cluster_bits > 0) {
      residual_ = a_.outputs.residual_data();
      if (residual_ != nullptr) residual_ += pixel.residual + k * a_.outputs.residual_strides()[1];
      write_singly(sums, bias, k, filters, doubtful);
    } else if (a_.words) {
      write_words(sums, bias);
    } else if (a_.filters_fastest) {
      residual_ = nullptr;
      write_singly(sums, bias, k, filters, false);
    } else {
      switch (a_.row_word) {
        case 4: write_rows<4>(sums, bias); break;
        case 2: write_rows<2>(sums, bias); break;
        default: write_rows<1>(sums, bias);
      }
    }
  }

  /// Rare: see Sums. locate(filter, column): where an output of the warp's is.
  template <class Locate>
  __device__ __forceinline__ void settle_boxes(int64_t k, int filters, const Locate& locate) const {
    __syncwarp();
#pragma unroll 1
    for (int i = 0; i < T::kShape.columns * kPatchFilters; i += 32) {
      const int column = (i + lane_) / kPatchFilters, filter = lane_ % kPatchFilters;
      Element* output = locate(filter, column);
      const float put = to_compute<float>(*output);
      const ColumnPlace at = located(a_, first_column() + column);
      const bool doubtful = put != put && filter < filters && is_output(at, column);
      for_lanes(doubtful, [&](int lane) {
        const int64_t own = k + lane % kPatchFilters;
        const float sum = sum_again(own, (i + lane) / kPatchFilters);
        if (lane_ == lane) *output = from_compute<Element>(finished(sum, a_.outputs.bias(own)));
      });
    }
  }

 private:
  static constexpr int kPatches = patch_columns(T::kShape.columns) / kPatchColumns;
  static constexpr bool kHalves = sizeof(Element) == 2;

  __device__ __forceinline__ int warpgroup() const { return thread_ / 128; }
  /// Of the warp and of the warpgroup, in the block's tile.
  __device__ __forceinline__ int first_filter() const {
    return (T::kShape.filters == 128 ? thread_ / 32 : thread_ % 128 / 32) * kPatchFilters;
  }
  __device__ __forceinline__ int first_column() const {
    return T::kShape.divides_columns() ? warpgroup() * a_.tile.warpgroup_columns : 0;
  }

  /// Of a tile, or of those where runs begin in its first row.
  __device__ __forceinline__ static ColumnPlace located(const Arguments<Element>& a, int i) {
    const auto [line, column] = a.column_pitch.divide(i);
    const auto [row, image] = a.tile_images.divide(line);
    const auto offset = [&](const int64_t* strides) {
      return static_cast<int32_t>(image * strides[0] + row * strides[2] + column * strides[3]);
    };
    return {offset(a.outputs.strides()),
            a.outputs.residual_data() == nullptr ? 0 : offset(a.outputs.residual_strides()), column,
            static_cast<uint16_t>(row), static_cast<uint16_t>(image)};
  }

  /// One of the warpgroup's columns.
  __device__ __forceinline__ ColumnPlace place(int column) const {
    if constexpr (T::kShape.pixel_rows) return located(a_, tile_.begin + column);
    return block_.columns()[tile_.begin + first_column() + column];
  }
  __device__ __forceinline__ bool is_output(const ColumnPlace& place, int column) const {
    return column < a_.tile.warpgroup_columns && place.row < rows_ && place.column < columns_ &&
           place.image < images_;
  }
  /// Its place in the output, or kNowhere.
  __device__ __forceinline__ int output_at(int column) const {
    const ColumnPlace place = this->place(column);
    return is_output(place, column) ? place.output : kNowhere;
  }

  /// What the warp forms again for column `column` and filter k.
  __device__ __forceinline__ float sum_again(int64_t k, int column) const {
    const ColumnPlace at = located(a_, tile_.begin + first_column() + column);
    return fused::sum_again(a_, tile_.group, k, tile_.n + at.image, tile_.p + at.row,
                            tile_.q + at.column);
  }

  /// Calls use(lane) for each lane of which it is true, by all lanes.
  template <class Use>
  __device__ __forceinline__ static void for_lanes(bool of_lane, const Use& use) {
    for (unsigned lanes = __ballot_sync(~0u, of_lane); lanes != 0; lanes &= lanes - 1)
      use(__ffs(static_cast<int>(lanes)) - 1);
  }

  /// Whether any of the warp's sums may have to be formed again.
  __device__ __forceinline__ bool has_doubts(const Sums<T::kSums>& sums) const {
    return a_.rechecks && __any_sync(~0u, is_doubtful<T>(sums));
  }

  /// Calls use(eight, first of its four sums, its first column in the patch) for each eight columns
  /// of the patch that starts at column `first`.
  template <class Use>
  __device__ __forceinline__ static void for_eights(const Sums<T::kSums>& sums, int first,
                                                    const Use& use) {
#pragma unroll
    for (int column = 0; column < kPatchColumns; column += 8)
      if (first + column < T::kShape.columns) use(&sums.sum[(first + column) / 2], column);
  }

  __device__ __forceinline__ float finished(float sum, float bias) const {
    return ptx::max_or_nan(sum + bias, a_.outputs.low());
  }

  /// NHWC: to boxes in shared memory, which leave by themselves when all warps have come so far.
  __device__ __forceinline__ void write_boxes(const Sums<T::kSums>& sums, const float (&bias)[2],
                                              int64_t k, int filters) {
    const OutputBoxes<T> boxes(a_.tile, block_, warpgroup(), first_filter());
    // Places are looked up some together: each would wait for the last one's columns to be put.
    constexpr int kTogether = 5;
#pragma unroll
    for (int first = 0; first < T::kShape.columns; first += 8 * kTogether) {
      typename OutputBoxes<T>::Row rows[kTogether][kRowsEach];
#pragma unroll
      for (int i = 0; i < kTogether; ++i)
#pragma unroll
        for (int j = 0; j < kRowsEach; ++j)
          rows[i][j] = boxes.row(first + 8 * i + (kHalves ? lane_ % 8 : lane_ % 4 * 2 + j));
#pragma unroll
      for (int i = 0; i < kTogether; ++i) put(rows[i], &sums.sum[first / 2 + 4 * i], bias);
    }
    if (has_doubts(sums))
      settle_boxes(k, filters,
                   [&](int filter, int column) { return boxes.row(column).at(filter); });
  }

  /// NCHW, likewise: two times eight columns at a time, four matrices.
  __device__ __forceinline__ void write_pixel_boxes(const Sums<T::kSums>& sums,
                                                    const float (&bias)[2], int64_t k, int filters,
                                                    int set) {
    const OutputRows<T> boxes(block_, set, first_filter() % kBoxedFilters);
#pragma unroll
    for (int column = 0; column < T::kShape.columns; column += 16) {
      uint32_t pairs[4];
      pack(&sums.sum[column / 2], bias, pairs[0], pairs[1]);
      pack(&sums.sum[column / 2 + 4], bias, pairs[2], pairs[3]);
      ptx::store_matrices(ptx::shared_address(boxes.word(lane_ % 16, column + lane_ / 16 * 8)),
                          pairs);
    }
    if (has_doubts(sums))
      settle_boxes(k, filters, [&](int filter, int column) { return boxes.at(filter, column); });
  }

  /// The rows of eight columns that a lane gives the places of.
  static constexpr int kRowsEach = kHalves ? 1 : 2;

  __device__ __forceinline__ void put(const typename OutputBoxes<T>::Row (&rows)[kRowsEach],
                                      const float* sum, const float (&bias)[2]) const {
    if constexpr (kHalves) {
      uint32_t pairs[2];
      pack(sum, bias, pairs[0], pairs[1]);
      ptx::store_transposed(rows[0].word(lane_ & 8), pairs[0], pairs[1]);
    } else {
      // Eight filters on is two of a row's eight words on, from an even pair of words: another bit.
      constexpr uint32_t kEightFilters = 2 * kUnitBytes;
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        const uint32_t at = ptx::shared_address(rows[i].at(lane_ / 4));
        ptx::store_shared_if(rows[i].is_output, at, finished(sum[i], bias[0]));
        ptx::store_shared_if(rows[i].is_output, at ^ kEightFilters, finished(sum[2 + i], bias[1]));
      }
    }
  }

  /// NCHW: neighbouring lanes have neighbouring pixels of a filter, a word of so many each; eight filters
  /// at a time. Memory takes longer for a part of a sector of 32 bytes than for a whole one, and where
  /// lanes begin and end there are parts: words of several pixels make for fewer of them.
  template <int kWord>
  __device__ __forceinline__ void write_rows(const Sums<T::kSums>& sums, const float (&bias)[2]) {
    constexpr int kColumns = kWord == 1 ? kPatchColumns : 2 * kPatchColumns;
    constexpr int kLanes = kColumns / kWord, kTogether = 32 / kLanes;  // filters
    constexpr int kPitch = kColumns + 8, kHalf = kPatchFilters / 2;
    static_assert(kHalf * kPitch <= kPatchFilters * kPatchPitch);
    const int64_t stride = a_.outputs.strides()[1];
    const int filter = lane_ / kLanes, column = lane_ % kLanes * kWord;
#pragma unroll
    for (int first = 0; first < T::kShape.columns; first += kColumns) {
      const bool exists = first + column < kPatches * kPatchColumns;
      const int place = exists ? output_at(first + column) : kNowhere;
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        __syncwarp();
#pragma unroll
        for (int i = first; i < min(first + kColumns, T::kShape.columns); i += 8) {
          const float* sum = &sums.sum[i / 2 + 2 * half];
          float* to = patch_.sums + lane_ / 4 * kPitch + i - first + lane_ % 4 * 2;
          *reinterpret_cast<float2*>(to) =
              make_float2(finished(sum[0], bias[half]), finished(sum[1], bias[half]));
        }
        __syncwarp();
        if (place != kNowhere)
          store_column<kHalf / kTogether>(
              reinterpret_cast<Pixels<Element, kWord>*>(output_ + place +
                                                        (half * kHalf + filter) * stride),
              kTogether * stride, patch_.sums + filter * kPitch + column, kTogether * kPitch);
      }
    }
  }

  /// So many words, `stride` elements apart. A register that holds an address is free when its store has
  /// left the queue of the memory pipe, which is long: each has its own.
  template <int kCount, int kWord>
  __device__ __forceinline__ static void store_column(Pixels<Element, kWord>* output,
                                                      int64_t stride, const float* sums,
                                                      int pitch) {
    Pixels<Element, kWord>* to[kCount];
    Pixels<Element, kWord> words[kCount];
#pragma unroll
    for (int i = 0; i < kCount; ++i) {
      to[i] = reinterpret_cast<Pixels<Element, kWord>*>(reinterpret_cast<Element*>(output) +
                                                        i * stride);
      words[i] = to_pixels<Element, kWord>(sums + i * pitch);
    }
    ptx::all_known(to);
#pragma unroll
    for (int i = 0; i < kCount; ++i) *to[i] = words[i];
  }

  /// NHWC: a lane has 16 bytes of neighbouring filters of a pixel. In the patch the words of a
  /// column are neighbours, those of four columns exchanged with those of the four after them:
  /// eight columns, which are written at a time, then meet all banks.
  __device__ __forceinline__ void write_words(const Sums<T::kSums>& sums, const float (&bias)[2]) {
    constexpr int kWords = kPatchFilters / kWordFilters;  // of a column
    // As many 16-bit columns as fit a patch: fewer times to wait for one another.
    constexpr int kTogether = kHalves ? 2 * kPatchColumns : kPatchColumns;
    constexpr int kEach = kTogether * kWords / 32;  // words of a lane
#pragma unroll
    for (int first = 0; first < T::kShape.columns; first += kTogether) {
      int places[kEach];
#pragma unroll
      for (int j = 0; j < kEach; ++j) {
        const int column = first + (lane_ + 32 * j) / kWords;
        places[j] = column < kPatches * kPatchColumns ? output_at(column) : kNowhere;
      }
      __syncwarp();
#pragma unroll
      for (int chunk = 0; chunk < kTogether; chunk += kPatchColumns)
        for_eights(sums, first + chunk,
                   [&](const float* sum, int column) { put(sum, chunk + column, bias); });
      __syncwarp();
      uint4 value[kEach];
#pragma unroll
      for (int j = 0; j < kEach; ++j) value[j] = *word((lane_ + 32 * j) / kWords, lane_ % kWords);
#pragma unroll
      for (int j = 0; j < kEach; ++j)
        if (places[j] != kNowhere)
          *reinterpret_cast<uint4*>(output_ + places[j] + lane_ % kWords * kWordFilters) = value[j];
    }
  }

  static constexpr int kWordFilters = 16 / static_cast<int>(sizeof(Element));

  __device__ __forceinline__ uint4* word(int column, int word) const {
    if constexpr (kHalves) {
      return reinterpret_cast<uint4*>(patch_.sums) + column * 2 + (word ^ (column >> 2 & 1));
    } else {
      return reinterpret_cast<uint4*>(patch_.sums + column * kTransposedPatchPitch) + word;
    }
  }

  /// Eight columns to the patch, as they go out.
  __device__ __forceinline__ void put(const float* sum, int column, const float (&bias)[2]) const {
    if constexpr (kHalves && T::kInstructions == Instructions::kWgmma) {
      uint32_t pairs[2];
      pack(sum, bias, pairs[0], pairs[1]);
      ptx::store_transposed(word(column + lane_ % 8, lane_ / 8 % 2), pairs[0], pairs[1]);
    } else {
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const int filter = lane_ / 4 + i / 2 * 8;
        uint4* to = word(column + lane_ % 4 * 2 + i % 2, filter / kWordFilters);
        reinterpret_cast<Element*>(to)[filter % kWordFilters] =
            from_compute<Element>(finished(sum[i], bias[i / 2]));
      }
    }
  }

  /// Two 8 x 8 matrices, of filters 0 to 7 and 8 to 15, of which lanes 0 to 7 and 8 to 15 give the
  /// places of columns, or of filters.
  __device__ __forceinline__ void pack(const float* sum, const float (&bias)[2], uint32_t& pair0,
                                       uint32_t& pair1) const {
    pair0 = pack(sum, bias[0]);
    pair1 = pack(sum + 2, bias[1]);
  }
  __device__ __forceinline__ uint32_t pack(const float* sum, float bias) const {
    return packed_pair<Element>(finished(sum[0], bias), finished(sum[1], bias));
  }

  /// Any layout, residual and activation; and the columns of a cluster's block.
  __device__ __forceinline__ void write_singly(const Sums<T::kSums>& sums, const float (&bias)[2],
                                               int64_t k, int filters, bool doubtful) {
    if (lane_ % 4 == 0) {
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        patch_.bias[lane_ / 4 + 8 * i] = bias[i];
        patch_.doubt[lane_ / 4 + 8 * i] = sums.doubt[i];
      }
    }
    float* const to = patch_.sums + lane_ / 4 * kPatchPitch + lane_ % 4 * 2;
    const Columns own = own_columns<T>(a_.tile);
#pragma unroll 1
    for (int first = 0; first < T::kShape.columns; first += kPatchColumns) {
      if (first >= own.end || first + kPatchColumns <= own.begin) continue;
      __syncwarp();
      // Registers have no run-time index; what follows is long, and there once.
#pragma unroll
      for (int chunk = 0; chunk < T::kShape.columns; chunk += kPatchColumns) {
        if (chunk != first) continue;
        for_eights(sums, chunk, [&](const float* sum, int column) {
#pragma unroll
          for (int i = 0; i < 2; ++i)
            *reinterpret_cast<float2*>(to + i * 8 * kPatchPitch + column) =
                make_float2(sum[2 * i], sum[2 * i + 1]);
        });
      }
      __syncwarp();
      if (doubtful) settle_doubts(k, filters, first, own);
      write_patch(filters, first, own);
    }
  }

  /// Rare: see Sums.
  __device__ __forceinline__ void settle_doubts(int64_t k, int filters, int first,
                                                const Columns& own) const {
    const bool exists = own.has(first + lane_) && is_output(place(first + lane_), first + lane_);
#pragma unroll 1
    for (int i = 0; i < filters; ++i) {
      float* const sums = patch_.sums + i * kPatchPitch;
      const bool doubtful = exists && !(fabsf(sums[lane_]) >= patch_.doubt[i]);
      for_lanes(doubtful, [&](int lane) {
        const float sum = sum_again(k + i, first + lane);
        if (lane_ == lane) sums[lane] = sum;
      });
    }
    __syncwarp();
  }

  /// Lanes are neighbouring pixels, or filters, whichever are neighbours in memory.
  __device__ __forceinline__ void write_patch(int filters, int first, const Columns& own) const {
#pragma unroll 1
    for (int i = lane_; i < kPatchColumns * kPatchFilters; i += 32) {
      const int column = a_.filters_fastest ? i / kPatchFilters : lane_;
      const int filter = a_.filters_fastest ? i % kPatchFilters : i / kPatchColumns;
      const ColumnPlace place = this->place(first + column);
      if (!own.has(first + column) || !is_output(place, first + column) || filter >= filters)
        continue;
      float addend = 0;
      if (residual_ != nullptr)
        addend = to_compute<float>(
            residual_[place.residual + filter * a_.outputs.residual_strides()[1]]);
      output_[place.output + filter * a_.outputs.strides()[1]] = a_.outputs.finished(
          patch_.sums[filter * kPatchPitch + column], addend, patch_.bias[filter]);
    }
  }

  const Arguments<Element>& a_;
  Block<T> block_;
  TilePosition tile_;
  int thread_;  // of the multiplying ones
  int lane_;
  Patch& patch_;
  int images_, rows_, columns_;  // of the tile that are outputs
  // Of the tile's first pixel and the warp's first filter.
  Element* output_ = nullptr;
  const Element* residual_ = nullptr;
};

}  // namespace im2win::cuda::fused
