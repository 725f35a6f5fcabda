// From pixel-major sums to an output row in memory.
#pragma once

#include <cstdint>

#include "cuda/fused/finish.cuh"
#include "cuda/fused/pixel_patch.cuh"
#include "cuda/fused/stem/arguments.cuh"
#include "cuda/fused/stem/multiply.cuh"
#include "cuda/fused/sum_again.cuh"
#include "cuda/fused/writer.cuh"
#include "cuda/numeric.cuh"
#include "cuda/ptx.cuh"

namespace im2win::cuda::fused::stem {

/// Some filters' sums at a time go through a patch of shared memory. In NCHW it is the warpgroup's: warps put 16
/// pixels of all of them, and write whole rows of some. In NHWC each warp has a part, where it puts 16 rows of
/// finished outputs, and writes these. On their way out the scales of split filters are taken out of sums.
template <class T>
class PixelWriter {
 public:
  using Element = typename T::Element;

  __device__ __forceinline__ PixelWriter(const Arguments<Element>& a, Block<T> block, int warpgroup)
      : a_(a), block_(block), warpgroup_(warpgroup), thread_(ptx::thread_in_block() % 128) {}

  /// The block's filters, by all threads that multiply. Once the kernel before has ended, which packs them,
  /// perhaps.
  __device__ __forceinline__ void enter(const TilePosition& first) {
    const int filters = this->filters(first), all = a_.sets * T::kShape.filters;
    constexpr int kThreads = T::kShape.multiplying_threads();
    for (int i = warpgroup_ * 128 + thread_; i < all; i += kThreads) {
      FilterEnd end;
      end.bias = i < filters ? a_.outputs.bias(first_k(first) + i) : 0;
      if constexpr (kSplit) end.scale = i < filters ? filter_scales<T>(a_, first)[i] : 1;
      all_ends()[i] = end;
    }
    ptx::named_barrier(kColumnsBarrier, kThreads);
    order_ = a_.row_order;
    if constexpr (kSplit)
      for (int i = 0; i < all; ++i)
        if (!(all_ends()[i].scale > 0)) order_ = RowOrder::kOne;
  }

  /// `tile` begins with them, of the block's set of filters of that number.
  __device__ __forceinline__ void write(const Sums<T::kSums>& sums, const TilePosition& tile,
                                        int set, InRow) {
    // What is computed from it is not kept from chunk to chunk: registers do not suffice for that.
    thread_ = ptx::unknown(thread_);
    ends_ = all_ends() + set * T::kShape.filters;
    const int pixels = min(a_.q - tile.q, min(a_.tile.columns, T::kShape.columns));
    Element* const row = a_.outputs.data() + a_.outputs.pixel(tile.n, tile.p, tile.q).output +
                         first_k(tile) * a_.outputs.strides()[1];
    const Chunk chunk = {tile, pixels, row, has_doubts(sums, pixels)};
    if (order_ == RowOrder::kOne || (kSplit && sums.doubt[1] != 0)) {
      write_rounds(sums, chunk, [&](int round) { write_singly(round, chunk, sums.doubt); });
    } else if (order_ == RowOrder::kFilters) {
      if (!kSplit && !kHalves && a_.outputs.are_sums()) {  // 16 bits are no faster so
        write_words<true>(sums, chunk);
      } else {
        write_words<false>(sums, chunk);
      }
    } else if (a_.row_word == 4) {
      write_rounds(sums, chunk, [&](int round) { write_rows<4>(round, chunk); });
    } else if (a_.row_word == 2) {
      write_rounds(sums, chunk, [&](int round) { write_rows<2>(round, chunk); });
    } else {
      write_rounds(sums, chunk, [&](int round) { write_rows<1>(round, chunk); });
    }
  }

  __device__ __forceinline__ void finish() const {}

 private:
  static constexpr bool kSplit = T::kOperands == Operands::kSplit;
  using FilterEnd = stem::FilterEnd<kSplit>;
  static constexpr bool kHalves = sizeof(Element) == 2;
  static constexpr int kRounds = T::kShape.filters / kPixelPatchFilters;
  static constexpr int kOwn = kPixelPatchFilters / 4;  // filters of a patch that a warp writes
  static constexpr int kOwnPixels = 16;                // that it puts
  // Of a warp's part of a patch in NHWC.
  static constexpr int kWord = kUnitBytes / static_cast<int>(sizeof(Element));
  static constexpr int kWords = kPixelPatchFilters / kWord;  // of a pixel
  static_assert(T::kShape.filters % kPixelPatchFilters == 0);
  static_assert(T::kShape.columns < kPixelPatchPitch);
  static_assert(4 * kOwnPixels * kWords * kUnitBytes <= kPixelPatchBytes);

  /// Of neighbours.
  struct alignas(2 * sizeof(FilterEnd)) FilterEnds {
    FilterEnd end[2];
  };

  /// Of an output row, of some of its pixels the first filter's first.
  struct Chunk {
    const TilePosition& tile;
    int pixels;
    Element* row;
    bool doubtful;  // whether any of the warp's sums may have to be formed again: see settle_put
  };

  __device__ __forceinline__ void meet() const {
    ptx::named_barrier(kFirstWritingBarrier + warpgroup_, 128);
  }
  __device__ __forceinline__ int lane() const { return thread_ % 32; }
  /// The first that the warp puts, of the chunk's.
  __device__ __forceinline__ int first_pixel() const { return thread_ / 32 * kOwnPixels; }

  /// Of operands as they are: NaN, or infinite. Sums of pixels behind the chunk's are of anything.
  __device__ __forceinline__ bool has_doubts(const Sums<T::kSums>& sums, int pixels) const {
    if (kSplit || !a_.rechecks) return false;
    float zero[4] = {};  // NaN where any is: several, as each waits for the last
#pragma unroll
    for (int i = 0; i < T::kSums; ++i) zero[i % 4] = fmaf(sums.sum[i], 0, zero[i % 4]);
    const int pixel = first_pixel() + lane() / 4;
    const float first = zero[0] + zero[1], second = zero[2] + zero[3];
    return __any_sync(
        ~0u, (pixel < pixels && first != first) || (pixel + 8 < pixels && second != second));
  }

  /// Calls `write_patch` for each patch.
  template <class WritePatch>
  __device__ __forceinline__ void write_rounds(const Sums<T::kSums>& sums, const Chunk& chunk,
                                               const WritePatch& write_patch) const {
#pragma unroll
    for (int round = 0; round < kRounds; ++round) {
      meet();
      put_pixels(patch(), thread_, &sums.sum[round * kPixelPatchFilters / 2]);
      if (chunk.doubtful)
        settle_put(
            round, chunk,
            [&](int filter, int pixel) {
              return patch() + filter * kPixelPatchPitch + first_pixel() + pixel;
            },
            [](float sum, int) { return sum; });
      meet();
      write_patch(round);
    }
  }

  /// Rare, and never of split operands: forms what the warp has put again where it is NaN, as its sum may be.
  /// locate(filter of the patch, pixel of the warp's): where it is. finish(sum, filter): what it becomes.
  template <class Locate, class Finish>
  __device__ __forceinline__ void settle_put(int round, const Chunk& chunk, const Locate& locate,
                                             const Finish& finish) const {
    __syncwarp();
    const int first_filter = round * kPixelPatchFilters;
#pragma unroll 1
    for (int i = 0; i < kPixelPatchFilters * kOwnPixels; i += 32) {
      const int filter = (i + lane()) / kOwnPixels, pixel = lane() % kOwnPixels;
      auto* const own = locate(filter, pixel);
      const float put = to_compute<float>(*own);
      const bool exists =
          first_pixel() + pixel < chunk.pixels && first_filter + filter < this->filters(chunk.tile);
      for_lanes(exists && put != put, [&](int of) {
        const int64_t k = first_k(chunk.tile) + first_filter + (i + of) / kOwnPixels;
        const int q = chunk.tile.q + first_pixel() + of % kOwnPixels;
        const float again = sum_again(a_, chunk.tile.group, k, chunk.tile.n, chunk.tile.p, q);
        if (lane() == of) *own = finish(again, filter);
      });
    }
  }

  /// NHWC: 16 bytes of neighbouring filters of a pixel a lane. Where these are is found once: of a warp that goes
  /// through instructions one by one, it is they that take the time. `kAreSums`: whether outputs are sums.
  template <bool kAreSums>
  __device__ __forceinline__ void write_words(const Sums<T::kSums>& sums,
                                              const Chunk& chunk) const {
    // Those of its chunk before, some of which are formed again, may have been the whole warpgroup's.
    if constexpr (kSplit) meet();
    constexpr int kEach = kOwnPixels * kWords / 32;  // of a lane, for each patch
    const int part = lane() % kWords;
    const uint4* from[kEach];
    Element* to[kEach];
    int filters[kEach];  // of the pixel, from the first of the lane's
#pragma unroll
    for (int i = 0; i < kEach; ++i) {
      const int pixel = (lane() + 32 * i) / kWords, at = first_pixel() + pixel;
      from[i] = word(pixel, part);
      to[i] = chunk.row + at * a_.outputs.strides()[3] + part * kWord;
      filters[i] = at < chunk.pixels ? this->filters(chunk.tile) - part * kWord : 0;
    }
    const auto places = put_places();
#pragma unroll
    for (int round = 0; round < kRounds; ++round) {
      const int first_filter = round * kPixelPatchFilters;
      __syncwarp();
      put_finished<kAreSums>(&sums.sum[first_filter / 2], ends_ + first_filter, places);
      if (chunk.doubtful)
        settle_put(
            round, chunk,
            [&](int filter, int pixel) {
              return reinterpret_cast<Element*>(word(pixel, filter / kWord)) + filter % kWord;
            },
            [&](float sum, int filter) {
              return from_compute<Element>(finished(sum, ends_[first_filter + filter]));
            });
      __syncwarp();
#pragma unroll
      for (int i = 0; i < kEach; ++i)
        if (first_filter < filters[i])
          ptx::store_streaming(reinterpret_cast<uint4*>(to[i] + first_filter), *from[i]);
    }
  }

  /// A pixel's words are neighbours, but exchanged so that those which lanes put or read at a time meet all
  /// banks: of 16 bits a word of each of eight pixels, which are 64 bytes apart, or two pixels; else the halves
  /// of four pixels' pairs of words, 128 bytes apart, or a pixel.
  __device__ __forceinline__ uint4* word(int pixel, int part) const {
    const int exchanged = part ^ (kHalves ? pixel / 2 % 4 : pixel % 4 * 2);
    return reinterpret_cast<uint4*>(patch()) + (first_pixel() + pixel) * kWords + exchanged;
  }

  /// Where the thread puts its sums of eight filters: of 16 bits, a row of one of the matrices of two times
  /// eight, or else two neighbours of the first pixel.
  struct PutPlaces {
    uint32_t of[kPixelPatchFilters / 8];
  };
  __device__ __forceinline__ PutPlaces put_places() const {
    PutPlaces places;
#pragma unroll
    for (int i = 0; i < kPixelPatchFilters / 8; ++i)
      places.of[i] = ptx::shared_address(kHalves ? word(lane() % 16, i + lane() / 16)
                                                 : word(lane() / 4, 2 * i + lane() % 4 / 2)) +
                     (kHalves ? 0 : lane() % 2 * static_cast<uint32_t>(sizeof(float2)));
    return places;
  }

  /// The thread's sums of the patch's filters, as outputs.
  template <bool kAreSums>
  __device__ __forceinline__ void put_finished(const float* sums, const FilterEnd* ends,
                                               const PutPlaces& places) const {
    const int first = lane() % 4 * 2;  // filter, of each eight
#pragma unroll
    for (int eight = 0; eight < kPixelPatchFilters / 8; eight += 2) {
      float x[2][2][2];  // of two eights, pixels, filters
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        const FilterEnds of = *reinterpret_cast<const FilterEnds*>(ends + (eight + i) * 8 + first);
#pragma unroll
        for (int j = 0; j < 4; ++j) {
          const float sum = sums[(eight + i) * 4 + j];
          x[i][j / 2][j % 2] = kAreSums ? sum : finished(sum, of.end[j % 2]);
        }
      }
      if constexpr (kHalves) {
        const uint32_t pairs[4] = {packed_pair<Element>(x[0][0][0], x[0][0][1]),
                                   packed_pair<Element>(x[0][1][0], x[0][1][1]),
                                   packed_pair<Element>(x[1][0][0], x[1][0][1]),
                                   packed_pair<Element>(x[1][1][0], x[1][1][1])};
        ptx::store_matrices(places.of[eight], pairs);
      } else {
        // Pixels eight further on have their words exchanged alike.
        constexpr uint32_t kEightPixels = 8 * kWords * kUnitBytes;
#pragma unroll
        for (int i = 0; i < 2; ++i)
#pragma unroll
          for (int j = 0; j < 2; ++j)
            ptx::store_shared(places.of[eight + i] + j * kEightPixels,
                              float2{x[i][j][0], x[i][j][1]});
      }
    }
  }

  __device__ __forceinline__ float finished(float sum, const FilterEnd& end) const {
    return ptx::max_or_nan(kSplit ? fmaf(sum, end.scale, end.bias) : sum + end.bias,
                           a_.outputs.low());
  }

  /// Of the block, the group's first and how many.
  __device__ __forceinline__ int64_t first_k(const TilePosition& tile) const {
    return tile.group * a_.filters_per_group + tile.filter_tile * T::kShape.filters;
  }
  __device__ __forceinline__ int filters(const TilePosition& tile) const {
    return static_cast<int>(a_.filters_per_group) - tile.filter_tile * T::kShape.filters;
  }

  /// Of all sets of the block's.
  __device__ __forceinline__ FilterEnd* all_ends() const {
    return reinterpret_cast<FilterEnd*>(dynamic_shared_memory + block_.layout.columns);
  }
  __device__ __forceinline__ float* patch() const {
    return reinterpret_cast<float*>(dynamic_shared_memory + block_.layout.patches +
                                    warpgroup_ * kPixelPatchBytes);
  }

  /// Words of so many pixels, of one filter at a time, or of two.
  template <int kWord>
  __device__ __forceinline__ void write_rows(int round, const Chunk& chunk) const {
    constexpr int kLanes = kWord == 4 ? 16 : 32, kTogether = 32 / kLanes;  // filters
    constexpr int kWords = T::kShape.columns / kWord / kLanes;             // of a lane
    constexpr int kCount = kOwn / kTogether;
    const int lane = thread_ % 32, first = lane % kLanes * kWord;
    const int in_patch = thread_ / 32 * kOwn + lane / kLanes;
    const int filter = round * kPixelPatchFilters + in_patch;
    const int filters = this->filters(chunk.tile);
    const int64_t stride = a_.outputs.strides()[1];
    const float* const from = patch() + in_patch * kPixelPatchPitch + first;
    // A register that holds an address is free when its store has left the queue of the memory pipe.
    Element* to[kCount];
    Pixels<Element, kWord> words[kCount][kWords];
#pragma unroll
    for (int i = 0; i < kCount; ++i) {
      to[i] = chunk.row + (filter + i * kTogether) * stride + first;
      const FilterEnd end = ends_[filter + i * kTogether];
#pragma unroll
      for (int j = 0; j < kWords; ++j)
        words[i][j] =
            finished_word<kWord>(from + i * kTogether * kPixelPatchPitch + j * kLanes * kWord, end);
    }
    ptx::all_known(to);
#pragma unroll
    for (int j = 0; j < kWords; ++j)
#pragma unroll
      for (int i = 0; i < kCount; ++i)
        if (first + j * kLanes * kWord < chunk.pixels && filter + i * kTogether < filters)
          reinterpret_cast<Pixels<Element, kWord>*>(to[i])[j * kLanes] = words[i][j];
  }

  template <int kWord>
  __device__ __forceinline__ Pixels<Element, kWord> finished_word(const float* sums,
                                                                  const FilterEnd& end) const {
    auto x = *reinterpret_cast<const Pixels<float, kWord>*>(sums);
#pragma unroll
    for (float& sum : x.x) sum = finished(sum, end);
    return to_pixels<Element, kWord>(x.x);
  }

  /// Any strides, residual and activation, and sums that are in doubt: `doubt` of filters that give reason for
  /// it, and of others.
  __device__ __forceinline__ void write_singly(int round, const Chunk& chunk,
                                               const float (&doubt)[2]) const {
    const TilePosition& tile = chunk.tile;
    constexpr int kPixels = T::kShape.columns;
    const auto at = a_.outputs.pixel(tile.n, tile.p, tile.q);
    const int filters = this->filters(tile) - round * kPixelPatchFilters;
#pragma unroll 1
    for (int i = thread_; i < kPixelPatchFilters * kPixels; i += 128) {
      const int filter = i / kPixels, pixel = i % kPixels;
      const bool exists = pixel < chunk.pixels && filter < filters;
      const FilterEnd end = ends_[round * kPixelPatchFilters + filter];
      float sum = patch()[filter * kPixelPatchPitch + pixel] * fabsf(end.scale);
      const float bound = (end.scale > 0 ? doubt[1] : doubt[0]) * fabsf(end.scale);
      const int64_t k = first_k(tile) + round * kPixelPatchFilters + filter;
      settle(exists && bound != 0 && !(fabsf(sum) >= bound), k, tile, pixel, sum);
      if (exists) write_one(sum, k, at, pixel);
    }
  }

  /// Forms the sums of those lanes again, each by all lanes.
  __device__ __forceinline__ void settle(bool doubtful, int64_t k, const TilePosition& tile,
                                         int pixel, float& sum) const {
    for (unsigned lanes = __ballot_sync(~0u, doubtful); lanes != 0; lanes &= lanes - 1) {
      const int lane = __ffs(static_cast<int>(lanes)) - 1;
      const int64_t own = __shfl_sync(~0u, k, lane);
      const int q = tile.q + __shfl_sync(~0u, pixel, lane);
      const float again = sum_again(a_, tile.group, own, tile.n, tile.p, q);
      if (thread_ % 32 == lane) sum = again;
    }
  }

  __device__ __forceinline__ void write_one(float sum, int64_t k,
                                            const typename Outputs<Element, float>::Pixel& first,
                                            int pixel) const {
    const typename Outputs<Element, float>::Pixel at = {
        first.output + pixel * a_.outputs.strides()[3],
        first.residual + pixel * a_.outputs.residual_strides()[3]};
    a_.outputs.data()[at.output + k * a_.outputs.strides()[1]] = a_.outputs.finished(k, at, sum);
  }

  const Arguments<Element>& a_;
  Block<T> block_;
  int warpgroup_;
  int thread_;                       // of the warpgroup
  RowOrder order_ = RowOrder::kOne;  // of outputs, unless there is doubt
  const FilterEnd* ends_ = nullptr;  // of the set that is written
};

}  // namespace im2win::cuda::fused::stem
