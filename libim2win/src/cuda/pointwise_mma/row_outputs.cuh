// Where filters are neighbours: from sums in registers to outputs. A lane has four filters of each pixel, and four lanes
// neighbours. See outputs.cuh.
#pragma once

#include <cstdint>

#include "cuda/pointwise_mma/doubts.cuh"
#include "cuda/pointwise_mma/products.cuh"
#include "cuda/pointwise_mma/store.cuh"

namespace im2win::cuda::pointwise_mma {

/// Of a lane, in a tile.
template <class T>
class RowWriter {
 public:
  using Element = typename T::Element;

  __device__ __forceinline__ RowWriter(const Arguments<Element>& a, int32_t tile,
                                       int32_t first_filter)
      : a_(a),
        first_pixel_(tile * T::kPixels + lane_of_warp() / 4),
        first_filter_(first_filter + lane_of_warp() % 4 * kFilters) {}

  /// Of a pass, whose first filter is this of the part's. `doubt`: see doubt_of.
  __device__ __forceinline__ void write(const RowSums<T>& sums, int32_t filter, float doubt) const {
    if (a_.outputs.only_adds_bias_and_clamps() && !(T::kHasDoubts && has_doubts(sums, doubt)))
      return write_clamped(sums, filter);
    const RowSums<T> copy = sums;  // or sums would be in memory from the beginning
    write_finished(*this, copy, filter, doubt);
  }

 private:
  static constexpr int kFilters = 4, kRows = T::kPixels / 8;
  using Four = fused::Pixels<float, kFilters>;

  /// Of a pixel eight pixels after the one before it.
  __device__ __forceinline__ static void gather(const RowSums<T>& sums, int i, int row, Four& x) {
#pragma unroll
    for (int j = 0; j < kFilters; ++j) x.x[j] = sums.x[i][row / 2][j / 2][row % 2 * 2 + j % 2];
  }

  /// By words of so many filters.
  template <int kWord>
  __device__ __forceinline__ static void store_words(Element* to, const Four& x, int32_t left) {
#pragma unroll
    for (int j = 0; j < kFilters; j += kWord)
      if (j < left) store<kWord>(to + j, x.x + j);
  }
  __device__ __forceinline__ void store_filters(Element* to, const Four& x, int32_t left) const {
    switch (a_.output_word) {
      case 4: return store_words<4>(to, x, left);
      case 2: return store_words<2>(to, x, left);
      default: return store_words<1>(to, x, left);
    }
  }

  __device__ __forceinline__ void write_clamped(const RowSums<T>& sums, int32_t filter) const {
    const float low = a_.outputs.low();
    const int64_t stride = a_.output_stride;
#pragma unroll
    for (int i = 0; i < T::kSixteens; ++i) {
      const int32_t own = filter + i * kProductFilters;
      const int32_t left = a_.filters - first_filter_ - own;
      if (left <= 0) continue;
      const Four bias = *reinterpret_cast<const Four*>(lane_biases() + own);
      Element* const to = a_.outputs.data() + first_pixel_ * stride + first_filter_ + own;
#pragma unroll
      for (int row = 0; row < kRows; ++row) {
        Four x;
        gather(sums, i, row, x);
#pragma unroll
        for (int j = 0; j < kFilters; ++j) x.x[j] = ptx::max_or_nan(x.x[j] + bias.x[j], low);
        if (first_pixel_ + 8 * row < a_.pixels) store_filters(to + 8 * row * stride, x, left);
      }
    }
  }

  /// Out of line and in loops, of sums in memory, as registers have no run-time index.
  __device__ __noinline__ static void write_finished(const RowWriter writer, const RowSums<T>& sums,
                                                     int32_t filter, float doubt) {
#pragma unroll 1
    for (int i = 0; i < T::kSixteens; ++i)
#pragma unroll 1
      for (int row = 0; row < kRows; ++row)
        if (writer.first_pixel_ + 8 * row < writer.a_.pixels)
          writer.finish(sums, i, row, filter + i * kProductFilters, doubt);
  }

  __device__ __forceinline__ void finish(const RowSums<T>& sums, int i, int row, int32_t own,
                                         float doubt) const {
    const auto& outputs = a_.outputs;
    const int32_t left = a_.filters - first_filter_ - own;
    if (left <= 0) return;
    const int64_t pixel = first_pixel_ + 8 * row;
    const Element* residual = outputs.residual_data();
    if (residual != nullptr) residual += pixel * a_.residual_stride + first_filter_ + own;
    Four x;
    gather(sums, i, row, x);
    if constexpr (T::kHasDoubts)
      for (int j = 0; j < min(left, kFilters); ++j)
        if (is_in_doubt(x.x[j], doubt))
          x.x[j] = sum_again<T>(a_, first_pixel_ + 8 * row, first_filter_ + own + j);
#pragma unroll
    for (int j = 0; j < kFilters; ++j) {
      const float addend = residual != nullptr && j < left ? to_compute<float>(residual[j]) : 0;
      x.x[j] = outputs.added(x.x[j], addend, lane_biases()[own + j]);
    }
    outputs.activate(x.x);
    store_filters(outputs.data() + pixel * a_.output_stride + first_filter_ + own, x, left);
  }

  __device__ __forceinline__ const float* lane_biases() const {
    return biases(a_) + lane_of_warp() % 4 * kFilters;
  }

  const Arguments<Element>& a_;
  int32_t first_pixel_, first_filter_;  // the lane's
};

}  // namespace im2win::cuda::pointwise_mma
