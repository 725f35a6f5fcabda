// The tiles of the depthwise kernels and the choice among them. Plain host code: it can be printed
// and tested without a GPU.
#pragma once

#include <cstdint>
#include <optional>

#include "problem.hpp"

namespace im2win::cuda {

/// Neighbouring outputs of a row that a thread computes. Image widths of common networks are
/// multiples of it, and odd, so that the lanes of a warp meet in few banks of shared memory.
inline constexpr int kDepthwiseColumns = 7;
inline constexpr int kDepthwiseMaxThreads = 128;
/// Of dynamic shared memory: what a launch gets without asking for more.
inline constexpr int64_t kDepthwiseSharedBytes = 48 << 10;

/// NHWC: a warp's lanes are the channels of a slice.
inline constexpr int kDepthwiseSlice = 32;

/// What a block computes, and how its threads share it. A thread computes a strip of
/// kDepthwiseColumns columns by `thread_rows` rows of one channel.
struct DepthwiseTile {
  int channels;  // NCHW: planes of (image, channel); NHWC: slices of channels
  int strips;    // side by side; in NCHW all of a row
  int bands;     // of thread_rows each, one below the other
  int thread_rows;
  int64_t shared_bytes;

  int rows() const { return bands * thread_rows; }
  int columns() const { return strips * kDepthwiseColumns; }
  /// Threads' worth of work: in NCHW of threads, in NHWC of warps.
  int items() const { return channels * strips * bands; }
};

/// Whether there are kernels for the window: 3x3 or 5x5 without dilation, stride 1 or 2.
bool has_depthwise_window(const Problem& problem);

/// For dense NCHW; nothing where the tile of one row does not fit shared memory. A tile is whole
/// planes, or rows of one plane: either lies in memory without a gap.
std::optional<DepthwiseTile> choose_planes_tile(const Problem& problem);

/// For dense NHWC. Nothing where its channels are no whole 16-byte words.
std::optional<DepthwiseTile> choose_slices_tile(const Problem& problem);

}  // namespace im2win::cuda
