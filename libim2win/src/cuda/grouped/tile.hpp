// How `grouped` shares convolutions of many groups of few channels out: slabs of groups and boxes of outputs to blocks,
// and these to warps. Plain host code: it can be tested without a GPU.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "cuda/device_limits.hpp"
#include "problem.hpp"

namespace im2win::cuda::grouped {

constexpr int kThreads = 128, kWarps = kThreads / 32;
/// Blocks of a multiprocessor, for which registers are left.
constexpr int kMostResident = 4;
/// Elements of 16 bytes, what is copied and what a row of ldmatrix has. A step, the K of a product, is two of them.
constexpr int kWord = 8;
/// A warp's products: positions along a strip of rows are the rows of a product, which is repeated for each row of it.
constexpr int kPositions = 16, kStripRows = 4;
/// Channels, and filters, of a slab, and of a set.
constexpr int kMostSlab = 64, kMostSet = 32;
/// Rows of taps whose products share pixels, where windows are this high, and rows of outputs as far apart as these.
constexpr int kSharedTapRows = 3;

/// Neighbouring groups that are multiplied as one, so that their channels and filters are whole words.
struct Set {
  int groups, channels, filters;
};

/// Whether its channels are words, whatever the address.
bool are_words(const Tensor& tensor);

/// Of groups of up to kMostSet channels and filters.
Set set_of(const Problem& problem);

/// Plain data.
struct Tile {
  int sets;             // of a slab
  int strips, columns;  // of a box of outputs
  int tap_rows;         // that share pixels: kSharedTapRows or 1
  int stages;           // boxes in shared memory: 2 where blocks have several

  constexpr int box_rows() const { return strips * kStripRows; }
  /// Of kPositions, the last perhaps fewer.
  constexpr int position_groups() const { return (strips * columns + kPositions - 1) / kPositions; }
};

/// What is in shared memory of a box, [row][column][channel], and of a slab's filters, [filter][row of taps][step].
/// Columns are sorted by their remainder modulo the stride, so that those of neighbouring outputs are neighbours.
/// Pitches of pixels and filters are odd numbers of words: eight neighbours' words are in different banks.
struct Layout {
  int rows, columns;  // of pixels
  int phase_columns;  // of a remainder
  int pixel_pitch;    // bytes
  int steps;          // of a row of taps
  int filter_pitch;   // bytes
  int filters_begin;  // after what has the same place always, and offsets of taps
  int boxes_begin, box_bytes;
  int shared_bytes;

  constexpr int row_pitch() const { return columns * pixel_pitch; }
};

/// Of outputs on their way out, and biases: in front of all else.
constexpr int kPatchPitch = 24;  // floats: rows of 8 modulo 16 are in different banks
constexpr int kFixedBytes = kMostSlab * 4 + kWarps * kPositions * kPatchPitch * 4;

/// Where an axis is too long, shared memory of more bytes than any block has.
Layout layout_of(const Problem& problem, const Tile& tile);

/// "" or why not.
std::string refusal(const Problem& problem);

/// The tile that is estimated to be the fastest; none where the device has too little shared memory.
std::optional<Tile> choose_tile(const Problem& problem, const DeviceLimits& device);

/// Boxes of all images; slabs; and how many boxes of a slab are worked on at the same time.
int boxes_of(const Problem& problem, const Tile& tile);
int slabs_of(const Problem& problem, const Tile& tile);
int boxes_at_once(const Problem& problem, const Tile& tile, const DeviceLimits& device);

/// Elements of a filter that are copied at a time: kWord, half of it, or one.
int filter_copy(const Problem& problem, const void* filter);

/// Whether it is faster than im2win_fused.
bool is_faster(const Problem& problem);
/// Whether it is faster than the kernels of `depthwise`, which are made for more channels: with a filter each of 8 or 16
/// in NHWC, of which it takes 0.5 to 0.7 of the time (an H200).
bool is_faster_than_depthwise(const Problem& problem);

/// Estimated, on an H200.
double microseconds(const Problem& problem, const Tile& tile, const DeviceLimits& device);
/// Of the best tile; infinitely many for what is refused.
double microseconds(const Problem& problem);
/// Of this or of im2win_fused, whichever is faster.
double least_microseconds(const Problem& problem);

}  // namespace im2win::cuda::grouped
