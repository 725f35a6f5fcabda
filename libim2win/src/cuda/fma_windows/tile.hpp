// Which outputs a block of im2win_fma has where windows have few elements. Plain host code: it can be tested without a
// GPU.
#pragma once

#include <cstdint>
#include <string>

#include "problem.hpp"

namespace im2win::cuda::fma_windows {

inline constexpr int kThreads = 128;
inline constexpr int kHeld = 4;  // windows or filters of a thread, and outputs of a word
inline constexpr int kMostTaps = 48;
inline constexpr int kMostFilters = 128;  // of a block
inline constexpr int kMostPixels = 128;   // of a block at a time, where threads hold filters
inline constexpr int kTilePixels = kThreads * kHeld;  // where they hold windows

/// Elements of a window that there are kernels for; others are filled up with zeros.
inline constexpr int kDepths[] = {12, 20, 28, 36, kMostTaps};

/// As many as registers and shared memory are enough for.
constexpr int blocks_of_multiprocessor(int depth) {
  return depth <= 12 ? 5 : depth <= 20 ? 4 : depth <= 28 ? 3 : 2;
}

/// Plain data.
struct Tile {
  int depth;    // one of kDepths
  int filters;  // of a block
  int pixels;   // at a time
  int workers;  // blocks of the same filters, which take tiles of pixels in turn
};

/// "" or why not.
std::string refusal(const Problem& problem);

/// Whether neighbours in the output are filters, or else pixels. Threads hold, and so store, neighbours.
bool are_filters_neighbours(const Problem& problem);

/// Whether so many neighbours of a block's are words, of an output that begins at one.
bool has_words(const Problem& problem);

/// Of all groups.
int64_t filter_tiles(const Problem& problem, const Tile& tile);

int64_t pixel_tiles(const Problem& problem, const Tile& tile);

/// Estimated, on an H200.
double microseconds(const Problem& problem, const Tile& tile, int multiprocessors);
/// Of the best tile; infinitely many for what is refused.
double microseconds(const Problem& problem);

/// The tile that is estimated to be the fastest.
Tile choose_tile(const Problem& problem, int multiprocessors);

}  // namespace im2win::cuda::fma_windows
