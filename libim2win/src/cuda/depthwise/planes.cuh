// Depthwise convolution in NCHW. A block, mostly a single warp, stages planes of some channels of an
// image, or rows of one, in shared memory: either is one piece of memory, and so is what it
// computes. Both cross device memory once, in 16-byte words, whatever the width of rows. Threads are
// strips of the tile.
#pragma once

#include "checked.hpp"
#include "cuda/depthwise/activation.cuh"
#include "cuda/depthwise/run.cuh"
#include "cuda/depthwise/strip.cuh"
#include "cuda/depthwise/sum.cuh"
#include "cuda/depthwise/tile.hpp"
#include "cuda/launch.cuh"

namespace im2win::cuda {

/// The tile and the image. Plain data.
struct PlanesGrid {
  static constexpr bool kStartsEarly = true;  // before the kernel ahead of it ends: follow()
  Divisor row_tiles, channel_tiles, strips, bands;
  int tile_planes, tile_rows, thread_rows;
  int c, h, w, p, q;
  int filter_bytes;
  int64_t blocks;

  PlanesGrid(const Problem& problem, const PlanesTile& tile)
      : row_tiles(ceil_div(problem.p, tile.rows())),
        channel_tiles(ceil_div(problem.c, tile.planes)),
        strips(tile.strips),
        bands(tile.bands),
        tile_planes(tile.planes),
        tile_rows(tile.rows()),
        thread_rows(tile.thread_rows),
        c(static_cast<int>(problem.c)),
        h(static_cast<int>(problem.h)),
        w(static_cast<int>(problem.w)),
        p(static_cast<int>(problem.p)),
        q(static_cast<int>(problem.q)),
        filter_bytes(tile.filter_bytes),
        blocks(problem.n * channel_tiles.divisor * row_tiles.divisor) {}
};

/// What a block computes of image n: rows [first_p, end_p) of `planes` channels from first_k on.
struct PlanesPlace {
  int n;
  int first_k, planes;
  int first_p, end_p;
  int first_y, end_y;  // the rows of the image below

  template <int kTaps, int kStride>
  __device__ __forceinline__ static PlanesPlace of(const PlanesGrid& grid, int padding_top) {
    const auto [place, row_tile] = grid.row_tiles.divide(static_cast<int>(blockIdx.x));
    const auto [image, channel_tile] = grid.channel_tiles.divide(place);
    PlanesPlace tile;
    tile.n = image;
    tile.first_k = channel_tile * grid.tile_planes;
    tile.planes = min(grid.tile_planes, grid.c - tile.first_k);
    tile.first_p = row_tile * grid.tile_rows;
    tile.end_p = min(grid.p, tile.first_p + grid.tile_rows);
    const bool whole = grid.row_tiles.divisor == 1;
    const int top = tile.first_p * kStride - padding_top;
    const int bottom = (tile.end_p - 1) * kStride - padding_top + kTaps;
    tile.first_y = whole ? 0 : min(max(top, 0), grid.h);
    tile.end_y = whole ? grid.h : max(tile.first_y, min(bottom, grid.h));
    return tile;
  }
};

/// Bit j is set where column x + j is one of `width`.
template <int kCount>
__device__ __forceinline__ unsigned columns_inside(int x, int width) {
  unsigned inside = 0;
#pragma unroll
  for (int j = 0; j < kCount; ++j) inside |= unsigned(unsigned(x + j) < unsigned(width)) << j;
  return inside;
}

/// A thread's strip of the tile; `rows` is 0 where it has none.
struct PlaneStrip {
  int plane, p, q;
  int rows, columns;

  __device__ __forceinline__ PlaneStrip(const PlanesGrid& grid, const PlanesPlace& at) {
    const auto [rest, strip] = grid.strips.divide(static_cast<int>(threadIdx.x));
    const auto [number, band] = grid.bands.divide(rest);
    plane = number;
    p = at.first_p + band * grid.thread_rows;
    q = strip * kStripSize;
    rows = plane < at.planes ? min(grid.thread_rows, at.end_p - p) : 0;
    columns = min(grid.q - q, kStripSize);
  }
};

/// The strip's outputs, of its plane in shared memory from row first_y on.
template <int kStride, bool kIsClamp, int kTaps, class Element>
__device__ __forceinline__ void compute_strip(const DepthwiseArguments<Element, float>& a,
                                              const PlanesGrid& grid, const PlaneStrip& strip,
                                              int k, const float (&weights)[kTaps][kTaps],
                                              const Element* plane, int first_y,
                                              Element (&outputs)[kStripSize][kStripSize]) {
  constexpr int kReach = (kStripSize - 1) * kStride + kTaps;
  const int y = strip.p * kStride - static_cast<int>(a.vertical.padding);
  const int x = strip.q * kStride - static_cast<int>(a.horizontal.padding);
  const Element* const below = plane + (y - first_y) * grid.w + x;
  const unsigned inside = columns_inside<kReach>(x, grid.w);
  const float bias = a.outputs.bias(k);
  convolve_strip<kStride>(
      weights, strip.rows,
      [&](int i, float(&row)[kReach]) {
        const unsigned read = unsigned(y + i) < unsigned(grid.h) ? inside : 0;
#pragma unroll
        for (int j = 0; j < kReach; ++j)
          row[j] = (read >> j & 1) != 0 ? to_compute<float>(below[i * grid.w + j]) : 0;
      },
      [&](int i, const float(&sums)[kStripSize]) {
        float values[kStripSize];
#pragma unroll
        for (int j = 0; j < kStripSize; ++j) values[j] = sums[j] + bias;
        activate<kIsClamp>(a, values);
#pragma unroll
        for (int j = 0; j < kStripSize; ++j)
          outputs[i][j] = from_compute<Element>(a.clamp(values[j]));
      });
}

/// Puts a strip's outputs into its plane of the output in shared memory.
template <class Element>
__device__ __forceinline__ void put_strip(const PlaneStrip& strip,
                                          const Element (&outputs)[kStripSize][kStripSize],
                                          Element* out, int row_pitch) {
#pragma unroll
  for (int i = 0; i < kStripSize; ++i) {
    if (i >= strip.rows) break;
#pragma unroll
    for (int j = 0; j < kStripSize; ++j)
      if (j < strip.columns) out[i * row_pitch + j] = outputs[i][j];
  }
}

template <class Element, int kTaps, int kStride, bool kIsClamp>
__device__ __forceinline__ void compute_planes(const DepthwiseArguments<Element, float>& a,
                                               const PlanesGrid& grid) {
  follow(false);
  unsigned char* const shared = dynamic_shared<unsigned char>();
  const PlanesPlace at =
      PlanesPlace::of<kTaps, kStride>(grid, static_cast<int>(a.vertical.padding));
  const int input_rows = at.end_y - at.first_y, output_rows = at.end_p - at.first_p;
  const int64_t first_plane = int64_t{at.n} * grid.c + at.first_k;
  const Element* const source = a.input + (first_plane * grid.h + at.first_y) * grid.w;
  Element* const target = a.outputs.data() + (first_plane * grid.p + at.first_p) * grid.q;
  const Element* const filter = a.filter + at.first_k * kTaps * kTaps;
  const Run<Element> filters(filter, at.planes * kTaps * kTaps, shared);
  const Run<Element> input(source, at.planes * input_rows * grid.w, shared + grid.filter_bytes);
  const Run<Element> output(target, at.planes * output_rows * grid.q, shared + grid.filter_bytes);
  filters.load(filter, Team::block());
  input.load(source, Team::block());
  __pipeline_commit();
  __pipeline_wait_prior(0);
  __syncthreads();

  const PlaneStrip strip(grid, at);
  const int k = at.first_k + strip.plane;
  // In registers until all of the input is read: the output takes its place.
  Element outputs[kStripSize][kStripSize];
  float weights[kTaps][kTaps];
  // Zeros in the padding must not meet a weight that is infinite or NaN.
  const bool is_finite =
      strip.rows <= 0 || read_weights(filters.shared() + strip.plane * kTaps * kTaps, weights);
  if (strip.rows > 0 && is_finite)
    compute_strip<kStride, kIsClamp>(a, grid, strip, k, weights,
                                     input.shared() + strip.plane * input_rows * grid.w, at.first_y,
                                     outputs);
  ptx::let_next_start();
  __syncthreads();
  Element* const out =
      output.shared() + (strip.plane * output_rows + strip.p - at.first_p) * grid.q + strip.q;
  if (is_finite) {
    put_strip(strip, outputs, out, grid.q);
  } else {
    for (int i = 0; i < strip.rows; ++i)
      for (int j = 0; j < strip.columns; ++j)
        out[i * grid.q + j] = compute_any(a, at.n, k, strip.p + i, strip.q + j);
  }
  __syncthreads();
  output.store(target, Team::block());
}

template <class Element, int kTaps, int kStride, bool kIsClamp>
__global__ void __launch_bounds__(kPlanesMaxThreads)
    depthwise_planes_kernel(const __grid_constant__ DepthwiseArguments<Element, float> a,
                            const __grid_constant__ PlanesGrid grid) {
  if constexpr (has_code(kIsClamp)) compute_planes<Element, kTaps, kStride, kIsClamp>(a, grid);
}

}  // namespace im2win::cuda
