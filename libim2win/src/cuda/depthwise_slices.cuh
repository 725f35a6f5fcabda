// Depthwise convolution in NHWC: what a block computes, and its input's way to shared memory, in
// 16-byte words, with zeros for what lies outside the image.
#pragma once

#include <cuda_pipeline.h>

#include "checked.hpp"
#include "cuda/depthwise_sum.cuh"
#include "cuda/depthwise_tile.hpp"
#include "cuda/launch.cuh"

namespace im2win::cuda {

/// The tile and the image. Plain data.
struct SlicesGrid {
  SlicesTile tile;
  Divisor channel_tiles, column_tiles, row_tiles;
  Divisor tile_words;  // of a pixel
  Divisor strips, slice_warps;
  int tile_rows, tile_columns;
  int h, w, p, q;
  int input_words, output_words;  // of an image's row
  int pixel_words;
  int images, turns;  // of a block
  int64_t tiles, blocks;

  SlicesGrid(const Problem& problem, const SlicesTile& chosen)
      : tile(chosen),
        channel_tiles(ceil_div(problem.c, int64_t{tile.slices} * tile.shape.channels)),
        column_tiles(ceil_div(problem.q, tile.columns())),
        row_tiles(ceil_div(problem.p, tile.rows())),
        tile_words(tile.slices * tile.slice_words),
        strips(tile.strips),
        slice_warps(tile.slice_warps()),
        tile_rows(tile.rows()),
        tile_columns(tile.columns()),
        h(static_cast<int>(problem.h)),
        w(static_cast<int>(problem.w)),
        p(static_cast<int>(problem.p)),
        q(static_cast<int>(problem.q)),
        input_words(0),
        output_words(0),
        pixel_words(
            static_cast<int>(problem.c * element_bytes(problem.dtype) / kDepthwiseWordBytes)),
        images(static_cast<int>(problem.n)),
        turns(0),
        tiles(row_tiles.divisor * column_tiles.divisor * channel_tiles.divisor),
        blocks(0) {
    input_words = w * pixel_words;
    output_words = q * pixel_words;
  }

  void set_resident_blocks(int64_t resident) {
    // Without tensor cores no image is fetched ahead, so that several warps are better off with
    // other blocks beside theirs.
    const bool is_single = tile.shape.warp_strips == 1 && tile.warps() > 1;
    turns = is_single ? 1 : static_cast<int>(choose_turns(tiles, images, resident));
    blocks = tiles * ceil_div(images, turns);
  }
};

/// What a block computes of some images, and where its input starts, which may be outside them.
struct SlicesPlace {
  int first_n, end_n;
  int first_slice, first_p, first_q;
  int first_y, first_x;

  __device__ __forceinline__ SlicesPlace(const SlicesGrid& grid, const Axis& vertical,
                                         const Axis& horizontal) {
    const auto [place, channel_tile] = grid.channel_tiles.divide(static_cast<int>(blockIdx.x));
    const auto [row_of_tiles, column_tile] = grid.column_tiles.divide(place);
    const auto [turn, row_tile] = grid.row_tiles.divide(row_of_tiles);
    first_n = turn * grid.turns;
    end_n = min(grid.images, first_n + grid.turns);
    first_slice = channel_tile * grid.tile.slices;
    first_p = row_tile * grid.tile_rows;
    first_q = column_tile * grid.tile_columns;
    first_y = first_p * static_cast<int>(vertical.stride) - static_cast<int>(vertical.padding);
    first_x = first_q * static_cast<int>(horizontal.stride) - static_cast<int>(horizontal.padding);
  }
};

/// A strip's first output in the tile.
struct SliceStrip {
  int row, column;

  __device__ __forceinline__ SliceStrip(const SlicesGrid& grid, int number) {
    const auto [band, strip] = grid.strips.divide(number);
    row = band * grid.tile.strip_rows;
    column = strip * grid.tile.shape.columns;
  }
};

/// Starts copies that are complete after __pipeline_commit() and _wait_prior(), and a barrier. A
/// warp goes down the rows, its lanes are neighbouring words.
template <int kSliceWords>
__device__ __forceinline__ void load_slices(const uint4* image, const SlicesGrid& grid,
                                            const SlicesPlace& at, uint4* shared) {
  const SlicesTile& tile = grid.tile;
  const int warp = threadIdx.x / 32, warps = blockDim.x / 32;
  const int row_pitch = tile.input_columns * kSliceWords;
  const int words = static_cast<int>(grid.tile_words.divisor) * tile.input_columns;
  for (int i = threadIdx.x % 32; i < words; i += 32) {
    const auto [column, word] = grid.tile_words.divide(i);
    const int x = at.first_x + column;
    const int pixel_word = at.first_slice * kSliceWords + word;
    const bool is_column = unsigned(x) < unsigned(grid.w) && pixel_word < grid.pixel_words;
    const int rows = is_column ? grid.h : 0;
    int y = at.first_y + warp;
    const uint4* from = image + (int64_t{y} * grid.input_words + x * grid.pixel_words + pixel_word);
    uint4* to = shared + word / kSliceWords * tile.input_slice_pitch + warp * row_pitch +
                column * kSliceWords + word % kSliceWords;
#pragma unroll 2
    for (int row = warp; row < tile.input_rows; row += warps) {
      if (unsigned(y) < unsigned(rows))
        __pipeline_memcpy_async(to, from, 16);
      else
        *to = uint4{0, 0, 0, 0};
      y += warps;
      from += warps * grid.input_words;
      to += warps * row_pitch;
    }
  }
}

}  // namespace im2win::cuda
