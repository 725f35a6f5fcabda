// From sums in registers to outputs in memory: through a patch of shared memory for each warp, so
// that lanes write neighbours.
#pragma once

#include <cstdint>

#include "cuda/fused/arguments.cuh"
#include "cuda/fused/block.cuh"
#include "cuda/fused/boxes.cuh"
#include "cuda/fused/multiply.cuh"
#include "cuda/fused/sum_again.cuh"
#include "cuda/ptx.cuh"

namespace im2win::cuda::fused {

/// Writes the sums of tiles. A warp has 16 filters, and takes 32 columns at a time.
///
/// Where outputs are the sums and a bias, perhaps clamped from below, and lie as GPUs like it, they
/// go out as boxes, whole rows of pixels or words of filters; else one by one.
template <class T>
class Writer {
 public:
  using Element = typename T::Element;

  /// `turn` alternates from tile to tile.
  __device__ __forceinline__ Writer(const Arguments<Element>& a, Block<T> block, bool turn)
      : a_(a),
        block_(block),
        turn_(turn),
        thread_(ptx::thread_in_block() - T::kFirstMultiplier),
        lane_(thread_ % 32),
        patch_(block.patch(thread_ / 32)),
        columns_(block.columns(warpgroup()) + (turn ? kTableColumns : 0)) {}

  __device__ __forceinline__ void write(const TilePosition& tile, const Sums<T::kSums>& sums) {
    const int filter = tile.filter_tile * T::kShape.filters + first_filter();  // of the group
    const int filters = min(static_cast<int>(a_.filters_per_group) - filter, kPatchFilters);
    const int64_t k = tile.group * a_.filters_per_group + filter;
    float bias[2];
#pragma unroll
    for (int i = 0; i < 2; ++i)
      bias[i] = lane_ / 4 + 8 * i < filters ? a_.outputs.bias(k + lane_ / 4 + 8 * i) : 0;
    if constexpr (kHasBoxes<T>) {
      if (a_.stored) return write_boxes(tile, sums, bias, k, filters);
    }
    place_columns(tile);
    if (filters <= 0) return;

    const auto pixel = a_.outputs.pixel(tile.n, tile.p, tile.q);
    output_ = a_.outputs.data() + pixel.output + k * a_.outputs.strides()[1];
    const bool doubtful = has_doubts(sums);
    if (doubtful || !a_.outputs.only_adds_bias_and_clamps() || filters < kPatchFilters) {
      residual_ = a_.outputs.residual_data();
      if (residual_ != nullptr) residual_ += pixel.residual + k * a_.outputs.residual_strides()[1];
      write_singly(tile, sums, bias, k, filters, doubtful);
    } else if (a_.words) {
      write_words(sums, bias);
    } else if (!a_.filters_fastest) {
      write_rows(sums, bias);
    } else {
      residual_ = nullptr;
      write_singly(tile, sums, bias, k, filters, false);
    }
  }

 private:
  static constexpr int kTableColumns = table_columns(T::kShape.columns);
  static constexpr bool kHalves = sizeof(Element) == 2;

  __device__ __forceinline__ int warpgroup() const { return thread_ / 128; }
  /// Of the warp and of the warpgroup, in the block's tile.
  __device__ __forceinline__ int first_filter() const {
    return (T::kShape.filters == 128 ? thread_ / 32 : thread_ % 128 / 32) * kPatchFilters;
  }
  __device__ __forceinline__ int first_column() const {
    return T::kShape.filters == 128 ? 0 : warpgroup() * a_.tile.warpgroup_columns;
  }

  /// An output pixel; n < 0: none.
  struct Pixel {
    int64_t n;
    int p, q;
  };

  __device__ __forceinline__ Pixel locate(const TilePosition& tile, int column) const {
    const auto [line, in_line] = a_.column_pitch.divide(tile.begin + first_column() + column);
    const auto [row, image] = a_.tile_images.divide(line);
    const int64_t n = tile.n + image;
    const int p = tile.p + row, q = tile.q + in_line;
    const bool inside = column < a_.tile.warpgroup_columns && row < a_.tile.rows &&
                        in_line < a_.tile.columns && n < a_.n && p < a_.p && q < a_.q;
    return {inside ? n : -1, p, q};
  }

  /// The warpgroup's table of its columns. There are two, which take turns, so that a warp may be
  /// a tile ahead of others.
  __device__ __forceinline__ void place_columns(const TilePosition& tile) const {
    for (int column = thread_ % 128; column < kTableColumns; column += 128) {
      const Pixel pixel = locate(tile, column);
      // A tile's outputs are near each other (Search::has_near_outputs).
      const auto offset = [&](const int64_t* strides) {
        const auto along = [](int64_t steps, int64_t stride) {
          return static_cast<int>(steps) * static_cast<int>(stride);
        };
        return along(pixel.n - tile.n, strides[0]) + along(pixel.p - tile.p, strides[2]) +
               along(pixel.q - tile.q, strides[3]);
      };
      columns_[column] = {
          pixel.n < 0 ? kNowhere : offset(a_.outputs.strides()),
          a_.outputs.residual_data() == nullptr ? 0 : offset(a_.outputs.residual_strides())};
    }
    ptx::named_barrier(kColumnsBarrier + warpgroup(), 128);
  }

  /// Whether any of the warp's sums may have to be formed again.
  __device__ __forceinline__ bool has_doubts(const Sums<T::kSums>& sums) const {
    if (!a_.rechecks) return false;
    bool doubtful = false;
    if constexpr (T::kOperands == Operands::kSplit) {
      doubtful = sums.doubt[0] != 0 || sums.doubt[1] != 0;
    } else {
#pragma unroll
      for (const float sum : sums.sum) doubtful |= sum != sum;
    }
    return __any_sync(~0u, doubtful);
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
  __device__ __forceinline__ void write_boxes(const TilePosition& tile, const Sums<T::kSums>& sums,
                                              const float (&bias)[2], int64_t k, int filters) {
    const OutputBoxes<T> boxes(block_, warpgroup(), first_filter());
    const int set = first_filter() / kBoxedFilters;
    wait(&barriers().outputs_empty[set], turn_ ? 0 : 1);
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
    if (has_doubts(sums)) settle_boxes(boxes, tile, k, filters);
    ::cuda::ptx::fence_proxy_async(::cuda::ptx::space_shared);
    __syncwarp();
    if (lane_ == 0) ::cuda::ptx::mbarrier_arrive(&barriers().outputs_full[set]);
  }

  /// The rows of eight columns that a lane gives the places of.
  static constexpr int kRowsEach = kHalves ? 1 : 2;

  __device__ __forceinline__ void put(const typename OutputBoxes<T>::Row (&rows)[kRowsEach],
                                      const float* sum, const float (&bias)[2]) const {
    if constexpr (kHalves) {
      uint32_t pairs[2];
      pack(sum, bias, pairs);
      ptx::store_transposed(rows[0].word(lane_ & 8), pairs[0], pairs[1]);
    } else {
#pragma unroll
      for (int i = 0; i < 4; ++i)
        *rows[i % 2].at(lane_ / 4 + i / 2 * 8) = finished(sum[i], bias[i / 2]);
    }
  }

  /// Rare: see Sums.
  __device__ __forceinline__ void settle_boxes(const OutputBoxes<T>& boxes,
                                               const TilePosition& tile, int64_t k,
                                               int filters) const {
    __syncwarp();
#pragma unroll 1
    for (int i = lane_; i < T::kShape.columns * kPatchFilters; i += 32) {
      const int column = i / kPatchFilters, filter = i % kPatchFilters;
      const Pixel at = locate(tile, column);
      Element* output = boxes.row(column).at(filter);
      const float put = to_compute<float>(*output);
      if (at.n < 0 || filter >= filters || put == put) continue;
      *output = from_compute<Element>(finished(
          sum_again(a_, tile.group, k + filter, at.n, at.p, at.q), a_.outputs.bias(k + filter)));
    }
  }

  /// NCHW: lanes are neighbouring pixels of a filter.
  __device__ __forceinline__ void write_rows(const Sums<T::kSums>& sums, const float (&bias)[2]) {
    const int64_t stride = a_.outputs.strides()[1];
    float* const from = patch_.sums + lane_;
    float* const to = patch_.sums + lane_ / 4 * kPatchPitch + lane_ % 4 * 2;
    int places[kTableColumns / kPatchColumns];
#pragma unroll
    for (int i = 0; i < kTableColumns / kPatchColumns; ++i)
      places[i] = columns_[i * kPatchColumns + lane_].output;
#pragma unroll
    for (int first = 0; first < T::kShape.columns; first += kPatchColumns) {
      const int place = places[first / kPatchColumns];
      __syncwarp();
      for_eights(sums, first, [&](const float* sum, int column) {
#pragma unroll
        for (int i = 0; i < 2; ++i)
          *reinterpret_cast<float2*>(to + i * 8 * kPatchPitch + column) =
              make_float2(finished(sum[2 * i], bias[i]), finished(sum[2 * i + 1], bias[i]));
      });
      __syncwarp();
      if (place == kNowhere) continue;
      Element* output = output_ + place;
#pragma unroll
      for (int i = 0; i < kPatchFilters; i += kStores)
        store_column(output + i * stride, stride, from + i * kPatchPitch);
    }
  }

  /// Stores of a lane at a time. A register that holds an address is free when its store has left the
  /// queue of the memory pipe, which is long: each has its own.
  static constexpr int kStores = 8;

  __device__ __forceinline__ static void store_column(Element* output, int64_t stride,
                                                      const float* from) {
    Element* to[kStores];
    Element value[kStores];
#pragma unroll
    for (int i = 0; i < kStores; ++i, output += stride) {
      to[i] = output;
      value[i] = from_compute<Element>(from[i * kPatchPitch]);
    }
    ptx::all_known(to);
#pragma unroll
    for (int i = 0; i < kStores; ++i) *to[i] = value[i];
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
      int place[kEach];
#pragma unroll
      for (int j = 0; j < kEach; ++j) {
        const int column = first + (lane_ + 32 * j) / kWords;
        place[j] = column < kTableColumns ? columns_[column].output : kNowhere;
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
        if (place[j] != kNowhere)
          *reinterpret_cast<uint4*>(output_ + place[j] + lane_ % kWords * kWordFilters) = value[j];
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
      pack(sum, bias, pairs);
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
  /// places of columns.
  __device__ __forceinline__ void pack(const float* sum, const float (&bias)[2],
                                       uint32_t (&pairs)[2]) const {
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      const Pair pair = {from_compute<Element>(finished(sum[2 * i], bias[i])),
                         from_compute<Element>(finished(sum[2 * i + 1], bias[i]))};
      pairs[i] = reinterpret_cast<const uint32_t&>(pair);
    }
  }

  struct alignas(2 * sizeof(Element)) Pair {
    Element x, y;
  };

  /// Any layout, residual and activation.
  __device__ __forceinline__ void write_singly(const TilePosition& tile, const Sums<T::kSums>& sums,
                                               const float (&bias)[2], int64_t k, int filters,
                                               bool doubtful) {
    if (lane_ % 4 == 0) {
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        patch_.bias[lane_ / 4 + 8 * i] = bias[i];
        patch_.doubt[lane_ / 4 + 8 * i] = sums.doubt[i];
      }
    }
    float* const to = patch_.sums + lane_ / 4 * kPatchPitch + lane_ % 4 * 2;
#pragma unroll 1
    for (int first = 0; first < T::kShape.columns; first += kPatchColumns) {
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
      if (doubtful) settle_doubts(tile, k, filters, first);
      write_patch(filters, first);
    }
  }

  /// Rare: see Sums.
  __device__ __forceinline__ void settle_doubts(const TilePosition& tile, int64_t k, int filters,
                                                int first) const {
    const Pixel at = locate(tile, first + lane_);
#pragma unroll 1
    for (int i = 0; i < filters && at.n >= 0; ++i) {
      float& sum = patch_.sums[i * kPatchPitch + lane_];
      if (!(fabsf(sum) >= patch_.doubt[i]))
        sum = sum_again(a_, tile.group, k + i, at.n, at.p, at.q);
    }
    __syncwarp();
  }

  /// Lanes are neighbouring pixels, or filters, whichever are neighbours in memory.
  __device__ __forceinline__ void write_patch(int filters, int first) const {
#pragma unroll 1
    for (int i = lane_; i < kPatchColumns * kPatchFilters; i += 32) {
      const int column = a_.filters_fastest ? i / kPatchFilters : lane_;
      const int filter = a_.filters_fastest ? i % kPatchFilters : i / kPatchColumns;
      const ColumnPlace place = columns_[first + column];
      if (place.output == kNowhere || filter >= filters) continue;
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
  bool turn_;
  int thread_;  // of the multiplying ones
  int lane_;
  Patch& patch_;
  ColumnPlace* columns_;
  // Of the tile's first pixel and the warp's first filter.
  Element* output_ = nullptr;
  const Element* residual_ = nullptr;
};

}  // namespace im2win::cuda::fused
