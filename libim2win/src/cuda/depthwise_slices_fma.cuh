// Depthwise convolution in NHWC: a lane computes a strip of one channel. Lanes read
// neighbouring elements of shared memory, free of conflicts, and store neighbouring elements of the
// output, whole sectors of device memory.
#pragma once

#include "cuda/depthwise_slices.cuh"
#include "cuda/depthwise_strip.cuh"

namespace im2win::cuda {

/// A lane's strip.
template <class Element>
struct FmaStrip {
  static constexpr int kWord = sizeof(uint4) / sizeof(Element);
  static constexpr int kSliceWords = kFmaSlice.channels / kWord;

  int c;  // in the tile
  int n, k, p, q;
  int rows, columns;     // none outside the tensor
  const Element* input;  // below it, in shared memory
  Element* output;
  int column_stride, row_stride;  // of the output

  __device__ __forceinline__ FmaStrip(const SlicesGrid& grid, const SlicesPlace& at, int stride,
                                      const uint4* shared) {
    const auto [slice, number] = grid.slice_warps.divide(static_cast<int>(threadIdx.x / 32));
    const SliceStrip place(grid, number);
    const int lane = threadIdx.x % 32;
    c = slice * kFmaSlice.channels + lane;
    k = at.first_slice * kFmaSlice.channels + c;
    p = at.first_p + place.row;
    q = at.first_q + place.column;
    column_stride = kWord * grid.pixel_words;
    row_stride = kWord * grid.output_words;
    rows = k < column_stride ? min(grid.p - p, grid.tile.strip_rows) : 0;
    columns = min(grid.q - q, kStripSize);
    input = reinterpret_cast<const Element*>(shared + slice * grid.tile.input_slice_pitch) +
            (place.row * grid.tile.input_columns + place.column) * stride * kFmaSlice.channels +
            lane;
  }

  __device__ __forceinline__ void go_to(const DepthwiseArguments<Element, float>& a,
                                        const SlicesGrid& grid, int image) {
    n = image;
    output = a.outputs.data() + int64_t{n} * grid.p * row_stride +
             (p * row_stride + q * column_stride + k);
  }
};

template <int kTaps, int kStride, bool kIsClamp, class Element>
__device__ __forceinline__ void compute_strip(const DepthwiseArguments<Element, float>& a,
                                              const SlicesGrid& grid,
                                              const FmaStrip<Element>& strip,
                                              const float (&weights)[kTaps][kTaps], float bias) {
  const int row_pitch = grid.tile.input_columns * kFmaSlice.channels;
  convolve_strip<kStride>(
      weights, strip.rows,
      [&](int y, auto& x) {
#pragma unroll
        for (int j = 0; j < std::size(x); ++j)
          x[j] = to_compute<float>(strip.input[y * row_pitch + j * kFmaSlice.channels]);
      },
      [&](int row, const float(&sums)[kStripSize]) {
        Element* to = strip.output + row * strip.row_stride;
#pragma unroll
        for (int j = 0; j < kStripSize; ++j, to += strip.column_stride) {
          if (j >= strip.columns) continue;
          *to = kIsClamp ? from_compute<Element>(a.clamp(sums[j] + bias))
                         : finish_any(a, strip.n, strip.k, strip.p + row, strip.q + j, sums[j]);
        }
      });
}

/// The filters of the tile's channels, one after the other.
template <int kTaps, class Element>
__device__ __forceinline__ void load_slice_filters(const Element* from, const SlicesGrid& grid,
                                                   const SlicesPlace& at, Element* filters) {
  constexpr int kWord = sizeof(uint4) / sizeof(Element);
  const int first_c = at.first_slice * kFmaSlice.channels;
  const int channels =
      min(grid.tile.slices * kFmaSlice.channels, grid.pixel_words * kWord - first_c);
  for (int i = threadIdx.x; i < channels * kTaps * kTaps; i += blockDim.x)
    filters[i] = from[first_c * kTaps * kTaps + i];
}

template <class Element, int kTaps, int kStride, bool kIsClamp>
__global__ void __launch_bounds__(32 * kFmaSlice.max_warps, 5)
    depthwise_slices_fma_kernel(const __grid_constant__ DepthwiseArguments<Element, float> a,
                                const __grid_constant__ SlicesGrid grid) {
  uint4* const shared = dynamic_shared<uint4>();
  Element* const filters = reinterpret_cast<Element*>(shared + grid.tile.input_words);
  const SlicesPlace at(grid, a.vertical, a.horizontal);
  load_slice_filters<kTaps>(a.filter, grid, at, filters);
  FmaStrip<Element> strip(grid, at, kStride, shared);
  float weights[kTaps][kTaps];
  float bias = 0;
  bool is_finite = true;
  for (int n = at.first_n; n < at.end_n; ++n) {
    load_slices<FmaStrip<Element>::kSliceWords>(
        reinterpret_cast<const uint4*>(a.input) + int64_t{n} * grid.h * grid.input_words, grid, at,
        shared);
    __pipeline_commit();
    __pipeline_wait_prior(0);
    __syncthreads();
    if (strip.rows > 0 && strip.columns > 0) {
      if (n == at.first_n) {
        is_finite = read_weights(filters + strip.c * kTaps * kTaps, weights);
        bias = a.outputs.filter(strip.k).bias;
      }
      strip.go_to(a, grid, n);
      if (is_finite) compute_strip<kTaps, kStride, kIsClamp>(a, grid, strip, weights, bias);
    }
    if (n + 1 < at.end_n) __syncthreads();
  }
  if (is_finite) return;
  // Zeros in the padding must not meet a weight that is infinite or NaN.
  for (int n = at.first_n; n < at.end_n; ++n) {
    for (int p = strip.p; p < strip.p + strip.rows; ++p)
      for (int q = strip.q; q < strip.q + strip.columns; ++q)
        *a.outputs.address(a.outputs.filter(strip.k), a.outputs.pixel(n, p, q)) =
            compute_any(a, n, strip.k, p, q);
  }
}

}  // namespace im2win::cuda
