// Depthwise convolution in NHWC of 16-bit elements, stride 1, by tensor cores: a fragment is 8
// pixels of a row by the 8 channels of a slice, 16 bytes each. Products of it with the diagonal
// matrix of a tap's weights are the tap's part of 8 outputs of each channel. 7 of 8 factors are
// zeros, yet the pixels need no conversion, and all arithmetic is off the path that issues
// everything else.
#pragma once

#include "cuda/depthwise_mma.cuh"
#include "cuda/depthwise_slices.cuh"

namespace im2win::cuda {

/// The fragments of the diagonal matrices of a slice's taps, of which the lane holds the weight of
/// channel lane / 4, or none. Weights that are not there are zeros.
template <int kTaps>
struct DiagonalWeights {
  uint32_t fragments[kTaps][kTaps];

  __device__ __forceinline__ DiagonalWeights(const uint16_t* filters, bool is_slice) {
    const int lane = threadIdx.x % 32, channel = lane / 4;
    const bool is_mine = is_slice && channel / 2 == lane % 4;
    const int shift = channel % 2 * 16;
#pragma unroll
    for (int i = 0; i < kTaps * kTaps; ++i)
      fragments[i / kTaps][i % kTaps] =
          is_mine ? uint32_t{filters[channel * kTaps * kTaps + i]} << shift : 0;
  }
};

/// The fragments of a row of the input under two strips, one for each column of a window: of
/// columns s and s + 1, those of four matrices are the first factor of one product.
template <class Element, int kTaps>
struct RowFragments {
  const DiagonalWeights<kTaps>& weights;
  uint32_t pairs[kTaps / 2][4];
  uint32_t last[2];

  /// Lane i's address is that of pixel i % 8 of strip i / 8 % 2, shifted by i / 16 columns.
  __device__ __forceinline__ RowFragments(const DiagonalWeights<kTaps>& diagonals, uint32_t address)
      : weights(diagonals) {
#pragma unroll
    for (int i = 0; i < kTaps / 2; ++i) load_fragments(address + 32 * i, pairs[i]);
    load_fragments(address + 16 * (kTaps - 1), last);
  }

  __device__ __forceinline__ void operator()(float (&sums)[4], int r) const {
#pragma unroll
    for (int i = 0; i < kTaps / 2; ++i)
      multiply_16<Element>(sums, pairs[i], weights.fragments[r][2 * i],
                           weights.fragments[r][2 * i + 1]);
    multiply_8<Element>(sums, last, weights.fragments[r][kTaps - 1]);
  }
};

/// The tile's outputs from shared memory, a warp a row.
__device__ __forceinline__ void store_slices(const SlicesGrid& grid, const SlicesPlace& at,
                                             const uint4* shared, uint4* image) {
  const SlicesTile& tile = grid.tile;
  const int rows = min(grid.p - at.first_p, grid.tile_rows);
  const int words =
      static_cast<int>(grid.tile_words.divisor) * min(grid.q - at.first_q, grid.tile_columns);
  for (int i = threadIdx.x % 32; i < words; i += 32) {
    const auto [column, slice] = grid.tile_words.divide(i);
    if (at.first_slice + slice >= grid.pixel_words) continue;
    const uint4* from = shared + slice * tile.output_slice_pitch + column;
    uint4* const to = image + (at.first_q + column) * grid.pixel_words + at.first_slice + slice;
#pragma unroll 4
    for (int row = threadIdx.x / 32; row < rows; row += blockDim.x / 32)
      to[(at.first_p + row) * grid.output_words] = from[row * tile.output_row_pitch];
  }
}

/// A warp's part of a tile, two strips of a slice, and what a lane stores of it: of one pixel of
/// each strip the channels k and k + 1.
struct SliceWarp {
  SliceStrip strips[2];
  int slice;  // of the tile
  int k, p[2], q[2];
  bool is_slice;  // whether the tensor has the slice

  __device__ __forceinline__ SliceWarp(const SlicesGrid& grid, const SlicesPlace& at)
      : SliceWarp(grid, at, grid.slice_warps.divide(static_cast<int>(threadIdx.x / 32))) {}

  __device__ __forceinline__ bool is_inside(const SlicesGrid& grid, int strip, int row) const {
    return is_slice && p[strip] + row < grid.p && q[strip] < grid.q;
  }

 private:
  __device__ __forceinline__ SliceWarp(const SlicesGrid& grid, const SlicesPlace& at,
                                       QuotientRemainder<int> warp)
      : strips{{grid, 2 * warp.remainder}, {grid, 2 * warp.remainder + 1}},
        slice(warp.quotient),
        k((at.first_slice + slice) * kMmaSlice.channels + int(threadIdx.x % 4) * 2),
        p{at.first_p + strips[0].row, at.first_p + strips[1].row},
        q{at.first_q + strips[0].column + int(threadIdx.x % 32 / 4),
          at.first_q + strips[1].column + int(threadIdx.x % 32 / 4)},
        is_slice(at.first_slice + slice < grid.pixel_words) {}
};

/// Computes the lane's outputs of an image again. It works out where they are by itself, so that
/// nothing is kept for it.
template <class Element>
__device__ __noinline__ void correct(const DepthwiseArguments<Element, float>& a,
                                     const SlicesGrid& grid, int n) {
  const SliceWarp warp(grid, SlicesPlace(grid, a.vertical, a.horizontal));
  for (int i = 0; i < 2; ++i) {
    for (int row = 0; row < grid.tile.strip_rows && warp.is_inside(grid, i, row); ++row) {
      const auto pixel = a.outputs.pixel(n, warp.p[i] + row, warp.q[i]);
      for (int k = warp.k; k < warp.k + 2; ++k)
        *a.outputs.address(a.outputs.filter(k), pixel) =
            compute_any(a, n, k, warp.p[i] + row, warp.q[i]);
    }
  }
}

/// One image of the tile, from shared memory to shared memory. False if an output may be wrong:
/// zeros beside the diagonal and in the padding make NaN of infinite factors that are not its own.
template <class Element, int kTaps, bool kIsClamp>
__device__ __forceinline__ bool compute_slices(const DepthwiseArguments<Element, float>& a,
                                               const SlicesGrid& grid, const SliceWarp& warp,
                                               const DiagonalWeights<kTaps>& weights,
                                               const float (&biases)[4], int n, const uint4* input,
                                               uint4* output) {
  const SlicesTile& tile = grid.tile;
  const int lane = threadIdx.x % 32;
  const SliceStrip& mine = warp.strips[lane / 8 % 2];
  uint32_t address =
      shared_address(input + warp.slice * tile.input_slice_pitch + mine.row * tile.input_columns +
                     mine.column + lane % 8 + lane / 16);
  Pair<Element>* out[2];
#pragma unroll
  for (int i = 0; i < 2; ++i)
    out[i] = reinterpret_cast<Pair<Element>*>(output + warp.slice * tile.output_slice_pitch +
                                              warp.strips[i].row * tile.output_row_pitch +
                                              warp.strips[i].column) +
             lane;
  const PairClamp<Element> clamp_pair(a.clamp);
  Finiteness<Element> finiteness;
  convolve_rows<kTaps, kMmaSlice.rows>(
      biases, min(tile.strip_rows, grid.p - warp.p[0]),
      [&] {
        const RowFragments<Element, kTaps> row(weights, address);
        address += tile.input_columns * 16;
        return row;
      },
      [&](int row, const float(&sums)[4]) {
#pragma unroll
        for (int i = 0; i < 2; ++i) {
          float values[2] = {sums[2 * i], sums[2 * i + 1]};
          if constexpr (!kIsClamp) {
            for (int j = 0; j < 2; ++j)
              values[j] =
                  warp.is_inside(grid, i, row)
                      ? finish_or_compute(a, n, warp.k + j, warp.p[i] + row, warp.q[i], values[j])
                      : 0;
          }
          Pair<Element> pair = pair_of<Element>(values[0], values[1]);
          if constexpr (kIsClamp) pair = clamp_pair(pair);
          finiteness.add(pair);
          *out[i] = pair;
          out[i] += tile.output_row_pitch * 4;
        }
      });
  return !kIsClamp || finiteness.is_finite();
}

template <class Element, int kTaps, bool kIsClamp>
__global__ void __launch_bounds__(32 * kMmaSlice.max_warps, 3)
    depthwise_slices_mma_kernel(const __grid_constant__ DepthwiseArguments<Element, float> a,
                                const __grid_constant__ SlicesGrid grid) {
  const SlicesTile& tile = grid.tile;
  uint4* const shared = dynamic_shared<uint4>();
  const SlicesPlace at(grid, a.vertical, a.horizontal);
  const auto load = [&](int n) {
    load_slices<1>(reinterpret_cast<const uint4*>(a.input) + int64_t{n} * grid.h * grid.input_words,
                   grid, at, shared + (n - at.first_n) % 2 * tile.input_words);
    __pipeline_commit();
  };
  load(at.first_n);

  const SliceWarp warp(grid, at);
  const int first_k = (at.first_slice + warp.slice) * kMmaSlice.channels;
  const DiagonalWeights<kTaps> weights(
      reinterpret_cast<const uint16_t*>(a.filter) + first_k * kTaps * kTaps, warp.is_slice);
  float biases[4] = {};
  if (kIsClamp && warp.is_slice) {
    biases[0] = biases[2] = a.outputs.filter(warp.k).bias;
    biases[1] = biases[3] = a.outputs.filter(warp.k + 1).bias;
  }

  unsigned undefined = 0;  // a bit for each image
  for (int n = at.first_n; n < at.end_n; ++n) {
    uint4* const input = shared + (n - at.first_n) % 2 * tile.input_words;
    uint4* const output = tile.is_in_place ? input : shared + 2 * tile.input_words;
    __pipeline_wait_prior(0);
    __syncthreads();
    if (n + 1 < at.end_n) load(n + 1);
    if (!compute_slices<Element, kTaps, kIsClamp>(a, grid, warp, weights, biases, n, input, output))
      undefined |= 1u << (n - at.first_n);
    __syncthreads();
    store_slices(
        grid, at, output,
        reinterpret_cast<uint4*>(a.outputs.data()) + int64_t{n} * grid.p * grid.output_words);
  }
  if (!__syncthreads_or(undefined != 0)) return;
  for (; undefined != 0; undefined &= undefined - 1)
    correct(a, grid, at.first_n + __ffs(static_cast<int>(undefined)) - 1);
}

}  // namespace im2win::cuda
