// From sums in registers to outputs in memory: through a patch of shared memory for each warp, so
// that lanes write neighbours.
#pragma once

#include <algorithm>
#include <cstdint>
#include <type_traits>

#include "cuda/fused/arguments.cuh"
#include "cuda/fused/block.cuh"
#include "cuda/fused/finish.cuh"
#include "cuda/fused/matrices.cuh"
#include "cuda/fused/output_rows.cuh"
#include "cuda/fused/sums.cuh"
#include "cuda/fused/tile_columns.cuh"
#include "cuda/ptx.cuh"

namespace im2win::cuda::fused {

/// Finishes the sums of tiles and writes them. A warp has 16 filters, and takes 32 columns at a time.
///
/// Where outputs lie as GPUs like it, they go out as whole rows of pixels or words of filters; else one by one. (Or as
/// boxes: see BoxWriter.)
template <class T>
class Writer {
 public:
  using Element = typename T::Element;

  __device__ __forceinline__ Writer(const Arguments<Element>& a, Block<T> block,
                                    const TilePosition& tile, int set = 0)
      : a_(a),
        block_(block),
        tile_(tile),
        set_(set),
        thread_(ptx::thread_in_block(T::kFirstMultiplier)),
        lane_(thread_ % 32),
        patch_(block.patch(thread_ / 32)),
        columns_(a, block, tile, first_column()),
        left_(static_cast<int>(a.filters_per_group) - filter()),
        finisher_(a, k(), filters(), reinterpret_cast<float4*>(patch_.sums)),
        output_(a.outputs.data() + columns_.first_pixel().output + k() * a.outputs.strides()[1]) {}

  __device__ __forceinline__ const TileColumns<T>& columns() const { return columns_; }

  /// To write so many of the warpgroup's columns from one on, as if there were no others.
  __device__ __forceinline__ void enter(int first, int count) {
    // Read anew: what follows from it has no registers to be kept in from one time to the next.
    lane_ = ptx::thread_in_block() % 32;
    columns_.enter(first_column() + first, count);
  }

  __device__ __forceinline__ void write(Sums<T::kSums>& sums) {
    const int filters = this->filters();
    if (filters > 0) {
      if (finisher_.has_doubts(sums)) [[unlikely]] {
        finisher_.settle(columns_, sums);
      }
      finisher_.finish(columns_, sums);
    }
    if (a_.filter_word > 0 && !a_.words) {
      const int of_warpgroup = min(left_ + first_filter() % kBoxedFilters, kBoxedFilters);
      if (of_warpgroup <= 0) return;
      // With both, products of split operands run out of registers.
      if constexpr (kHalves)
        if (of_warpgroup <= kBoxedFilters / 2)
          return write_pixels<kBoxedFilters / 2>(sums, of_warpgroup);
      return write_pixels<kBoxedFilters>(sums, of_warpgroup);
    }
    if (filters <= 0) return;
    if (a_.words) {
      write_words(sums, filters);
    } else if (filters < kPatchFilters) {
      write_some(sums, filters);
    } else if (kMatrices && a_.whole_planes) {
      write_planes(sums);
    } else {
      switch (a_.row_word) {
        case 4: write_rows<4>(sums); break;
        case 2: write_rows<2>(sums); break;
        default: write_rows<1>(sums);
      }
    }
  }

 private:
  static constexpr int kPatches = patch_columns(T::kShape.columns) / kPatchColumns;
  static constexpr bool kHalves = sizeof(Element) == 2;
  /// Eights of columns whose places are looked up together: each would wait for the last one's columns to be put.
  static constexpr int kPlacesTogether = 5;
  /// Whether outputs go to patches as matrices of them.
  static constexpr bool kMatrices = kHalves && T::kInstructions == Instructions::kWgmma;
  using Kept = std::conditional_t<kMatrices, Element, float>;  // in a patch, of rows

  __device__ __forceinline__ int warpgroup() const { return thread_ / 128; }
  /// Of the warp, in the block's tile.
  __device__ __forceinline__ int first_filter() const {
    return (T::kShape.filters >= 128 ? thread_ / 32 : thread_ % 128 / 32) * kPatchFilters +
           (T::kSets > 1 ? set_ * 128 : 0);
  }
  /// Likewise, in the group; and of all.
  __device__ __forceinline__ int filter() const {
    return tile_.filter_tile * T::kShape.filters + first_filter();
  }
  __device__ __forceinline__ int64_t k() const {
    return tile_.group * a_.filters_per_group + filter();
  }
  /// Of the warp, that exist: none, or fewer.
  __device__ __forceinline__ int filters() const { return min(left_, kPatchFilters); }
  /// Of the warpgroup, in the tile.
  __device__ __forceinline__ int first_column() const {
    return T::kShape.divides_columns() ? warpgroup() * a_.tile.warpgroup_columns : 0;
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

  /// NCHW: neighbouring lanes have neighbouring pixels of a filter, a word of so many each; eight filters
  /// at a time, or sixteen. Memory takes longer for a part of a sector of 32 bytes than for a whole one, and where
  /// lanes begin and end there are parts: words of several pixels make for fewer of them.
  template <int kWord>
  __device__ __forceinline__ void write_rows(const Sums<T::kSums>& sums) {
    constexpr int kColumns = kWord == 1 ? kPatchColumns : 2 * kPatchColumns;
    constexpr int kFilters = kMatrices || kWord == 1 ? kPatchFilters : kPatchFilters / 2;
    constexpr int kPitch = kColumns + 8;
    constexpr int kLanes = kColumns / kWord, kTogether = 32 / kLanes;  // filters
    constexpr int kStores = std::min(kFilters / kTogether, 8);         // of a lane at a time
    static_assert(kFilters * kPitch * sizeof(Kept) <= sizeof(patch_.sums));
    const int64_t stride = a_.outputs.strides()[1];
    const int filter = lane_ / kLanes, column = lane_ % kLanes * kWord;
    Kept* const patch = reinterpret_cast<Kept*>(patch_.sums);
#pragma unroll
    for (int first = 0; first < T::kShape.columns; first += kColumns) {
      const bool exists = first + column < kPatches * kPatchColumns;
      const int place = exists ? columns_.output_at(first + column) : kNowhere;
#pragma unroll
      for (int part = 0; part < kPatchFilters; part += kFilters) {
        __syncwarp();
        put_rows<kColumns, kFilters>(sums, first, part / 8, patch);
        __syncwarp();
        if (place == kNowhere) continue;
#pragma unroll
        for (int i = 0; i < kFilters; i += kStores * kTogether)
          store_column<kStores, kWord, Element>(
              reinterpret_cast<Pixels<Element, kWord>*>(output_ + place +
                                                        (part + i + filter) * stride),
              kTogether * stride, patch + (i + filter) * kPitch + column, kTogether * kPitch);
      }
    }
  }

  /// So many columns from one on, of 16 filters or of the first or second eight of them, [filter][column].
  template <int kColumns, int kFilters>
  __device__ __forceinline__ void put_rows(const Sums<T::kSums>& sums, int first, int eight,
                                           Kept* patch) const {
    constexpr int kPitch = kColumns + 8;
    const int end = min(first + kColumns, T::kShape.columns);
    if constexpr (kMatrices) {
      // Two times eight columns at a time; beyond the last it is those once more.
      const uint32_t to = ptx::shared_address(patch + lane_ % 16 * kPitch + lane_ / 16 * 8);
#pragma unroll
      for (int i = first; i < end; i += 16) {
        uint32_t pairs[4];
        pack<Element>(&sums.sum[i / 2], pairs[0], pairs[1]);
        pack<Element>(&sums.sum[min(i + 8, end - 8) / 2], pairs[2], pairs[3]);
        ptx::store_matrices(to + (i - first) * static_cast<uint32_t>(sizeof(Kept)), pairs);
      }
    } else {
      float* const to = patch + lane_ / 4 * kPitch + lane_ % 4 * 2;
#pragma unroll
      for (int i = first; i < end; i += 8)
#pragma unroll
        for (int half = 0; half < kFilters / 8; ++half) {
          const float* const sum = &sums.sum[i / 2 + 2 * (eight + half)];
          *reinterpret_cast<float2*>(to + half * 8 * kPitch + i - first) =
              make_float2(sum[0], sum[1]);
        }
    }
  }

  /// NCHW, tiles of whole planes: those of eight filters are neighbours in memory, and go out as words of 16 bytes.
  __device__ __forceinline__ void write_planes(const Sums<T::kSums>& sums) const {
    const int plane = a_.p * a_.q;  // eight of them are as many words
#pragma unroll
    for (int half = 0; half < kPatchFilters / kPlaneFilters; ++half) {
      __syncwarp();
      if (a_.row_word > 1) {
        put_planes<true>(sums, half, plane);
      } else {
        put_planes<false>(sums, half, plane);
      }
      __syncwarp();
      const uint4* from = reinterpret_cast<const uint4*>(patch_.sums);
      Element* to = output_ + half * kPlaneFilters * plane;
      for (int image = 0; image < columns_.images(); ++image) {
#pragma unroll 4
        for (int i = lane_; i < plane; i += 32) reinterpret_cast<uint4*>(to)[i] = from[i];
        from += plane;
        to += a_.outputs.strides()[0];
      }
    }
  }

  /// The outputs of the thread's first filter or of its second; by pairs, if those are words.
  template <bool kPairs>
  __device__ __forceinline__ void put_planes(const Sums<T::kSums>& sums, int half,
                                             int plane) const {
    const uint32_t own =
        ptx::shared_address(patch_.sums) + lane_ / 4 * plane * static_cast<int>(sizeof(Element));
    const auto* places = reinterpret_cast<const uint32_t*>(block_.plane_places()) + lane_ % 4;
#pragma unroll
    for (int first = 0; first < T::kShape.columns; first += 8 * kPlacesTogether) {
      const int eights = min(kPlacesTogether, (T::kShape.columns - first) / 8);
      uint32_t two[kPlacesTogether];
#pragma unroll
      for (int i = 0; i < eights; ++i) two[i] = places[first / 2 + 4 * i];
#pragma unroll
      for (int i = 0; i < eights; ++i) {
        const float* const sum = &sums.sum[first / 2 + 4 * i + 2 * half];
        const uint32_t pair = packed_pair<Element>(sum[0], sum[1]);
        const uint32_t place = two[i] & 0xffff, next = two[i] >> 16;
        if constexpr (kPairs) {
          ptx::store_shared_if(place != kNoPlace, own + place, pair);
        } else {
          ptx::store_shared_half_if(place != kNoPlace, own + place, pair);
          ptx::store_shared_half_if(next != kNoPlace, own + next, pair >> 16);
        }
      }
    }
  }

  /// NHWC: a lane has 16 bytes of neighbouring filters of a pixel. In the patch the words of a
  /// column are neighbours, those of four columns exchanged with those of the four after them:
  /// eight columns, which are written at a time, then meet all banks.
  __device__ __forceinline__ void write_words(const Sums<T::kSums>& sums, int filters) const {
    constexpr int kWords = kPatchFilters / kWordFilters;  // of a column
    // As many 16-bit columns as fit a patch: fewer times to wait for one another.
    constexpr int kTogether = kHalves ? 2 * kPatchColumns : kPatchColumns;
    constexpr int kEach = kTogether * kWords / 32;  // words of a lane
    const bool exists = lane_ % kWords * kWordFilters < filters;
#pragma unroll
    for (int first = 0; first < T::kShape.columns; first += kTogether) {
      int places[kEach];
#pragma unroll
      for (int j = 0; j < kEach; ++j) {
        const int column = first + (lane_ + 32 * j) / kWords;
        places[j] =
            exists && column < kPatches * kPatchColumns ? columns_.output_at(column) : kNowhere;
      }
      __syncwarp();
#pragma unroll
      for (int chunk = 0; chunk < kTogether; chunk += kPatchColumns)
        for_eights(sums, first + chunk,
                   [&](const float* sum, int column) { put(sum, chunk + column); });
      __syncwarp();
      uint4 value[kEach];
#pragma unroll
      for (int j = 0; j < kEach; ++j) value[j] = *word((lane_ + 32 * j) / kWords, lane_ % kWords);
#pragma unroll
      for (int j = 0; j < kEach; ++j)
        if (places[j] != kNowhere)
          ptx::store_word(output_ + places[j] + lane_ % kWords * kWordFilters, value[j]);
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
  __device__ __forceinline__ void put(const float* sum, int column) const {
    if constexpr (kMatrices) {
      uint32_t pairs[2];
      pack<Element>(sum, pairs[0], pairs[1]);
      ptx::store_transposed(word(column + lane_ % 8, lane_ / 8 % 2), pairs[0], pairs[1]);
    } else {
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const int filter = lane_ / 4 + i / 2 * 8;
        uint4* to = word(column + lane_ % 4 * 2 + i % 2, filter / kWordFilters);
        reinterpret_cast<Element*>(to)[filter % kWordFilters] = from_compute<Element>(sum[i]);
      }
    }
  }

  /// NCHW, some of 16 filters.
  __device__ __forceinline__ void write_some(const Sums<T::kSums>& sums, int filters) const {
    float* const to = patch_.sums + lane_ / 4 * kPatchPitch + lane_ % 4 * 2;
#pragma unroll 1
    for (int first = 0; first < T::kShape.columns; first += kPatchColumns) {
      if (!columns_.has_any(first)) continue;
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
      write_patch(filters, first);
    }
  }

  /// Of the columns in the patch.
  __device__ __forceinline__ void write_patch(int filters, int first) const {
    switch (a_.row_word) {
      case 4: return write_patch_rows<4>(filters, first);
      case 2: return write_patch_rows<2>(filters, first);
      default: write_patch_rows<1>(filters, first);
    }
  }

  /// A lane has a word of a row, and other filters' right below.
  template <int kWord>
  __device__ __forceinline__ void write_patch_rows(int filters, int first) const {
    constexpr int kLanes = kPatchColumns / kWord;
    const int column = lane_ % kLanes * kWord, place = columns_.output_at(first + column);
    if (place == kNowhere) return;
    const int64_t stride = a_.outputs.strides()[1];
#pragma unroll 4
    for (int filter = lane_ / kLanes; filter < filters; filter += kWord)
      *reinterpret_cast<Pixels<Element, kWord>*>(output_ + place + filter * stride) =
          to_pixels<Element, kWord>(patch_.sums + filter * kPatchPitch + column);
  }

  /// NHWC, pixels of any filters: the warps of a warpgroup give each other columns, so that a warp has all of the
  /// warpgroup's filters of some pixels, kFilters at most, which are neighbours in memory. In the patches
  /// [column][filter]; an odd number of 16 bytes from a column to the next sends eight to different banks.
  template <int kFilters>
  __device__ __forceinline__ void write_pixels(const Sums<T::kSums>& sums, int filters) const {
    constexpr int kPitch = kFilters + kWordFilters;
    constexpr int kColumns =
        static_cast<int>(sizeof(patch_.sums) / sizeof(Element)) / kPitch / 8 * 8;  // of a patch
    static_assert(kColumns > 0 && kColumns <= 32);
    const int own = first_filter() % kBoxedFilters, warp = thread_ % 128 / 32;
    Element* const output = output_ - own;
#pragma unroll 1
    for (int first = 0; first < T::kShape.columns; first += 4 * kColumns) {
      ptx::named_barrier(kPatchesBarrier + warpgroup(), 128);  // all have written what was in them
      if (own < filters) {
#pragma unroll
        for (int i = 0; i < T::kShape.columns; i += 4 * kColumns)
          if (i == first) put_pixels<kPitch, kColumns>(sums, i, own);
      }
      ptx::named_barrier(kPatchesBarrier + warpgroup(), 128);
      const int column = first + warp * kColumns + lane_ % kColumns;
      const int place = column < kPatches * kPatchColumns ? columns_.output_at(column) : kNowhere;
      switch (a_.filter_word) {
        case 4: write_patch_pixels<4, kPitch, kColumns>(output, place, filters); break;
        case 2: write_patch_pixels<2, kPitch, kColumns>(output, place, filters); break;
        default: write_patch_pixels<1, kPitch, kColumns>(output, place, filters);
      }
    }
  }

  /// So many columns from one on to the patch of each warp of the warpgroup.
  template <int kPitch, int kColumns>
  __device__ __forceinline__ void put_pixels(const Sums<T::kSums>& sums, int first,
                                             int filter) const {
#pragma unroll
    for (int i = 0; i < min(T::kShape.columns - first, 4 * kColumns); i += 8) {
      Patch& patch = block_.patch(thread_ / 128 * 4 + i / kColumns);
      Element* const to = reinterpret_cast<Element*>(patch.sums) + i % kColumns * kPitch + filter;
      const float* const sum = &sums.sum[(first + i) / 2];
      if constexpr (kMatrices) {
        uint32_t pairs[2];
        pack<Element>(sum, pairs[0], pairs[1]);
        ptx::store_transposed(to + lane_ % 8 * kPitch + lane_ / 8 % 2 * 8, pairs[0], pairs[1]);
      } else {
#pragma unroll
        for (int j = 0; j < 4; ++j)
          to[(lane_ % 4 * 2 + j % 2) * kPitch + lane_ / 4 + j / 2 * 8] =
              from_compute<Element>(sum[j]);
      }
    }
  }

  /// The columns of the patch, of which each lane has the place of one: neighbouring lanes write neighbouring words of
  /// filters.
  template <int kWord, int kPitch, int kColumns>
  __device__ __forceinline__ void write_patch_pixels(Element* output, int place,
                                                     int filters) const {
    using Word = Pixels<Element, kWord>;
    const unsigned words = static_cast<unsigned>(filters) / kWord, all = kColumns * words;
    const unsigned columns_on = 32 / words, words_on = 32 - columns_on * words;
    const auto lane = static_cast<unsigned>(lane_);
    unsigned column = lane / words, word = lane - column * words;
    const auto* const patch = reinterpret_cast<const Element*>(patch_.sums);
#pragma unroll 4
    for (unsigned i = 0; i < all; i += 32) {
      const int own = __shfl_sync(~0u, place, static_cast<int>(column));
      if (column < kColumns && own != kNowhere)
        *reinterpret_cast<Word*>(output + own + word * kWord) =
            *reinterpret_cast<const Word*>(patch + column * kPitch + word * kWord);
      word += words_on;
      const bool ends = word >= words;
      word -= ends ? words : 0;
      column += columns_on + (ends ? 1 : 0);
    }
  }

  const Arguments<Element>& a_;
  Block<T> block_;
  TilePosition tile_;
  int set_;     // of the warpgroup's filters, whose sums are written
  int thread_;  // of the multiplying ones
  int lane_;
  Patch& patch_;
  TileColumns<T> columns_;
  int left_;  // filters of the group, from the warp's first on
  Finisher<T> finisher_;
  Element* output_;  // of the tile's first pixel and the warp's first filter
};

}  // namespace im2win::cuda::fused
