// How `pointwise_mma` shares a convolution of single pixels out: pixels among warps, each by itself, and filters
// among passes over these and parts of the blocks. Plain host code: it can be tested without a GPU.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "cuda/device_limits.hpp"
#include "problem.hpp"

namespace im2win::cuda::pointwise_mma {

/// What a warp has of a channel at a time, in neighbouring pixels of one image or of several; where channels are
/// neighbours, as many pixels of a step's channels.
constexpr int kRowBytes = 128;
/// What it multiplies at a time of these.
constexpr int kStepChannels = 16;
constexpr int kSlotBytes = kStepChannels * kRowBytes;
/// Steps that are asked for before they are needed.
constexpr int kStepsAhead = 3;
/// Filters of a product.
constexpr int kProductFilters = 16;
constexpr int kMostSixteens = 4;

/// What products are of.
enum class Operands {
  kSixteenBits,  // elements as they are
  kTf32,         // float32, rounded
  kThirds,       // float32, as three bfloat16: see thirds.cuh
};

Operands operands_of(const Problem& problem);

/// How pixels lie in memory.
enum class Form {
  kPlanes,   // pixels of a channel next to each other
  kRows,     // channels of a pixel
  kWindows,  // these, of windows of several pixels: see windows_mma.cu
};

/// Of a filter's element in shared memory.
constexpr int filter_bytes(Operands operands) {
  return operands == Operands::kSixteenBits ? 2 : operands == Operands::kTf32 ? 4 : 6;
}

/// Of a block, of which a multiprocessor has one: fewer where each has many sums. They hide from each other what they wait
/// for; some may have no tiles, and help with filters.
constexpr int block_warps(int sixteens, Operands operands) {
  return sixteens == kMostSixteens && operands == Operands::kSixteenBits ? 8 : 16;
}
constexpr int kLeastThreads = 8 * 32;

/// Pixels come and go by such words, where planes are whole ones, or by half of it, if that is more than an element.
constexpr int kMostWordBytes = 16, kLeastWordBytes = 8;

constexpr int tile_pixels(int element_bytes) { return kRowBytes / element_bytes; }

/// Plain data.
struct Tile {
  int sixteens;  // of filters, of a pass: 1, 2 or 4
  int passes;    // of a part
  int parts;     // of all filters
  int steps;     // of all channels
  int slots;     // of a warp: steps that shared memory holds
  int warps;     // of a block, that have tiles
  int blocks;    // of a part
  int tiles;     // of pixels, which the part's warps have in turn
  // In shared memory, which begins with the filters.
  int biases_begin, magnitudes_begin, slots_begin, shared_bytes;

  constexpr int part_filters() const { return passes * sixteens * kProductFilters; }
};

/// Whether channels are neighbours, rather than pixels of a channel.
bool are_rows(const Problem& problem);

/// Of what a warp tells others of filters as thirds: see thirds.cuh.
constexpr int kMagnitudesBytes = 8;

/// How many elements, at most `word`, words may have of planes, or of pixels' channels, which begin after so many elements.
int plane_word(const Tensor& tensor, int64_t begin, int word);
int row_word(const Tensor& tensor, int64_t begin, int word);

/// Likewise, of a filter's channels, or of a window's elements.
int filter_word(const Problem& problem, int64_t begin, int word);

/// "" or why not.
std::string refusal(const Problem& problem);

/// For devices that have room for one warp at least.
std::vector<Tile> tiles_of(const Problem& problem, const DeviceLimits& device, int most_sixteens);

/// The tile that is estimated to be the fastest.
Tile choose_tile(const Problem& problem, const DeviceLimits& device);

/// Estimated, on an H200.
double microseconds(const Problem& problem, const Tile& tile, const DeviceLimits& device);

}  // namespace im2win::cuda::pointwise_mma
