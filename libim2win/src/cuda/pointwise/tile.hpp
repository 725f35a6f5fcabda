// How `pointwise` shares a convolution of single pixels out: filters among blocks, pixels among their warpgroups.
// Plain host code: it can be tested without a GPU.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "problem.hpp"

namespace im2win::cuda::pointwise {

/// The rows of a product, which a warpgroup multiplies at a time.
constexpr int kProductPixels = 64;
/// The K of a product.
constexpr int kStepChannels = 16;
/// What a stage of shared memory has of pixels, in swizzled rows of 32, 64 or 128 bytes of neighbouring channels.
constexpr int kStageBytes = 8192;
constexpr int kRowBytes = 128;
constexpr int kStageChannels = kRowBytes / 2;
constexpr int kMaxStages = 24;
/// Swizzles of such rows repeat after so many bytes, where boxes begin.
constexpr int kSwizzleBytes = 8 * kRowBytes;

/// Of outputs on their way out: a box has the pixels of a warp and so many filters.
constexpr int kBoxFilters = 64;
constexpr int kWarpPixels = 16;
constexpr int kBoxBytes = kWarpPixels * kRowBytes;
/// Sums of as many, [pixel][filter], as float32: four pixels of a pitch of 8 modulo 32 are in different banks.
constexpr int kPatchPitch = kBoxFilters + 8;
constexpr int kPatchBytes = kWarpPixels * kPatchPitch * 4;

/// What a kernel is compiled for.
struct Shape {
  int columns;     // filters of a product
  int sets;        // products of a step, side by side
  int warpgroups;  // that multiply: the fewer registers each has for sums, the more

  constexpr int filters() const { return columns * sets; }
  constexpr int threads() const { return 128 * (1 + warpgroups); }
  constexpr int boxes() const { return (filters() + kBoxFilters - 1) / kBoxFilters; }
  /// Of a warp's outputs.
  constexpr int output_bytes() const {
    const int bytes = boxes() * kBoxBytes > kPatchBytes ? boxes() * kBoxBytes : kPatchBytes;
    return (bytes + kSwizzleBytes - 1) / kSwizzleBytes * kSwizzleBytes;
  }
};

inline constexpr Shape kShapes[] = {{48, 1, 4}, {64, 1, 4}, {96, 1, 3}, {128, 1, 3},
                                    {80, 2, 3}, {96, 2, 2}, {128, 2, 2}};

/// Barriers and biases are before the filters.
constexpr int kFiltersBegin = 2048;

/// Plain data.
struct Tile {
  int shape;      // in kShapes
  int splits;     // of the filters: each block has those of one
  int row_units;  // words of 16 bytes of a row: fewer channels leave room for more pixels
  int pixels;     // of a stage
  int chunks;     // of the channels: stages of a tile
  int stages;
  // In shared memory, after the filters; and all of it.
  int stages_begin, outputs_begin, shared_bytes;

  constexpr int row_bytes() const { return row_units * 16; }
};

/// From a pixel to the next, all images and rows following each other; none if these do not, or channels are no
/// neighbours.
std::optional<int64_t> pixel_stride(const Tensor& tensor);

/// Why not, of windows that are not of single pixels next to each other, of one group; else "".
std::string refusal_of_windows(const Problem& problem);

/// "" or why not.
std::string refusal(const Problem& problem);

/// As few splits as can be; none if shared memory does not hold what a tile of any shape takes.
std::optional<Tile> choose_tile(const Problem& problem);

/// Whether it is faster than im2win_fused.
bool is_faster(const Problem& problem);

/// Estimated, on an H200, where these are few.
double microseconds(const Problem& problem);

}  // namespace im2win::cuda::pointwise
