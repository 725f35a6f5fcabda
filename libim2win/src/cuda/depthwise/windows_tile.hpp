// The tile of the depthwise kernel for any window, and the choice among them. Plain host code: it can
// be printed and tested without a GPU.
#pragma once

#include <cstdint>
#include <optional>

#include "problem.hpp"

namespace im2win::cuda {

/// Along one axis: outputs that are `outputs` apart meet, by taps that are `taps` apart, inputs that
/// are `inputs` apart, the least distance that both strides and dilations add up to. Such outputs are
/// a thread's, and such taps a pass over its inputs; others have passes, or threads, of their own.
struct Comb {
  int64_t stride, dilation;
  int64_t outputs, taps, inputs;

  static Comb vertical(const Problem& problem);
  static Comb horizontal(const Problem& problem);

  /// From the input of the first output and tap to that of the last of those that start a comb.
  constexpr int64_t spread(int64_t passes) const {
    return (outputs - 1) * stride + (passes - 1) * dilation;
  }
};

/// What a block computes of an image: rows and columns of some channels. In shared memory, in float,
/// the input below it is planes, zeros outside the image; of a row, inputs that are a comb's are
/// neighbours. A thread computes kColumns outputs of as many rows as there are in `thread_rows`.
struct WindowsTile {
  static constexpr int kColumns = 7, kRows = 4, kMaxThreads = 256;
  static constexpr int kBlocks = 3;  // on a multiprocessor, for which registers suffice
  /// Of dynamic shared memory: what all devices that have its kernels can give a block.
  static constexpr int64_t kSharedBytes = 96 << 10;

  bool is_pixel_major;  // NHWC
  int channels;
  int row_combs, column_combs;  // of outputs: each Comb::outputs threads along its axis
  int thread_rows;
  int pass_taps;  // of a row: so many at a time are in registers
  int filter_rows;
  int row_passes, row_taps;  // of them, and the most rows of a pass
  int column_passes, combs;  // of the filter's columns, and those that start other combs
  int word, output_word;     // elements of a row, or a pixel, that are loaded or stored at a time
  int rows, columns;         // of outputs
  int input_rows, comb_inputs;                             // below them; those of a comb in a row
  int row_pitch, plane_pitch, output_pitch, filter_pitch;  // of planes, in floats
  int threads;                                             // that compute
  int team_lanes;                                          // of threads that stage a row at a time
  int64_t shared_bytes;

  constexpr int block_threads() const { return (threads + 31) / 32 * 32; }
  /// Floats from one comb's inputs of a row to the next one's, of Comb::inputs combs: of several, in different banks.
  constexpr int comb_pitch(int64_t inputs) const {
    return inputs > 1 ? comb_inputs | 1 : comb_inputs;
  }
};

/// Floats from the taps of a pass in a row to those in the next: words, which lanes read at once.
constexpr int windows_taps_pitch(int pass_taps) { return pass_taps > 4 ? 8 : 4; }

/// Images of one row in NCHW, as in one dimension, as rows of one image: a block then has several, and a thread four. The
/// problem itself where it has no such form.
Problem with_images_as_rows(Problem problem);

/// For dense NCHW and NHWC, and such rows. Nothing where a tile does not fit shared memory. The device runs
/// `multiprocessors` times some blocks at a time.
std::optional<WindowsTile> choose_windows_tile(const Problem& problem, int64_t multiprocessors);
/// In cycles of a multiprocessor, about.
double windows_cost(const Problem& problem, const WindowsTile& tile, int64_t multiprocessors);

}  // namespace im2win::cuda
