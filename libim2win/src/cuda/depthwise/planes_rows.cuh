// Depthwise convolution in NCHW by tensor cores: what a block computes, and its input's way to
// shared memory, where each row starts a word.
#pragma once

#include "checked.hpp"
#include "cuda/depthwise/run.cuh"
#include "cuda/depthwise/sum.cuh"
#include "cuda/depthwise/tile.hpp"
#include "cuda/launch.cuh"

namespace im2win::cuda {

/// Rows start at multiples of so many bytes: at least 4, as they are pairs of elements.
inline int mma_planes_unit_bytes(const Problem& problem) {
  return static_cast<int>(std::min<int64_t>(16, 2 * (problem.w & -problem.w)));
}

/// The tile and the tensors. Plain data.
struct MmaPlanesGrid {
  static constexpr bool kStartsEarly = true;  // before the kernel ahead of it ends: follow()
  MmaPlanesTile tile;
  Divisor row_tiles, channel_tiles;
  Divisor strips, images, channel_warps;
  Divisor row_units;  // of `unit_bytes`: what rows are copied in
  int unit_bytes;
  Divisor team_threads;  // that copy one image at a time
  int input_words, tile_rows;
  int64_t image_outputs;  // elements
  int n, c, h, w, p, q;
  int turns;  // of a block, each some images
  int64_t tiles, blocks;

  MmaPlanesGrid(const Problem& problem, const MmaPlanesTile& chosen, int64_t resident)
      : tile(chosen),
        row_tiles(ceil_div(problem.p, tile.rows())),
        channel_tiles(ceil_div(problem.c, tile.channels)),
        strips(tile.strips),
        images(tile.images),
        channel_warps(tile.channel_warps()),
        row_units(1),
        unit_bytes(mma_planes_unit_bytes(problem)),
        team_threads(32 * std::max(1, tile.warps() / tile.images)),
        input_words(tile.input_words()),
        tile_rows(tile.rows()),
        image_outputs(problem.c * problem.p * problem.q),
        n(static_cast<int>(problem.n)),
        c(static_cast<int>(problem.c)),
        h(static_cast<int>(problem.h)),
        w(static_cast<int>(problem.w)),
        p(static_cast<int>(problem.p)),
        q(static_cast<int>(problem.q)),
        turns(0),
        tiles(channel_tiles.divisor * row_tiles.divisor),
        blocks(0) {
    row_units = Divisor(w * 2 / unit_bytes);
    const int64_t images = problem.n / tile.images;
    turns = static_cast<int>(choose_turns(tiles, images, resident));
    blocks = tiles * ceil_div(images, turns);
  }
};

/// What a block computes of some images: rows from first_p on of some channels, and the rows of the
/// image below.
struct MmaPlanesPlace {
  int first_n, end_n;
  int first_c, channels;
  int first_p, rows;
  int first_y, input_rows;

  template <int kTaps>
  __device__ __forceinline__ static MmaPlanesPlace of(const MmaPlanesGrid& grid, int padding_top) {
    const auto [place, row_tile] = grid.row_tiles.divide(static_cast<int>(blockIdx.x));
    const auto [turn, channel_tile] = grid.channel_tiles.divide(place);
    MmaPlanesPlace at;
    at.first_n = turn * grid.turns * grid.tile.images;
    at.end_n = min(grid.n, at.first_n + grid.turns * grid.tile.images);
    at.first_c = channel_tile * grid.tile.channels;
    at.channels = min(grid.tile.channels, grid.c - at.first_c);
    at.first_p = row_tile * grid.tile_rows;
    at.rows = min(grid.tile_rows, grid.p - at.first_p);
    const bool whole = grid.row_tiles.divisor == 1;
    const int top = at.first_p - padding_top;
    const int bottom = top + at.rows - 1 + kTaps;
    at.first_y = whole ? 0 : min(max(top, 0), grid.h);
    at.input_rows = whole ? grid.h : max(0, min(bottom, grid.h) - at.first_y);
    return at;
  }
};

/// Copies rows, one after the other in memory, to rows of whole words. A thread copies the same
/// unit of every so many rows, so that it works out once where that is.
template <int kUnitBytes>
__device__ __forceinline__ void load_rows(const uint16_t* source, const MmaPlanesGrid& grid,
                                          int rows, Team team, uint4* shared) {
  constexpr int kBatch = 4;
  const int row_bytes = grid.w * int(sizeof(uint16_t)), pitch = grid.tile.row_words * 16;
  const auto [first_row, first_unit] = grid.row_units.divide(team.thread);
  const int step = max(1, grid.row_units.quotient(team.threads));
  if (first_row >= step) return;
  for (int at = first_unit * kUnitBytes; at < row_bytes; at += team.threads * kUnitBytes) {
    const char* from = reinterpret_cast<const char*>(source) + first_row * row_bytes + at;
    char* to = reinterpret_cast<char*>(shared) + first_row * pitch + at;
    int row = first_row;
    const auto copy = [&] {
      __pipeline_memcpy_async(to, from, kUnitBytes);
      from += unsigned(step * row_bytes);
      to += unsigned(step * pitch);
    };
    for (; row + (kBatch - 1) * step < rows; row += kBatch * step) {
#pragma unroll
      for (int i = 0; i < kBatch; ++i) copy();
    }
#pragma unroll 1
    for (; row < rows; row += step) copy();
  }
}

/// The rows of the tile's planes, from image first_n on. Complete after __pipeline_commit() and
/// _wait_prior(), and a barrier.
__device__ __forceinline__ void load_mma_planes(const uint16_t* input, const MmaPlanesGrid& grid,
                                                const MmaPlanesPlace& at, Team team, int first_n,
                                                uint4* shared) {
  const int rows = at.channels * at.input_rows;
  for (int image = team.first; image < grid.tile.images; image += team.step) {
    const uint16_t* const from =
        input + (int64_t{first_n + image} * grid.c + at.first_c) * (grid.h * grid.w) +
        at.first_y * grid.w;
    uint4* const to = shared + image * grid.tile.image_words;
    switch (grid.unit_bytes) {
      case 16: load_rows<16>(from, grid, rows, team, to); break;
      case 8: load_rows<8>(from, grid, rows, team, to); break;
      default: load_rows<4>(from, grid, rows, team, to);
    }
  }
}

/// Zeros to the end of the last word of each row: copies leave them there.
__device__ __forceinline__ void clear_row_ends(const MmaPlanesGrid& grid, uint4* shared) {
  const MmaPlanesTile& tile = grid.tile;
  const int image_rows = tile.channels * tile.input_rows;
  for (int image = 0; image < 2 * tile.images; ++image)
    for (int row = threadIdx.x; row < image_rows; row += blockDim.x)
      shared[image * tile.image_words + (row + 1) * tile.row_words - 1] = uint4{0, 0, 0, 0};
  __syncthreads();
}

}  // namespace im2win::cuda
