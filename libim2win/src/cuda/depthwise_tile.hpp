// The tiles of the depthwise kernels and the choice among them. Plain host code: it can be printed
// and tested without a GPU.
#pragma once

#include <cstdint>
#include <optional>

#include "problem.hpp"

namespace im2win::cuda {

inline constexpr int64_t kDepthwiseWordBytes = 16;
/// Of dynamic shared memory: what a launch gets without asking for more.
inline constexpr int64_t kDepthwiseSharedBytes = 48 << 10;

/// Rows and columns of outputs that a thread computes. Image widths of common networks are
/// multiples of it, and odd, so that the lanes of a warp meet in few banks of shared memory.
inline constexpr int kStripSize = 7;

/// Whether tensor cores are worthwhile: for 16-bit elements without a stride. With one, an element
/// is part of so few sums that staging it costs more than converting it.
bool is_for_tensor_cores(const Problem& problem);

/// Whether there are kernels for the window: 3x3 or 5x5 without dilation, stride 1 or 2.
bool has_depthwise_window(const Problem& problem);

/// How many of `images` a block does one after the other, with what it prepares once, where a grid
/// is `tiles` blocks for each and the device holds `resident` blocks at a time.
int64_t choose_turns(int64_t tiles, int64_t images, int64_t resident);

/// NHWC: a strip is `columns` by at most `rows` outputs of a slice of `channels`.
struct SliceShape {
  int channels, columns, rows;
  int warp_strips;  // of one slice
  int max_warps;    // of a block
};

/// A lane is a channel.
inline constexpr SliceShape kFmaSlice{32, kStripSize, kStripSize, 1, 4};
/// Tensor cores take fragments of 8 pixels by 8 channels, two at once.
inline constexpr SliceShape kMmaSlice{8, 8, 14, 2, 8};

/// NHWC: what a block computes of an image. In shared memory the input is
/// [slice][row][column][channel]. So is the output of tensor cores; where a warp computes whole
/// rows of its slice, they take the place of rows of the input that it has done with.
struct SlicesTile {
  SliceShape shape;
  int slices, strips, bands;  // strips side by side, bands one below the other
  int strip_rows;
  int slice_words;  // 16-byte words of a slice's pixel
  int input_rows, input_columns;
  bool is_in_place;
  int input_slice_pitch, input_words;  // in words, like what follows
  int output_slice_pitch, output_row_pitch;
  int64_t shared_bytes;

  int rows() const { return bands * strip_rows; }
  int columns() const { return strips * shape.columns; }
  int slice_warps() const { return strips * bands / shape.warp_strips; }
  int warps() const { return slices * slice_warps(); }
};

/// NCHW: what a block computes, a thread of it a strip of kStripSize columns. Of planes of
/// (image, channel) it is some that are whole, or rows of one: either lies in memory without a gap.
struct PlanesTile {
  int planes;
  int strips;  // all of a row
  int bands;   // one below the other
  int thread_rows;
  int64_t shared_bytes;

  int rows() const { return bands * thread_rows; }
  int threads() const { return planes * strips * bands; }
};
inline constexpr int kPlanesMaxThreads = 512;

/// NCHW by tensor cores: what a block computes at a time, some channels of some images, or rows of
/// one plane. A strip is kColumns columns by `strip_rows` rows of a plane. A warp takes kWarpStrips
/// of one channel, whatever their planes.
///
/// In shared memory a plane's rows are whole words: [image][channel][row][word][8]. Strip i of a
/// row starts at output column kColumns * i + first_column, and its windows lie within kWords words
/// from word i + first_word on, which is before the image for some.
struct MmaPlanesTile {
  static constexpr int kColumns = 8, kRows = 14, kWords = 2, kWarpStrips = 16, kMaxWarps = 8;

  int images, channels;
  int strips, bands;
  int strip_rows;
  int first_column, first_word;
  int input_rows, row_words;
  int output_bytes;  // of the channels of one image, which may start anywhere within a word
  int64_t shared_bytes;

  int rows() const { return bands * strip_rows; }
  constexpr int image_words() const { return channels * input_rows * row_words; }
  int input_words() const { return images * image_words(); }
  int channel_strips() const { return images * strips * bands; }
  int channel_warps() const { return (channel_strips() + kWarpStrips - 1) / kWarpStrips; }
  int warps() const { return channels * channel_warps(); }
};

/// For dense NCHW and stride 1. Nothing where a tile of one row does not fit shared memory.
std::optional<MmaPlanesTile> choose_mma_planes_tile(const Problem& problem);

/// For dense NCHW. Nothing where the rows below one row of outputs do not fit shared memory.
std::optional<PlanesTile> choose_planes_tile(const Problem& problem);

/// For dense NHWC, by kFmaSlice or kMmaSlice. Nothing where its channels are no whole 16-byte
/// words.
std::optional<SlicesTile> choose_slices_tile(const Problem& problem, const SliceShape& shape);

}  // namespace im2win::cuda
