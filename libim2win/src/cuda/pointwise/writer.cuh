// From sums in registers to outputs. A warp has all of its block's filters of 16 pixels, and writes them by itself.
#pragma once

#include <cstdint>

#include "cuda/fused/output_rows.cuh"
#include "cuda/numeric.cuh"
#include "cuda/pointwise/arguments.cuh"
#include "cuda/pointwise/packed_outputs.cuh"
#include "cuda/pointwise/walk.cuh"
#include "cuda/ptx.cuh"

namespace im2win::cuda::pointwise {

template <class T>
class Writer {
 public:
  using Element = typename T::Element;

  /// `warp`: of those that multiply.
  __device__ __forceinline__ Writer(const Arguments<Element>& a, int warp)
      : a_(a),
        first_filter_(Share(a, T::kShape.filters()).first_filter),
        filters_(min(a.filters - first_filter_, T::kShape.filters())),
        room_(dynamic_shared_memory + a.tile.outputs_begin + warp * T::kShape.output_bytes()),
        first_pixel_(warp % 4 * kWarpPixels),
        packed_(a, room_, first_filter_, filters_) {}

  /// Of 64 pixels, from one on.
  __device__ __forceinline__ void write(const Sums<T>& sums, int32_t pixel) const {
    pixel += first_pixel_;
    if (a_.leaving != Leaving::kFinished) return packed_.write(sums, pixel);
#pragma unroll 1
    for (int first = 0; first < filters_; first += kBoxFilters) {
      __syncwarp();
      put(sums, first);
      __syncwarp();
      finish_patch(pixel, first);
    }
  }

  /// Shared memory is there until what leaves it has been read.
  __device__ __forceinline__ void finish() const { packed_.wait_until_read(); }

 private:
  static constexpr int kEights = T::kShape.columns / 8;

  /// Of so many filters from one on, to the warp's patch. Registers have no run-time index.
  __device__ __forceinline__ void put(const Sums<T>& sums, int first) const {
    const int lane = ptx::thread_in_block() % 32;
    float* const to = patch() + lane / 4 * kPatchPitch + lane % 4 * 2;
#pragma unroll
    for (int eight = 0; eight < T::kShape.sets * kEights; ++eight) {
      if (eight * 8 / kBoxFilters * kBoxFilters != first) continue;
      const float* const sum = &sums[eight / kEights][eight % kEights * 4];
#pragma unroll
      for (int half = 0; half < 2; ++half)
        *reinterpret_cast<float2*>(to + half * 8 * kPatchPitch + eight * 8 % kBoxFilters) = {
            sum[2 * half], sum[2 * half + 1]};
    }
  }

  /// What a lane finishes at a time: each of an activation's steps waits for the last one.
  struct alignas(32) Batch {
    float x[8];
  };

  /// Where the outputs of a patch are, or the residual: from the first of its filters of its first pixel on.
  template <class Pointer>
  struct Patched {
    Pointer begin;
    int64_t stride;
  };

  __device__ __forceinline__ void finish_patch(int32_t pixel, int first) const {
    const int pixels = min(a_.pixels - pixel, kWarpPixels);
    const int filter = first_filter_ + first;
    const Patched<Element*> output = {a_.outputs.data() + pixel * a_.output_stride + filter,
                                      a_.output_stride};
    Patched<const Element*> residual = {a_.outputs.residual_data(), a_.residual_stride};
    if (residual.begin != nullptr) residual.begin += pixel * a_.residual_stride + filter;
    Walk at(min(filters_ - first, kBoxFilters) / a_.word, ptx::thread_in_block() % 32);
#pragma unroll 1
    while (at.row < pixels) {
      Batch batch;
      const Walk from = at;
      switch (a_.word) {
        case 8: at = load<8>(residual, shared<T>().biases + first, pixels, from, batch); break;
        case 2: at = load<2>(residual, shared<T>().biases + first, pixels, from, batch); break;
        default: at = load<1>(residual, shared<T>().biases + first, pixels, from, batch);
      }
      a_.outputs.activate(batch.x);
      switch (a_.word) {
        case 8: store<8>(batch, pixels, from, output); break;
        case 2: store<2>(batch, pixels, from, output); break;
        default: store<1>(batch, pixels, from, output);
      }
    }
  }

  /// Sums with what is added, by words of so many filters; and where the next batch's are.
  template <int kWord>
  __device__ __forceinline__ Walk load(const Patched<const Element*>& residual, const float* biases,
                                       int pixels, Walk at, Batch& batch) const {
    using Floats = fused::Pixels<float, kWord>;
    using Word = fused::Pixels<Element, kWord>;
#pragma unroll
    for (int i = 0; i < 8; i += kWord, at.advance()) {
      const int own = at.word * kWord, row = min(at.row, pixels - 1);
      const Floats sum = *reinterpret_cast<const Floats*>(patch() + row * kPatchPitch + own);
      const Floats bias = *reinterpret_cast<const Floats*>(biases + own);
      Word addend = {};
      if (residual.begin != nullptr)
        addend = *reinterpret_cast<const Word*>(residual.begin + row * residual.stride + own);
#pragma unroll
      for (int j = 0; j < kWord; ++j)
        batch.x[i + j] = a_.outputs.added(sum.x[j], to_compute<float>(addend.x[j]), bias.x[j]);
    }
    return at;
  }

  template <int kWord>
  __device__ __forceinline__ void store(const Batch& batch, int pixels, Walk at,
                                        const Patched<Element*>& output) const {
#pragma unroll
    for (int i = 0; i < 8; i += kWord, at.advance())
      if (at.row < pixels)
        *reinterpret_cast<fused::Pixels<Element, kWord>*>(output.begin + at.row * output.stride +
                                                          at.word * kWord) =
            fused::to_pixels<Element, kWord>(batch.x + i);
  }

  __device__ __forceinline__ float* patch() const { return reinterpret_cast<float*>(room_); }

  const Arguments<Element>& a_;
  int first_filter_, filters_;  // the block's
  char* room_;                  // the warp's
  int first_pixel_;
  PackedOutputs<T> packed_;
};

}  // namespace im2win::cuda::pointwise
