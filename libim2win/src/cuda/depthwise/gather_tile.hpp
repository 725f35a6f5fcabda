// The tile of the depthwise kernel that reads windows straight from memory, and the choice of it. Plain
// host code: it can be printed and tested without a GPU.
#pragma once

#include <cstdint>

#include "problem.hpp"

namespace im2win::cuda {

/// How many pixels a thread has, of a word of so many channels.
constexpr int gather_pixels(int word) { return word == 1 ? 8 : 4; }

/// What a block computes: `pixels` threads by `lanes` words of channels. A thread has a word of some
/// pixels, `pixels` apart, of all images' pixels one after the other.
///
/// In shared memory weights are [tap][channel] where channels are neighbours in memory, so that lanes
/// are, and [channel][tap] else: some of the window's rows and columns at a time.
struct GatherTile {
  static constexpr int kThreads = 256;
  static constexpr int kBlocks = 2;  // on a multiprocessor, for which registers suffice

  bool is_channel_major;  // a plane's pixels are neighbours, not a pixel's channels
  bool is_narrow;         // 32 bits hold all distances within a plane, and numbers of pixels
  int word;               // channels
  int lanes, pixels;
  int rows, columns;  // of the window
  int channel_pitch, tap_pitch;

  constexpr int channels() const { return lanes * word; }
  constexpr int taps() const { return rows * columns; }
  constexpr int span() const { return gather_pixels(word) * pixels; }
  constexpr int weights() const {
    return (channels() - 1) * channel_pitch + (taps() - 1) * tap_pitch + 1;
  }
};

/// Takes every problem. Where `are_words`, pixels' channels may be read and written some at a time.
GatherTile choose_gather_tile(const Problem& problem, bool are_words);
/// As windows_cost().
double gather_cost(const Problem& problem, const GatherTile& tile, int64_t multiprocessors);

}  // namespace im2win::cuda
