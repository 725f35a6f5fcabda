// What the tests of im2win_fused's tiles have in common: the GPU and kernels that tiles are chosen for, and problems.
#pragma once

#include <cstdint>

#include "cuda/fused/tile.hpp"

namespace im2win::cuda::fused {

constexpr Chip kChip = {132, 227 * 1024, true, {132, 66, 30, 15}};
constexpr KernelShape kShapes[] = {{128, 80, 56},
                                   {128, 104, 88},
                                   {128, 120, 120, 1},
                                   {128, 160, 128},
                                   {.filters = 128, .columns = 112, .held_units = 4},
                                   {128, 168, 168, 1},
                                   {64, 80, 48},
                                   {64, 160, 88},
                                   {64, 240, 168, 1},
                                   {.filters = 64, .columns = 80, .held_units = 6},
                                   {256, 80, 56},
                                   {256, 104, 104},
                                   {.filters = 64,
                                    .columns = 240,
                                    .least_columns = 168,
                                    .staging_warpgroups = 1,
                                    .takes_turns = true}};

/// Dense NHWC or NCHW tensors.
inline Problem make_problem(const int64_t (&input)[4], int64_t k, int64_t r, int64_t s, bool nhwc) {
  Problem problem{};
  problem.dtype = IM2WIN_FLOAT16;
  problem.n = input[0];
  problem.c = input[1];
  problem.h = input[2];
  problem.w = input[3];
  problem.k = k;
  problem.r = r;
  problem.s = s;
  problem.stride_h = problem.stride_w = problem.dilation_h = problem.dilation_w = 1;
  problem.groups = 1;
  const int64_t pixels = input[2] * input[3];
  problem.input = {{input[0], input[1], input[2], input[3]},
                   {input[1] * pixels, nhwc ? 1 : pixels, nhwc ? input[3] * input[1] : input[3],
                    nhwc ? input[1] : 1}};
  return problem;
}

inline void set_outputs(Problem& problem) {
  const auto outputs = [](int64_t size, int64_t padding, int64_t taps, int64_t dilation,
                          int64_t stride) {
    return (size + padding - dilation * (taps - 1) - 1) / stride + 1;
  };
  problem.p = outputs(problem.h, problem.padding_top + problem.padding_bottom, problem.r,
                      problem.dilation_h, problem.stride_h);
  problem.q = outputs(problem.w, problem.padding_left + problem.padding_right, problem.s,
                      problem.dilation_w, problem.stride_w);
}

/// Windows with such a step and as much padding on all sides, and their outputs.
inline void set_windows(Problem& problem, int64_t padding, int64_t stride) {
  problem.padding_top = problem.padding_bottom = padding;
  problem.padding_left = problem.padding_right = padding;
  problem.stride_h = problem.stride_w = stride;
  set_outputs(problem);
}

/// Of the blocks that share a tile's slabs out: all slabs one after the other, and enough batches for each
/// that its first warpgroup lets the second start.
inline int misshared_slabs(const Tile& tile, OperandTraits traits) {
  int wrong = tile.first_slab(0) != 0;
  wrong += tile.first_slab(tile.cluster_blocks()) != tile.slabs();
  for (int block = 0; block < tile.cluster_blocks(); ++block) {
    int batches = 0;
    for (int slab = tile.first_slab(block); slab < tile.first_slab(block + 1); ++slab) {
      const int kind = slab / tile.chunks < tile.full_groups ? 0 : 1;
      batches += (tile.steps[kind].count + traits.batch - 1) / traits.batch;
    }
    wrong += tile.lead >= batches;
  }
  return wrong;
}

}  // namespace im2win::cuda::fused
