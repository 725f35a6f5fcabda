// Of planes: from sums in registers to outputs. A lane has words of neighbouring pixels of a filter, beside those of the
// next lanes.
#pragma once

#include <cstdint>

#include "cuda/pointwise_mma/doubts.cuh"
#include "cuda/pointwise_mma/products.cuh"
#include "cuda/pointwise_mma/store.cuh"

namespace im2win::cuda::pointwise_mma {

/// Of a lane, in a tile.
template <class T>
class Writer {
 public:
  using Element = typename T::Element;

  __device__ __forceinline__ Writer(const Arguments<Element>& a, int32_t tile, int32_t first_filter)
      : a_(a), first_pixel_(tile * T::kPixels), first_filter_(first_filter) {
#pragma unroll
    for (int word = 0; word < kWords; ++word) {
      exists_[word] = pixel(word) < a.pixels;
      offset_[word] = offset(word, a.outputs.strides()[0]);
    }
  }

  /// Of a pass, whose first filter is this of the part's. `doubt`: see doubt_of.
  __device__ __forceinline__ void write(const Sums<T>& sums, int32_t filter, float doubt) const {
    if (a_.outputs.only_adds_bias_and_clamps() && !(T::kHasDoubts && has_doubts(sums, doubt)))
      return write_clamped(sums, filter);
    const Sums<T> copy = sums;  // or sums would be in memory from the beginning
    write_finished(*this, copy, filter, doubt);
  }

 private:
  static constexpr int kRows = 2 * T::kSixteens;  // filters
  static constexpr int kWords = 2 * T::kWords;    // of two columns
  using Word = fused::Pixels<Element, T::kWord>;

  __device__ __forceinline__ int32_t pixel(int word) const {
    const int column = lane_of_warp() % 4 * 2 + word % 2;
    return first_pixel_ + (word / 2 * 8 + word_of_column(column)) * T::kWord;
  }
  /// Of the first filter.
  __device__ __forceinline__ int64_t offset(int word, int64_t image_stride) const {
    const Place at(a_, exists_[word] ? pixel(word) : 0);
    return at.image * image_stride + at.pixel;
  }
  /// Of the part's.
  __device__ __forceinline__ static int32_t own_filter(int32_t filter, int row) {
    return filter + row * 8 + lane_of_warp() / 4;
  }
  __device__ __forceinline__ static void gather(const Sums<T>& sums, int row, int word,
                                                float (&x)[T::kWord]) {
#pragma unroll
    for (int i = 0; i < T::kWord; ++i)
      x[i] = sums.x[row / 2][word / 2 * T::kWord + i][row % 2 * 2 + word % 2];
  }

  __device__ __forceinline__ void write_clamped(const Sums<T>& sums, int32_t filter) const {
    const float low = a_.outputs.low();
#pragma unroll
    for (int row = 0; row < kRows; ++row) {
      const int32_t own = own_filter(filter, row);
      if (first_filter_ + own >= a_.filters) continue;
      const float bias = biases(a_)[own];
      Element* const to = a_.outputs.data() + (first_filter_ + own) * a_.outputs.strides()[1];
#pragma unroll
      for (int word = 0; word < kWords; ++word) {
        fused::Pixels<float, T::kWord> x;
        gather(sums, row, word, x.x);
#pragma unroll
        for (float& each : x.x) each = ptx::max_or_nan(each + bias, low);
        if (exists_[word]) store<T::kWord>(to + offset_[word], x.x);
      }
    }
  }

  /// Out of line and in loops, of sums in memory, as registers have no run-time index.
  __device__ __noinline__ static void write_finished(const Writer writer, const Sums<T>& sums,
                                                     int32_t filter, float doubt) {
#pragma unroll 1
    for (int row = 0; row < kRows; ++row) {
      const int32_t own = own_filter(filter, row);
      if (writer.first_filter_ + own >= writer.a_.filters) continue;
#pragma unroll 1
      for (int word = 0; word < kWords; ++word)
        if (writer.exists_[word]) writer.finish(sums, row, word, own, doubt);
    }
  }

  __device__ __forceinline__ void finish(const Sums<T>& sums, int row, int word, int32_t own,
                                         float doubt) const {
    const auto& outputs = a_.outputs;
    const int64_t* const strides = outputs.residual_strides();
    const int32_t k = first_filter_ + own;
    Word residual = {};
    if (outputs.residual_data() != nullptr)
      residual = *reinterpret_cast<const Word*>(outputs.residual_data() + offset(word, strides[0]) +
                                                k * strides[1]);
    fused::Pixels<float, T::kWord> x;
    gather(sums, row, word, x.x);
    if constexpr (T::kHasDoubts)
      for (int i = 0; i < T::kWord; ++i)
        if (is_in_doubt(x.x[i], doubt)) x.x[i] = sum_again<T>(a_, pixel(word) + i, k);
#pragma unroll
    for (int i = 0; i < T::kWord; ++i)
      x.x[i] = outputs.added(x.x[i], to_compute<float>(residual.x[i]), biases(a_)[own]);
    outputs.activate(x.x);
    store<T::kWord>(outputs.data() + offset_[word] + k * outputs.strides()[1], x.x);
  }

  const Arguments<Element>& a_;
  int32_t first_pixel_, first_filter_;
  int64_t offset_[kWords];
  bool exists_[kWords];
};

}  // namespace im2win::cuda::pointwise_mma
