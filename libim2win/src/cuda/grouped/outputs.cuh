// From a warp's sums to outputs, by way of a patch of shared memory of its own: a lane writes eight filters, words of
// them or, in planes, beside those of the next lane.
#pragma once

#include <cstdint>

#include "cuda/fused/matrices.cuh"
#include "cuda/grouped/sums.cuh"

namespace im2win::cuda::grouped {

/// Whether any of the warp's may be NaN: in the sum of all NaN stays, too.
template <class T>
__device__ __forceinline__ bool has_nan(const Sums<T>& sums) {
  float all = 0;
#pragma unroll
  for (int row = 0; row < kStripRows; ++row) {
#pragma unroll
    for (int eight = 0; eight < T::kEights; ++eight) {
      const float(&sum)[4] = sums[row][eight];
      all += (sum[0] + sum[1]) + (sum[2] + sum[3]);  // a short chain
    }
  }
  return __any_sync(~0u, all != all);
}

/// Where a lane's outputs are: of its position, lane mod 16, in a strip's rows, and of the eights of filters, of which
/// it has every other one.
template <class T>
class LaneOutputs {
  using Element = typename T::Element;

 public:
  /// `first`: in the first row, of the warp's first filter. `is_there`: whether the position is.
  __device__ __forceinline__ LaneOutputs(const Arguments<Element>& a, const OutputPlace& first,
                                         int64_t filter, bool is_there)
      : a_(a),
        first_(first),
        filter_(filter + lane() / 16 * kWord),
        rows_(is_there ? min(a.p - first.p, kStripRows) : 0) {
    const int64_t* const stride = a.exact.outputs.strides();
    to_ = a.exact.outputs.data() + first.n * stride[0] + filter_ * stride[1] + first.p * stride[2] +
          first.q * stride[3];
  }

  /// Of this eight or, in the upper lanes, of the next one.
  __device__ __forceinline__ bool has(int row, int eight) const {
    return row < rows_ && (eight + 1 < T::kEights || lane() < 16) &&
           filter_ + eight * 8 < a_.filters;
  }
  __device__ __forceinline__ OutputIndex index(int row, int eight) const {
    return {first_.n, filter_ + eight * 8, first_.p + row, first_.q};
  }
  __device__ __forceinline__ void store(int row, int eight, const uint4& word) const {
    const int64_t* const stride = a_.exact.outputs.strides();
    Element* const to = to_ + row * stride[2] + eight * 8 * stride[1];
    if (a_.has_output_words) {
      *reinterpret_cast<uint4*>(to) = word;
      return;
    }
    const auto* const elements = reinterpret_cast<const Element*>(&word);
    const int64_t filters = a_.filters - filter_ - eight * 8;
#pragma unroll
    for (int i = 0; i < kWord; ++i)
      if (i < filters) to[i * stride[1]] = elements[i];
  }

 private:
  const Arguments<Element>& a_;
  OutputPlace first_;
  int64_t filter_;
  int rows_;
  Element* to_;
};

/// [eight][position] of words, of which a lane's is as far from the first as it itself is: of both eights.
/// `filter`: the warp's first in the slab.
template <class T>
__device__ __forceinline__ void write_packed(const Arguments<typename T::Element>& a,
                                             const LaneOutputs<T>& outputs, int filter,
                                             const Sums<T>& sums) {
  uint32_t* const pairs = reinterpret_cast<uint32_t*>(&patch()[0][0]) + lane();
  const uint4* const word = reinterpret_cast<const uint4*>(&patch()[0][0]) + lane();
  const float low = a.exact.outputs.low();
  float2 biases[T::kEights];
#pragma unroll
  for (int i = 0; i < T::kEights; ++i)
    biases[i] = *reinterpret_cast<const float2*>(&shared().biases[filter + i * 8 + lane() % 4 * 2]);
#pragma unroll
  for (int row = 0; row < kStripRows; ++row) {
#pragma unroll
    for (int eight = 0; eight < T::kEights; eight += 2) {
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const int own = eight + i / 2;
        if (own >= T::kEights) continue;
        const float* const sum = &sums[row][own][i % 2 * 2];
        pairs[i * 32] =
            fused::packed_pair<typename T::Element>(ptx::max_or_nan(sum[0] + biases[own].x, low),
                                                    ptx::max_or_nan(sum[1] + biases[own].y, low));
      }
      __syncwarp();
      if (outputs.has(row, eight)) outputs.store(row, eight, *word);
      __syncwarp();
    }
  }
}

/// Finishes eight sums of a pixel, in the place where they are.
///
/// Zeros of padding, of a set's other groups and after the last tap make NaN of factors that are not finite. NaN stays
/// NaN in a sum, so a sum that is none has not met one; one that is NaN is computed again from the taps inside the
/// image.
template <class Element>
__device__ __forceinline__ void finish(const Arguments<Element>& a, const OutputIndex& first,
                                       float* sums) {
  const auto& outputs = a.exact.outputs;
  const auto pixel = outputs.pixel(first.n, first.p, first.q);
  Element* const finished = reinterpret_cast<Element*>(sums);  // none before its sum is read
#pragma unroll 1
  for (int i = 0; i < kWord && first.k + i < a.filters; ++i) {
    float sum = sums[i];
    const int64_t k = first.k + i;
    if (a.has_zeros && sum != sum) sum = window_sum(a.exact, {first.n, k, first.p, first.q});
    finished[i] = outputs.finished(k, pixel, sum);
  }
}

/// [position][filter]. Out of line and in loops, of sums in memory, as registers have no run-time index.
template <class T>
__device__ __noinline__ void write_finished(const Arguments<typename T::Element>& a,
                                            const LaneOutputs<T> outputs, const Sums<T>& sums) {
  float* const to = &patch()[lane() / 4][lane() % 4 * 2];
  float* const own = &patch()[lane() % 16][lane() / 16 * kWord];
#pragma unroll 1
  for (int row = 0; row < kStripRows; ++row) {
#pragma unroll 1
    for (int eight = 0; eight < T::kEights; eight += 2) {
#pragma unroll 1
      for (int i = 0; i < 4 && eight + i / 2 < T::kEights; ++i) {
        const float* const sum = &sums[row][eight + i / 2][i % 2 * 2];
        reinterpret_cast<float2&>(to[i % 2 * 8 * kPatchPitch + i / 2 * kWord]) = {sum[0], sum[1]};
      }
      __syncwarp();
      if (outputs.has(row, eight)) {
        finish(a, outputs.index(row, eight), own);
        outputs.store(row, eight, *reinterpret_cast<const uint4*>(own));
      }
      __syncwarp();
    }
  }
}

template <class T>
__device__ __forceinline__ void write(const Arguments<typename T::Element>& a,
                                      const LaneOutputs<T>& outputs, int filter,
                                      const Sums<T>& sums) {
  if (a.exact.outputs.only_adds_bias_and_clamps() && !(a.has_zeros && has_nan<T>(sums)))
    return write_packed(a, outputs, filter, sums);
  Sums<T> copy;  // or sums would be in memory from the beginning
#pragma unroll
  for (int i = 0; i < kStripRows * T::kEights * 4; ++i) (&copy[0][0][0])[i] = (&sums[0][0][0])[i];
  write_finished(a, outputs, copy);
}

}  // namespace im2win::cuda::grouped
