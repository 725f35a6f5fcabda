// Depthwise convolution in NHWC. A block stages a tile of rows and columns of some slices of 32
// channels in shared memory, in 16-byte words, with zeros for columns outside the image. A warp is
// a slice: its lanes read neighbouring elements of shared memory, free of conflicts, and store
// neighbouring elements of the output, whole sectors of device memory.
#pragma once

#include <cuda_pipeline.h>

#include "checked.hpp"
#include "cuda/depthwise_strip.cuh"
#include "cuda/depthwise_sum.cuh"
#include "cuda/launch.cuh"

namespace im2win::cuda {

/// A tile in divisors. In shared memory the input is [slice][row][column][channel]. Plain data.
struct SlicesGrid {
  Divisor channel_tiles, column_tiles, row_tiles, strips, bands, input_columns;
  int tile_slices, tile_rows, tile_columns, thread_rows;
  int slice_pitch, row_pitch;
  int h, w, p, q;
  int filter_bytes;
  int c;
  int64_t blocks;

  SlicesGrid(const Problem& problem, const DepthwiseTile& tile)
      : channel_tiles(ceil_div(problem.c, tile.channels * kDepthwiseSlice)),
        column_tiles(ceil_div(problem.q, tile.columns())),
        row_tiles(ceil_div(problem.p, tile.rows())),
        strips(tile.strips),
        bands(tile.bands),
        input_columns((tile.columns() - 1) * problem.stride_w + problem.s),
        tile_slices(tile.channels),
        tile_rows(tile.rows()),
        tile_columns(tile.columns()),
        thread_rows(tile.thread_rows),
        slice_pitch(0),
        row_pitch(static_cast<int>(input_columns.divisor) * kDepthwiseSlice),
        h(static_cast<int>(problem.h)),
        w(static_cast<int>(problem.w)),
        p(static_cast<int>(problem.p)),
        q(static_cast<int>(problem.q)),
        filter_bytes(static_cast<int>(round_up(
            tile.channels * kDepthwiseSlice * problem.r * problem.s * element_bytes(problem.dtype),
            16))),
        c(static_cast<int>(problem.c)),
        blocks(problem.n * row_tiles.divisor * column_tiles.divisor * channel_tiles.divisor) {
    const int64_t rows = (tile.rows() - 1) * problem.stride_h + problem.r;
    slice_pitch = static_cast<int>(rows) * row_pitch;
  }
};

/// What a block computes, and where its input starts, which may be outside the image.
struct SlicesTile {
  int64_t n, first_c;
  int first_p, end_p, first_q;
  int first_y, end_y, first_x;

  template <int kTaps, int kStride>
  __device__ __forceinline__ static SlicesTile of(const SlicesGrid& grid, const Axis& vertical,
                                                  const Axis& horizontal) {
    const auto [place, channel_tile] = grid.channel_tiles.divide(block_index());
    const auto [row_of_tiles, column_tile] = grid.column_tiles.divide(place);
    const auto [n, row_tile] = grid.row_tiles.divide(row_of_tiles);
    SlicesTile tile;
    tile.n = n;
    tile.first_c = channel_tile * grid.tile_slices * kDepthwiseSlice;
    tile.first_p = static_cast<int>(row_tile) * grid.tile_rows;
    tile.end_p = min(grid.p, tile.first_p + grid.tile_rows);
    tile.first_q = static_cast<int>(column_tile) * grid.tile_columns;
    tile.first_y = tile.first_p * kStride - static_cast<int>(vertical.padding);
    tile.end_y = (tile.end_p - 1) * kStride - static_cast<int>(vertical.padding) + kTaps;
    tile.first_x = tile.first_q * kStride - static_cast<int>(horizontal.padding);
    return tile;
  }
};

/// Neighbouring threads copy neighbouring words of a pixel's channels, then of the next pixels.
template <class Element, class Compute>
__device__ __forceinline__ void load_slices(const DepthwiseArguments<Element, Compute>& a,
                                            const SlicesGrid& grid, const SlicesTile& tile,
                                            Element* shared) {
  constexpr int kWord = 16 / sizeof(Element);
  constexpr int kSliceWords = kDepthwiseSlice / kWord;
  const int pixel_words = grid.tile_slices * kSliceWords;  // a power of two
  const int word = threadIdx.x & (pixel_words - 1);
  const int c = word * kWord;
  if (tile.first_c + c >= grid.c) return;
  const int first_row = max(0, -tile.first_y);
  const int end_row = min(tile.end_y, grid.h) - tile.first_y;
  const int columns = static_cast<int>(grid.input_columns.divisor);
  const Element* image = a.input + tile.n * a.input_stride[0] + tile.first_c + c;
  Element* const to = shared + c / kDepthwiseSlice * grid.slice_pitch + c % kDepthwiseSlice;
  for (int i = first_row * columns + threadIdx.x / pixel_words; i < end_row * columns;
       i += blockDim.x / pixel_words) {
    const auto [row, column] = grid.input_columns.divide(i);
    const int x = tile.first_x + column;
    const bool inside = x >= 0 && x < grid.w;
    const int64_t at = (int64_t{tile.first_y + row} * grid.w + (inside ? x : 0)) * grid.c;
    __pipeline_memcpy_async(to + i * kDepthwiseSlice, image + at, 16, inside ? 0 : 16);
  }
}

template <int kTaps, class Element, class Compute>
__device__ __forceinline__ void load_slice_filters(const DepthwiseArguments<Element, Compute>& a,
                                                   const SlicesGrid& grid, const SlicesTile& tile,
                                                   Element* filters) {
  const int channels = static_cast<int>(
      min(int64_t{grid.tile_slices} * kDepthwiseSlice, int64_t{grid.c} - tile.first_c));
  const Element* first = a.filter + tile.first_c * kTaps * kTaps;
  for (int i = threadIdx.x; i < channels * kTaps * kTaps; i += blockDim.x) filters[i] = first[i];
}

/// A warp's strip of the tile, a lane one channel.
template <int kTaps, int kStride, bool kIsClamp, class Element, class Compute>
__device__ __forceinline__ void compute_slice_strip(const DepthwiseArguments<Element, Compute>& a,
                                                    const SlicesGrid& grid, const SlicesTile& tile,
                                                    int item, const Element* filters,
                                                    const Element* input) {
  const auto [rest, strip] = grid.strips.divide(item);
  const auto [slice, band] = grid.bands.divide(rest);
  const int lane = threadIdx.x % kDepthwiseSlice;
  const int in_tile = slice * kDepthwiseSlice + lane;
  const int first_p = tile.first_p + band * grid.thread_rows;
  const int first_q = tile.first_q + strip * kDepthwiseColumns;
  const int rows = min(grid.thread_rows, tile.end_p - first_p);
  const int64_t k = tile.first_c + in_tile;
  if (rows <= 0 || first_q >= grid.q || k >= grid.c) return;

  const auto filter = a.outputs.filter(k);
  Compute weights[kTaps][kTaps];
#pragma unroll
  for (int i = 0; i < kTaps * kTaps; ++i)
    weights[i / kTaps][i % kTaps] = to_compute<Compute>(filters[in_tile * kTaps * kTaps + i]);

  const int x = strip * kDepthwiseColumns * kStride;
  const int top = (first_p - tile.first_p) * kStride;
  const StripInput<Element> below{
      input + slice * grid.slice_pitch + top * grid.row_pitch + x * kDepthwiseSlice + lane,
      grid.row_pitch, tile.first_y + top, grid.h, ~0u};
  const int count = min(grid.q - first_q, kDepthwiseColumns);
  UndefinedRows undefined;
  Element* next = a.outputs.address(filter, a.outputs.pixel(tile.n, first_p, first_q));
  const int64_t row_stride = int64_t{grid.q} * grid.c;
  slide<kTaps, kStride, kDepthwiseSlice, false>(
      below, weights, rows, [&](int row, const Compute(&sums)[kDepthwiseColumns]) {
        Element* const to = next;
        next += row_stride;
        Element finished[kDepthwiseColumns];
        if (!finish_row<kIsClamp>(a, filter, tile.n, first_p + row, first_q, count, sums, undefined,
                                  row, finished))
          return;
#pragma unroll
        for (int i = 0; i < kDepthwiseColumns; ++i)
          if (i < count) to[i * grid.c] = finished[i];
      });
  undefined.visit(count, [&](int row, int i) {
    const int p = first_p + row, q = first_q + i;
    a.outputs.write(filter, a.outputs.pixel(tile.n, p, q), depthwise_sum(a, tile.n, k, p, q));
  });
}

template <class Element, class Compute, int kTaps, int kStride, bool kIsClamp>
__global__ void __launch_bounds__(kDepthwiseMaxThreads, kTaps == 3 ? 5 : 4)
    depthwise_slices_kernel(const __grid_constant__ DepthwiseArguments<Element, Compute> a,
                            const __grid_constant__ SlicesGrid grid) {
  extern __shared__ __align__(16) unsigned char shared[];
  if (block_index() >= grid.blocks) return;
  const SlicesTile tile = SlicesTile::of<kTaps, kStride>(grid, a.vertical, a.horizontal);
  Element* const filters = reinterpret_cast<Element*>(shared);
  Element* const input = reinterpret_cast<Element*>(shared + grid.filter_bytes);
  load_slices(a, grid, tile, input);
  __pipeline_commit();
  load_slice_filters<kTaps>(a, grid, tile, filters);
  __pipeline_wait_prior(0);
  __syncthreads();
  const int items = static_cast<int>(grid.tile_slices * grid.strips.divisor * grid.bands.divisor);
  for (int item = threadIdx.x / 32; item < items; item += blockDim.x / 32)
    compute_slice_strip<kTaps, kStride, kIsClamp>(a, grid, tile, item, filters, input);
}

}  // namespace im2win::cuda
