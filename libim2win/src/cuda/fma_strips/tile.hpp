// What a block of im2win_fma has in shared memory and in registers. Plain host code: it can be tested
// without a GPU.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "cuda/divisor.hpp"
#include "problem.hpp"

namespace im2win::cuda::fma_strips {

inline constexpr int kThreads = 256;
inline constexpr int kBlocks = 3;  // of a multiprocessor
inline constexpr int64_t kMostSharedBytes =
    64 * 1024;                             // of a block: no device with CUDA 13 has less
inline constexpr int kChannelsAtOnce = 4;  // that a warp brings of its positions
inline constexpr int kWord = 4;            // floats that are loaded from shared memory at a time
inline constexpr int kWordsAPad = 8;       // a word's room follows as many words, see Tile
inline constexpr int kMostFilters = 8;     // of a thread

/// Neighbouring outputs of a row that a thread has of each of so many filters.
constexpr int strip_columns(int filters) { return filters > 4 ? 4 : 8; }
/// Filters that a thread has where a group has so many left: what there are kernels for.
constexpr int filters_of_thread(int64_t filters) {
  return filters > 4 ? kMostFilters : filters < 1 ? 1 : static_cast<int>(filters);
}
/// Where the word of that number is in a row of shared memory, in floats. Lanes that read every word, or every
/// other one, then meet in no bank.
constexpr int word_offset(unsigned word) {
  return static_cast<int>(kWord * (word + word / kWordsAPad));
}

/// A block computes rows of strips for `filters` filters of a group, of one image. It goes through the group's
/// channels by chunks, whose input and weights are in shared memory as float32: rows of the input with what windows
/// overhang, a row's columns by their remainder by the stride (phases), so that neighbouring outputs have
/// neighbouring columns whatever the stride. `splits` threads have the same outputs, and a part of the channels each.
/// Plain data.
struct Tile {
  int filters;       // of a thread
  int strips, rows;  // side by side, and above each other
  int splits;
  int chunk;        // channels
  int flush;        // chunks whose products a sum has before it is added to others
  int input_rows;   // of a channel's plane
  int phases;       // that have taps
  int tap_words;    // of a row of taps of a phase
  int phase_pitch;  // floats between phases
  int row_pitch;    // floats between rows
  int plane_pitch;  // floats between channels; as many positions are filled, a warp's at a time

  constexpr int columns() const { return strips * strip_columns(filters); }
  constexpr int threads_of_split() const { return strips * rows; }
  constexpr int positions() const { return input_rows * row_pitch; }
  /// Between the sums of threads: what lanes of a warp then read is in different banks.
  constexpr int sums_pitch() const { return (splits * threads_of_split() + 31) / 32 * 32 + 4; }
  int64_t sums_bytes() const;
  int64_t weights_bytes(const Problem& problem) const;
  int64_t shared_bytes(const Problem& problem) const;
};

/// What of images of one row after another is the same convolution of images of one row: 1x1 windows without steps.
Problem as_single_rows(Problem problem);

/// "" or why not.
std::string refusal(const Problem& problem);

/// How many neighbouring channels may be read at a time where tensors begin at whole words: 1, or 16 bytes of them.
int vector_of(const Problem& problem);

/// Channels are read `vector` at a time; none if shared memory does not hold so many. One at a time it does, but for
/// what is refused.
std::optional<Tile> choose_tile(const Problem& problem, int vector, int multiprocessors);

/// Of all tiles.
int64_t blocks_of(const Problem& problem, const Tile& tile);

/// Estimated cycles.
double cost(const Problem& problem, const Tile& tile, int multiprocessors);

}  // namespace im2win::cuda::fma_strips
