// Depthwise convolution in NCHW. A block stages whole planes of (image, channel), or rows of one,
// in shared memory: either is one piece of memory, and so is what it computes. Both cross device
// memory once, in 16-byte words, whatever the width of rows. Threads are strips of the tile.
#pragma once

#include <cuda_pipeline.h>

#include "checked.hpp"
#include "cuda/depthwise_strip.cuh"
#include "cuda/depthwise_sum.cuh"
#include "cuda/launch.cuh"

namespace im2win::cuda {

/// A tile in divisors; `filters` is of the elements of all filters. Plain data.
struct PlanesGrid {
  Divisor row_tiles, strips, bands, channels, filters;
  int tile_planes, tile_rows, thread_rows;
  int h, w, p, q;
  int filter_bytes;
  int64_t planes;
  int64_t blocks;

  PlanesGrid(const Problem& problem, const DepthwiseTile& tile)
      : row_tiles(ceil_div(problem.p, tile.rows())),
        strips(tile.strips),
        bands(tile.bands),
        channels(problem.c),
        filters(problem.filter.elements()),
        tile_planes(tile.channels),
        tile_rows(tile.rows()),
        thread_rows(tile.thread_rows),
        h(static_cast<int>(problem.h)),
        w(static_cast<int>(problem.w)),
        p(static_cast<int>(problem.p)),
        q(static_cast<int>(problem.q)),
        filter_bytes(static_cast<int>(
            round_up(tile.channels * problem.r * problem.s * element_bytes(problem.dtype), 16))),
        planes(problem.n * problem.c),
        blocks(ceil_div(planes, tile.channels) * row_tiles.divisor) {}
};

/// A run of elements in global memory and its place in shared memory, which starts as far into a
/// 16-byte word as the run does.
template <class Element>
class Run {
 public:
  static constexpr int kWord = 16 / sizeof(Element);

  __device__ __forceinline__ Run(const Element* global, int count, unsigned char* shared)
      : shift_(static_cast<int>(reinterpret_cast<uintptr_t>(global) / sizeof(Element) % kWord)),
        count_(count),
        shared_(reinterpret_cast<Element*>(shared) + shift_) {}

  __device__ __forceinline__ Element* shared() const { return shared_; }
  __device__ __forceinline__ unsigned char* end() const {
    return reinterpret_cast<unsigned char*>(shared_ - shift_ +
                                            (shift_ + count_ + kWord - 1) / kWord * kWord);
  }

  /// Complete after __pipeline_commit() and _wait_prior(), and a barrier.
  __device__ __forceinline__ void load(const Element* global) const {
    const int head = this->head();
    const int words_end = head + (count_ - head) / kWord * kWord;
    for (int i = head + int(threadIdx.x) * kWord; i < words_end; i += blockDim.x * kWord)
      __pipeline_memcpy_async(shared_ + i, global + i, 16);
    for (int i = threadIdx.x; i < head; i += blockDim.x) shared_[i] = global[i];
    for (int i = words_end + threadIdx.x; i < count_; i += blockDim.x) shared_[i] = global[i];
  }

  __device__ __forceinline__ void store(Element* global) const {
    const int head = this->head();
    const int words_end = head + (count_ - head) / kWord * kWord;
    for (int i = head + int(threadIdx.x) * kWord; i < words_end; i += blockDim.x * kWord)
      *reinterpret_cast<uint4*>(global + i) = *reinterpret_cast<const uint4*>(shared_ + i);
    for (int i = threadIdx.x; i < head; i += blockDim.x) global[i] = shared_[i];
    for (int i = words_end + threadIdx.x; i < count_; i += blockDim.x) global[i] = shared_[i];
  }

 private:
  /// Elements before the first whole word.
  __device__ __forceinline__ int head() const { return min(count_, (kWord - shift_) % kWord); }

  int shift_, count_;
  Element* shared_;
};

/// What a block computes: rows [first_p, end_p) of `planes` planes from `first_plane` on.
struct PlanesTile {
  int64_t first_plane;
  int planes;
  int first_p, end_p;
  int first_y, end_y;  // the rows of the image below

  template <int kTaps, int kStride>
  __device__ __forceinline__ static PlanesTile of(const PlanesGrid& grid, int padding_top) {
    const auto [plane_tile, row_tile] = grid.row_tiles.divide(block_index());
    PlanesTile tile;
    tile.first_plane = plane_tile * grid.tile_planes;
    tile.planes = static_cast<int>(min(int64_t{grid.tile_planes}, grid.planes - tile.first_plane));
    tile.first_p = static_cast<int>(row_tile) * grid.tile_rows;
    tile.end_p = min(grid.p, tile.first_p + grid.tile_rows);
    const bool whole = grid.row_tiles.divisor == 1;
    const int top = tile.first_p * kStride - padding_top;
    const int bottom = (tile.end_p - 1) * kStride - padding_top + kTaps;
    tile.first_y = whole ? 0 : min(max(top, 0), grid.h);
    tile.end_y = whole ? grid.h : max(tile.first_y, min(bottom, grid.h));
    return tile;
  }
};

template <int kTaps, class Element, class Compute>
__device__ __forceinline__ void load_plane_filters(const DepthwiseArguments<Element, Compute>& a,
                                                   const PlanesGrid& grid, const PlanesTile& tile,
                                                   Element* filters) {
  const int first_k = static_cast<int>(grid.channels.divide(tile.first_plane).remainder);
  for (int i = threadIdx.x; i < tile.planes * kTaps * kTaps; i += blockDim.x)
    filters[i] = a.filter[grid.filters.divide(first_k * kTaps * kTaps + i).remainder];
}

/// Bit j is set where column x + j is one of `width`.
template <int kCount>
__device__ __forceinline__ unsigned columns_inside(int x, int width) {
  unsigned inside = 0;
#pragma unroll
  for (int j = 0; j < kCount; ++j) inside |= unsigned(x + j >= 0 && x + j < width) << j;
  return inside;
}

/// One thread's strip of the tile, from shared memory to shared memory.
template <int kTaps, int kStride, bool kIsClamp, class Element, class Compute>
__device__ __forceinline__ void compute_plane_strip(const DepthwiseArguments<Element, Compute>& a,
                                                    const PlanesGrid& grid, const PlanesTile& tile,
                                                    int item, const Element* filters,
                                                    const Element* input, Element* output) {
  const auto [rest, strip] = grid.strips.divide(item);
  const auto [plane, band] = grid.bands.divide(rest);
  const int first_p = tile.first_p + band * grid.thread_rows;
  const int first_q = strip * kDepthwiseColumns;
  const int rows = min(grid.thread_rows, tile.end_p - first_p);
  if (rows <= 0) return;

  const auto [n, k] = grid.channels.divide(tile.first_plane + plane);
  const auto filter = a.outputs.filter(k);
  Compute weights[kTaps][kTaps];
#pragma unroll
  for (int i = 0; i < kTaps * kTaps; ++i)
    weights[i / kTaps][i % kTaps] = to_compute<Compute>(filters[plane * kTaps * kTaps + i]);

  const int y = first_p * kStride - static_cast<int>(a.vertical.padding);
  const int x = first_q * kStride - static_cast<int>(a.horizontal.padding);
  const int input_rows = tile.end_y - tile.first_y, output_rows = tile.end_p - tile.first_p;
  const StripInput<Element> below{input + (plane * input_rows + y - tile.first_y) * grid.w + x,
                                  grid.w, y, grid.h,
                                  columns_inside<StripSteps<kTaps, kStride>::kReach>(x, grid.w)};
  Element* const out = output + (plane * output_rows + first_p - tile.first_p) * grid.q + first_q;
  const int count = min(grid.q - first_q, kDepthwiseColumns);
  UndefinedRows undefined;
  Element* next = out;
  slide<kTaps, kStride, 1, true>(below, weights, rows,
                                 [&](int row, const Compute(&sums)[kDepthwiseColumns]) {
                                   Element* const to = next;
                                   next += grid.q;
                                   Element finished[kDepthwiseColumns];
                                   if (!finish_row<kIsClamp>(a, filter, n, first_p + row, first_q,
                                                             count, sums, undefined, row, finished))
                                     return;
#pragma unroll
                                   for (int i = 0; i < kDepthwiseColumns; ++i)
                                     if (i < count) to[i] = finished[i];
                                 });
  undefined.visit(count, [&](int row, int i) {
    const int p = first_p + row, q = first_q + i;
    out[row * grid.q + i] =
        a.outputs.value(filter, a.outputs.pixel(n, p, q), depthwise_sum(a, n, k, p, q));
  });
}

template <class Element, class Compute, int kTaps, int kStride, bool kIsClamp>
__global__ void __launch_bounds__(kDepthwiseMaxThreads, 4)
    depthwise_planes_kernel(const __grid_constant__ DepthwiseArguments<Element, Compute> a,
                            const __grid_constant__ PlanesGrid grid) {
  extern __shared__ __align__(16) unsigned char shared[];
  if (block_index() >= grid.blocks) return;
  const PlanesTile tile =
      PlanesTile::of<kTaps, kStride>(grid, static_cast<int>(a.vertical.padding));
  const Element* source = a.input + (tile.first_plane * grid.h + tile.first_y) * int64_t{grid.w};
  Element* target = a.outputs.data() + (tile.first_plane * grid.p + tile.first_p) * int64_t{grid.q};
  const Run<Element> input(source, tile.planes * (tile.end_y - tile.first_y) * grid.w,
                           shared + grid.filter_bytes);
  const Run<Element> output(target, tile.planes * (tile.end_p - tile.first_p) * grid.q,
                            input.end());
  Element* const filters = reinterpret_cast<Element*>(shared);

  input.load(source);
  __pipeline_commit();
  load_plane_filters<kTaps>(a, grid, tile, filters);
  __pipeline_wait_prior(0);
  __syncthreads();
  const int items = static_cast<int>(tile.planes * grid.strips.divisor * grid.bands.divisor);
  for (int item = threadIdx.x; item < items; item += blockDim.x)
    compute_plane_strip<kTaps, kStride, kIsClamp>(a, grid, tile, item, filters, input.shared(),
                                                  output.shared());
  __syncthreads();
  output.store(target);
}

}  // namespace im2win::cuda
