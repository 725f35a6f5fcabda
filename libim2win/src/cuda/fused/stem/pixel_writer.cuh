// From pixel-major sums to an output row in memory.
#pragma once

#include <cstdint>

#include "cuda/fused/stem/arguments.cuh"
#include "cuda/fused/stem/multiply.cuh"
#include "cuda/fused/sum_again.cuh"
#include "cuda/fused/writer.cuh"
#include "cuda/numeric.cuh"
#include "cuda/ptx.cuh"

namespace im2win::cuda::fused::stem {

/// Some filters' sums at a time go through a patch of the warpgroup's: warps put 16 pixels of all of them, and
/// write whole rows of some. On their way out the scales of split filters are taken out of them.
template <class T>
class PixelWriter {
 public:
  using Element = typename T::Element;

  __device__ __forceinline__ PixelWriter(const Arguments<Element>& a, Block<T> block, int warpgroup)
      : a_(a), block_(block), warpgroup_(warpgroup), thread_(ptx::thread_in_block() % 128) {}

  /// The block's filters, by all threads that multiply. Once the kernel before has ended, which packs them,
  /// perhaps.
  __device__ __forceinline__ void enter(const TilePosition& first) {
    const int filters = this->filters(first);
    const float* scales = filter_scales<T>(a_, first);
    adds_simply_ = a_.outputs.only_adds_bias_and_clamps() && a_.outputs.strides()[3] == 1;
    constexpr int kThreads = T::kShape.multiplying_threads();
    static_assert(T::kShape.filters <= kThreads);
    if (const int i = warpgroup_ * 128 + thread_; i < T::kShape.filters)
      ends()[i] =
          i < filters ? FilterEnd{scales[i], a_.outputs.bias(first_k(first) + i)} : FilterEnd{1, 0};
    ptx::named_barrier(kColumnsBarrier, kThreads);
    for (int i = 0; i < T::kShape.filters; ++i) adds_simply_ &= ends()[i].scale > 0;
  }

  /// `tile` begins with them.
  __device__ __forceinline__ void write(const Sums<T::kSums>& sums, const TilePosition& tile, int,
                                        InRow) const {
    const int pixels = min(a_.q - tile.q, min(a_.tile.columns, T::kShape.columns));
    Element* const row = a_.outputs.data() + a_.outputs.pixel(tile.n, tile.p, tile.q).output +
                         first_k(tile) * a_.outputs.strides()[1];
    if (!adds_simply_ || sums.doubt[1] != 0) {
      write_rounds(sums, [&](int round) { write_singly(round, pixels, tile, sums.doubt); });
    } else if (a_.row_word == 4) {
      write_rounds(sums, [&](int round) { write_rows<4>(round, pixels, tile, row); });
    } else if (a_.row_word == 2) {
      write_rounds(sums, [&](int round) { write_rows<2>(round, pixels, tile, row); });
    } else {
      write_rounds(sums, [&](int round) { write_rows<1>(round, pixels, tile, row); });
    }
  }

  __device__ __forceinline__ void finish() const {}

 private:
  static constexpr int kRounds = T::kShape.filters / kPixelPatchFilters;
  static constexpr int kOwn = kPixelPatchFilters / 4;  // filters of a patch that a warp writes
  static_assert(T::kShape.filters % kPixelPatchFilters == 0);
  static_assert(2 * kPixelPatchPitch % 32 == 8 && T::kShape.columns < kPixelPatchPitch);

  __device__ __forceinline__ void meet() const {
    ptx::named_barrier(kFirstWritingBarrier + warpgroup_, 128);
  }

  /// Calls `write_patch` for each patch.
  template <class WritePatch>
  __device__ __forceinline__ void write_rounds(const Sums<T::kSums>& sums,
                                               const WritePatch& write_patch) const {
#pragma unroll
    for (int round = 0; round < kRounds; ++round) {
      meet();
      put(&sums.sum[round * kPixelPatchFilters / 2]);
      meet();
      write_patch(round);
    }
  }

  /// The thread's sums of the patch's filters (see Wgmma).
  __device__ __forceinline__ void put(const float* sums) const {
    const int pixel = thread_ / 32 * 16 + thread_ % 32 / 4, filter = thread_ % 4 * 2;
    float* const to = patch() + filter * kPixelPatchPitch + pixel;
#pragma unroll
    for (int i = 0; i < kPixelPatchFilters / 2; ++i)
      to[(i / 4 * 8 + i % 2) * kPixelPatchPitch + i / 2 % 2 * 8] = sums[i];
  }

  /// Of the block, the group's first and how many.
  __device__ __forceinline__ int64_t first_k(const TilePosition& tile) const {
    return tile.group * a_.filters_per_group + tile.filter_tile * T::kShape.filters;
  }
  __device__ __forceinline__ int filters(const TilePosition& tile) const {
    return static_cast<int>(a_.filters_per_group) - tile.filter_tile * T::kShape.filters;
  }

  __device__ __forceinline__ FilterEnd* ends() const {
    return reinterpret_cast<FilterEnd*>(dynamic_shared_memory + block_.layout.columns);
  }
  __device__ __forceinline__ float* patch() const {
    return reinterpret_cast<float*>(dynamic_shared_memory + block_.layout.patches +
                                    warpgroup_ * kPixelPatchBytes);
  }

  /// Words of so many pixels, of one filter at a time, or of two.
  template <int kWord>
  __device__ __forceinline__ void write_rows(int round, int pixels, const TilePosition& tile,
                                             Element* row) const {
    constexpr int kLanes = kWord == 4 ? 16 : 32, kTogether = 32 / kLanes;  // filters
    constexpr int kWords = T::kShape.columns / kWord / kLanes;             // of a lane
    constexpr int kCount = kOwn / kTogether;
    const int lane = thread_ % 32, first = lane % kLanes * kWord;
    const int in_patch = thread_ / 32 * kOwn + lane / kLanes;
    const int filter = round * kPixelPatchFilters + in_patch, filters = this->filters(tile);
    const int64_t stride = a_.outputs.strides()[1];
    const float* const from = patch() + in_patch * kPixelPatchPitch + first;
    // A register that holds an address is free when its store has left the queue of the memory pipe.
    Element* to[kCount];
    Pixels<Element, kWord> words[kCount][kWords];
#pragma unroll
    for (int i = 0; i < kCount; ++i) {
      to[i] = row + (filter + i * kTogether) * stride + first;
      const FilterEnd end = ends()[filter + i * kTogether];
#pragma unroll
      for (int j = 0; j < kWords; ++j)
        words[i][j] =
            finished<kWord>(from + i * kTogether * kPixelPatchPitch + j * kLanes * kWord, end);
    }
    ptx::all_known(to);
#pragma unroll
    for (int j = 0; j < kWords; ++j)
#pragma unroll
      for (int i = 0; i < kCount; ++i)
        if (first + j * kLanes * kWord < pixels && filter + i * kTogether < filters)
          reinterpret_cast<Pixels<Element, kWord>*>(to[i])[j * kLanes] = words[i][j];
  }

  template <int kWord>
  __device__ __forceinline__ Pixels<Element, kWord> finished(const float* sums,
                                                             const FilterEnd& end) const {
    auto x = *reinterpret_cast<const Pixels<float, kWord>*>(sums);
#pragma unroll
    for (float& sum : x.x) sum = ptx::max_or_nan(fmaf(sum, end.scale, end.bias), a_.outputs.low());
    return to_pixels<Element, kWord>(x.x);
  }

  /// Any strides, residual and activation, and sums that are in doubt: `doubt` of filters that give reason for
  /// it, and of others.
  __device__ __forceinline__ void write_singly(int round, int pixels, const TilePosition& tile,
                                               const float (&doubt)[2]) const {
    constexpr int kPixels = T::kShape.columns;
    const auto at = a_.outputs.pixel(tile.n, tile.p, tile.q);
    const int filters = this->filters(tile) - round * kPixelPatchFilters;
#pragma unroll 1
    for (int i = thread_; i < kPixelPatchFilters * kPixels; i += 128) {
      const int filter = i / kPixels, pixel = i % kPixels;
      const bool exists = pixel < pixels && filter < filters;
      const FilterEnd end = ends()[round * kPixelPatchFilters + filter];
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
  int thread_;  // of the warpgroup
  // Whether outputs are rows of sums and a bias, perhaps clamped from below, unless there is doubt.
  bool adds_simply_ = false;
};

}  // namespace im2win::cuda::fused::stem
