// A transposition in squares through shared memory.

#include "cuda/pack_filter.hpp"

#include <algorithm>
#include <cstdint>
#include <iterator>

#include "cuda/divisor.hpp"
#include "cuda/launch.cuh"

namespace im2win::cuda {
namespace {

constexpr int kEdge = 32;  // of the square of filters by taps that a block transposes
constexpr int kThreads = 256;

struct PackArguments {
  Divisor tap_blocks, filter_blocks, tile_filters;
  Divisor rs, s;
  int64_t r;
  int64_t taps, padded_taps;
  int64_t filters, padded_filters;  // of a group
  int64_t stride[4];
  int64_t blocks;

  PackArguments(const Problem& problem, const Im2winTile& tile)
      : tap_blocks(cuda::padded_taps(problem) / kEdge),
        filter_blocks(filter_tiles(problem, tile) * tile.filters / kEdge),
        tile_filters(tile.filters),
        rs(problem.r * problem.s),
        s(problem.s),
        r(problem.r),
        taps(problem.window_elements()),
        padded_taps(cuda::padded_taps(problem)),
        filters(problem.k_per_group()),
        padded_filters(filter_tiles(problem, tile) * tile.filters),
        blocks(problem.groups * filter_blocks.divisor * tap_blocks.divisor) {
    std::copy(std::begin(problem.filter.stride), std::end(problem.filter.stride), stride);
  }
};

/// A block reads 32 filters along their taps in the order (c, r, s), contiguous in a KCRS filter,
/// and writes them tap by tap along the filters, contiguous in the packed one.
__global__ void __launch_bounds__(kThreads)
    pack_filter_kernel(const __grid_constant__ PackArguments a, const float* __restrict__ filter,
                       float* __restrict__ packed) {
  constexpr int kRows = kThreads / kEdge;
  __shared__ float square[kEdge][kEdge + 1];  // [filter][tap]; odd pitch: columns are conflict-free
  __shared__ int64_t packed_tap[kEdge];
  if (block_index() >= a.blocks) return;
  const auto [rest, tap_block] = a.tap_blocks.divide(block_index());
  const auto [group, filter_block] = a.filter_blocks.divide(rest);
  const int lane = threadIdx.x % kEdge, row = threadIdx.x / kEdge;

  const int64_t tap = tap_block * kEdge + lane;
  const auto [c, in_window] = a.rs.divide(tap);
  const auto [r, s] = a.s.divide(in_window);
  const bool is_tap = tap < a.taps;
  if (row == 0) packed_tap[lane] = is_tap ? (c * a.s.divisor + s) * a.r + r : tap;
  const int64_t at = c * a.stride[1] + r * a.stride[2] + s * a.stride[3];
#pragma unroll
  for (int i = row; i < kEdge; i += kRows) {
    const int64_t k = filter_block * kEdge + i;
    const bool inside = is_tap && k < a.filters;
    square[i][lane] = inside ? filter[(group * a.filters + k) * a.stride[0] + at] : 0.0f;
  }
  __syncthreads();

  const auto [tile, in_tile] = a.tile_filters.divide(filter_block * kEdge + lane);
  float* tile_start = packed + group * a.padded_filters * a.padded_taps +
                      tile * a.tile_filters.divisor * a.padded_taps + in_tile;
#pragma unroll
  for (int i = row; i < kEdge; i += kRows)
    tile_start[packed_tap[i] * a.tile_filters.divisor] = square[lane][i];
}

}  // namespace

int64_t packed_filter_bytes(const Problem& problem, const Im2winTile& tile) {
  int64_t bytes = sizeof(float);
  for (int64_t size :
       {problem.groups, filter_tiles(problem, tile), int64_t{tile.filters}, padded_taps(problem)})
    bytes = checked_multiply(bytes, size, "the packed filter");
  return bytes;
}

void pack_filter(const Problem& problem, const Im2winTile& tile, const void* filter, void* packed,
                 void* stream) {
  const PackArguments a(problem, tile);
  launch("pack_filter_kernel", pack_filter_kernel, a.blocks, kThreads, stream, a,
         static_cast<const float*>(filter), static_cast<float*>(packed));
}

}  // namespace im2win::cuda
