// The tiles of the depthwise kernels and the choice among them. Plain host code: it can be printed
// and tested without a GPU.
#pragma once

#include <cstdint>
#include <optional>

#include "checked.hpp"
#include "problem.hpp"

namespace im2win::cuda {

inline constexpr int64_t kDepthwiseWordBytes = 16;
/// Of dynamic shared memory: what a launch gets without asking for more.
inline constexpr int64_t kDepthwiseSharedBytes = 48 << 10;

/// Rows and columns of outputs that a thread computes. Image widths of common networks are
/// multiples of it, and odd, so that the lanes of a warp meet in few banks of shared memory.
inline constexpr int kStripSize = 7;

/// Whether strips by tensor cores are worthwhile in NCHW: for 16-bit elements, 3x3, 5x5 or 7x7 without a stride
/// or dilation, in rows that are copied some elements at a time, and stored so.
bool is_for_tensor_cores(const Problem& problem);

/// Whether they are in NHWC, for 16-bit elements: where FMAs, not memory, keep the device busy.
constexpr bool is_for_mma_slices(int taps, int stride) {
  return taps == 7 || (taps == 5 && stride == 1);
}

/// Parts of at most `limit`, all but the last equal.
constexpr int even_share(int64_t count, int64_t limit) {
  return static_cast<int>(ceil_div(count, ceil_div(count, limit)));
}

/// Whether an image has no more elements, padding among those of the input, than so many.
bool has_images_of(const Problem& problem, int64_t most);
/// Whether sizes are such that 32-bit arithmetic within an image takes them, and so are steps in it.
bool has_narrow_steps(const Problem& problem);
/// Whether the window is `taps` x `taps`, not dilated, with a stride of 1 or 2 in both directions.
bool is_square(const Problem& problem, int taps);
/// Whether there are kernels for the window, whatever the layout and the elements: 3x3 or 5x5.
bool has_depthwise_window(const Problem& problem);
/// Whether slices are for the window, in NHWC: 3x3, 5x5 or 7x7, with a stride of 1 or 2, or dilated.
bool has_slices_window(const Problem& problem);

/// How many of `images` a block does one after the other, with what it prepares once, where a grid
/// is `tiles` blocks for each and the device holds `resident` blocks at a time.
int64_t choose_turns(int64_t tiles, int64_t images, int64_t resident);
/// Likewise for the kernel of PlaneMatrixTile, whose blocks wait more than they compute or copy.
int64_t choose_plane_matrix_turns(int64_t tiles, int64_t images, int64_t resident);

/// NHWC: a slice is so many bytes of a pixel's channels, for a lane. A warp computes a band of rows of
/// 32 slices of strips of kStripSize columns: of one strip, then of the next. In shared memory each
/// pixel of these is a line. What a warp has of it is a ring of rows.
///
/// Of whole words strips begin at every 16th lane, unless pixels are 8 lanes or fewer: lines of several
/// strips' parts are copied from more places, and stored to more.
inline constexpr int kSliceBytes = 4, kSlicesLineBytes = 32 * kSliceBytes, kStripLanes = 16;
inline constexpr int kSlicesRingBytes = 12 << 10;
inline constexpr int kSlicesWarps = 4;  // of a block

/// NHWC by tensor cores: a slice is two octets of channels, and a strip as many columns as a product
/// takes of a unit, or fewer. A warp's two units are strips of one slice, whose weights they share.
inline constexpr int kMmaSliceBytes = 32, kMmaStripColumns = 8, kMmaSlicesRingBytes = 6 << 10;

/// Pixels are copied in words of 16 bytes, or of 4 where they are no whole ones.
int64_t slices_word_bytes(const Problem& problem);

/// Rows of a band, and columns of a strip, are a dilation apart: those of one comb.
struct SlicesTile {
  int columns;              // of a strip
  int images;               // at a time
  int slice_bytes, slices;  // of a pixel, also past its channels
  int strips;
  int shares;  // of a band of those images, one for a warp
  int bands, band_rows;
  int turns;  // of a warp, each a band of `images` images

  int64_t warps(int64_t n) const {
    const int64_t turn_images = int64_t{images} * turns;
    return shares * int64_t{bands} * ((n + turn_images - 1) / turn_images);
  }
};

/// NCHW: what a block computes of an image, a thread of it a strip of kStripSize columns. Of the
/// channels' planes it is some that are whole, or rows of one: either lies in memory without a gap.
struct PlanesTile {
  int planes;
  int strips;  // all of a row
  int bands;   // one below the other
  int thread_rows;
  int filter_bytes;
  int64_t shared_bytes;

  int rows() const { return bands * thread_rows; }
  int threads() const { return planes * strips * bands; }
};
inline constexpr int kPlanesMaxThreads = 512;

/// NCHW by tensor cores: what a block computes at a time, some channels of some images, or rows of
/// one plane. A strip is kColumns columns by `strip_rows` rows of a plane. A warp takes kWarpStrips
/// of one channel, whatever their planes: they are numbered along a row, then by image, then down.
///
/// In shared memory a plane's rows are whole words: [image][channel][row][word][8]. Strip i of a
/// row starts at output column kColumns * i + first_column, and its windows lie within kWords words
/// from word i + first_word on, which is before the image for some.
struct MmaPlanesTile {
  static constexpr int kColumns = 8, kRows = 14, kWords = 2, kWarpStrips = 16, kMaxWarps = 4;

  int images, channels;
  int strips, bands;
  int strip_rows;
  int first_column, first_word;
  int input_rows, row_words;
  int image_words;   // of the input, from one image to the next
  int output_bytes;  // likewise: an image's outputs may start anywhere within a word
  int64_t shared_bytes;

  int rows() const { return bands * strip_rows; }
  int input_words() const { return images * image_words; }
  int channel_strips() const { return images * strips * bands; }
  int channel_warps() const { return (channel_strips() + kWarpStrips - 1) / kWarpStrips; }
  int warps() const { return channels * channel_warps(); }
};

/// NCHW by tensor cores, planes of few elements as rows of a matrix. A block computes some channels, a
/// warp each, of kImages images at a time.
///
/// The weights of the other matrix are in a table as wide as all distances of an input's column from
/// an output's.
struct PlaneMatrixTile {
  static constexpr int kElements = 64;  // of a plane, with a word's other half before it
  static constexpr int kImages = 16, kChannels = 8;

  int table_rows, table_columns;
  int input_words, output_words;  // of an image's planes in shared memory
  int parts;                      // of a plane of outputs, 8 elements each
  int64_t shared_bytes;

  constexpr int table_places() const { return table_rows * table_columns; }
  /// Places beyond it are zeros, for elements that there are not.
  constexpr int table_elements() const { return 2 * table_places() + 1; }
  constexpr int buffer_words() const { return kImages * input_words; }  // of the input
};

/// The places in the table of elements from -1 on.
struct ElementPlaces {
  static constexpr int kCount = PlaneMatrixTile::kElements + 1;
  static_assert(2 * kCount <= 32 * PlaneMatrixTile::kChannels, "a thread of a block lists one");
  uint16_t inputs[kCount], outputs[kCount];
};

/// NCHW by tensor cores, rows of kImages images' planes as rows of a matrix. A block computes some whole
/// planes of an image, or rows of one; a warp a band of rows, kColumns columns of it twice.
struct ImageRowsTile {
  static constexpr int kImages = 16, kColumns = 8, kFewWarps = 4, kMaxWarps = 8;
  static constexpr int kFewRows = 4;  // of a plane: fewer have too many rows below them in common
  static constexpr int kBandInputs = 14;  // rows of the input, about, for a warp
  static constexpr int64_t kSharedBytes = 64 << 10;
  /// Of zeros before and after the input in shared memory: windows reach so far beyond a row.
  static constexpr int kZeroWords = 5;

  int channels, pairs;  // of parts of a row
  int bands, band_rows;
  int input_words, output_words;  // of an image in shared memory
  int64_t shared_bytes;

  constexpr int rows() const { return bands * band_rows; }
  constexpr int warps() const { return channels * pairs * bands; }
};

/// For dense NCHW of 16 bits, rows of pairs and most of a block's images at least. Nothing where images or
/// tiles do not begin at whole words.
std::optional<ImageRowsTile> choose_image_rows_tile(const Problem& problem);

/// For dense NCHW of 16 bits, whatever the window. Nothing where planes have more elements, images do not
/// begin at whole words, or are so few that the matrix is not worthwhile.
std::optional<PlaneMatrixTile> choose_plane_matrix_tile(const Problem& problem);

/// For dense NCHW and stride 1. Nothing where a tile of one row does not fit shared memory.
std::optional<MmaPlanesTile> choose_mma_planes_tile(const Problem& problem);

/// For dense NCHW. Nothing where the rows below one row of outputs do not fit shared memory.
std::optional<PlanesTile> choose_planes_tile(const Problem& problem, int64_t multiprocessors);

/// For dense NHWC, where the device holds `resident` warps at a time. Nothing where the channels are
/// no whole words of 4 bytes.
std::optional<SlicesTile> choose_slices_tile(const Problem& problem, int64_t resident);
/// Likewise, by tensor cores.
std::optional<SlicesTile> choose_mma_slices_tile(const Problem& problem, int64_t resident);

}  // namespace im2win::cuda
