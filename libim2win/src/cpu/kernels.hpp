// The inner loops of the CPU's algorithms. One instance an instruction set, all from
// kernels_template.hpp, chosen at run time.
#pragma once

#include <cstdint>
#include <type_traits>

#include "cpu/half.hpp"
#include "cpu/winograd/points.hpp"

namespace im2win::cpu {

/// What elements of a tensor are computed in.
template <class Element>
struct ComputeOf {
  using Type = float;
};
template <>
struct ComputeOf<double> {
  using Type = double;
};

/// Whether a window's taps are pairs of neighbouring channels: factors that stay bfloat16 are, as an
/// instruction adds both products.
template <class Factor>
constexpr bool kArePairs = std::is_same_v<Factor, BFloat16>;
template <class Factor>
constexpr int64_t kTapFactors = kArePairs<Factor> ? 2 : 1;

/// A sum x leaves a kernel as: x + bias, raised to low, lowered to high; NaN stays.
template <class Compute>
struct Range {
  Compute low;
  Compute high;

  /// NaN stays.
  constexpr Compute bounded(Compute x) const { return x < low ? low : x > high ? high : x; }
};

/// A row of outputs, all its channels, channels being next to each other in memory. Filter rows
/// outside the image are left out by the caller, columns outside by the kernel.
template <class Compute>
struct ChannelRow {
  const Compute* input = nullptr;  // column 0, channel 0 of what the first filter row meets
  const Compute* next = nullptr;   // likewise, the first row that the next row of outputs adds
  int64_t next_stride = 0;
  int64_t next_rows = 0;  // to be prefetched
  int64_t row_stride;     // of the input, from one filter row to the next
  int64_t column_stride;
  int64_t columns;                  // of the input
  int64_t padding;                  // left of them
  const Compute* filter = nullptr;  // input channel of the group, row, column, filter
  int64_t filter_stride;            // of its columns
  int64_t filter_plane;             // from one input channel of the group to the next
  int64_t filter_rows = 0;
  int64_t filter_columns;
  int64_t stride;    // along the row
  int64_t dilation;  // along the row
  const Compute* bias;
  Range<Compute> range;
  int64_t channels;  // at least a vector of them
  int64_t group;     // input channels of a sum; a vector has whole groups
  Compute* output;
  int64_t output_stride;
  int64_t outputs;
  bool streams;  // past the caches to outputs too many for them, where they are aligned
};

/// output[i] = sum over taps of weights[tap] * input[offsets[tap] + i]. `count` is a whole number
/// of vectors.
template <class Compute>
struct PlaneSum {
  const Compute* input;
  const int64_t* offsets;
  const Compute* weights;
  int64_t taps;
  Compute bias;
  Range<Compute> range;
  Compute* output;
  int64_t count;
};

/// Pixels of a full register tile. With 4 vectors of filters it takes 24 of AVX-512's 32 registers
/// for sums, with 2 it takes 12 of the 16 of AVX2 and SSE2. Six addresses fit general registers too.
constexpr int kTilePixels = 6;
constexpr int kPixelStep = 2;  // between the sizes of tiles
constexpr int kMaxTileVectors = 4;
constexpr int kMaxVectorBytes = 64;

/// A register tile, pixels times filters: sums[pixel][f] = sum over taps of
/// windows[pixel][offsets[tap]] * filters[tap * F + f], F being the tile's filters, whole vectors; or
/// of windows[pixel][offsets[tap] + i] * filters[2 * (tap * F + f) + i], i being 0 and 1, where taps are
/// pairs.
template <class Factor>
struct WindowTile {
  using Compute = typename ComputeOf<Factor>::Type;
  const Factor* const* windows;  // of each pixel
  const int64_t* offsets;
  int64_t taps;
  const Factor* filters;
  Compute* const* sums;  // of each pixel
  bool is_first;         // or the taps before these are in the sums already
  bool is_last;          // then the sums get their bias and bounds
  bool are_far;          // the sums, from the caches: they are asked for while the taps are summed
  const Compute* bias;   // of each filter
  Range<Compute> range;
  bool streams;        // past the caches to sums too many for them, where they are aligned
  const Factor* next;  // what follows the windows in memory, to be prefetched: of each tap
  int64_t next_step;   // the element at next_step times its offset
};

/// The kernels for all sizes of such a tile.
template <class Factor>
struct WindowSums {
  /// [vectors - 1][pixels / kPixelStep - 1]
  void (*kernels[kMaxTileVectors][kTilePixels / kPixelStep])(const WindowTile<Factor>& tile);
  /// By the least register tile that holds the pixels: it may have one more, which is read and written.
  void operator()(int64_t vectors, int64_t pixels, const WindowTile<Factor>& tile) const {
    kernels[vectors - 1][(pixels - 1) / kPixelStep](tile);
  }
};

/// Filters of a full register tile along planes, and between the sizes of tiles.
constexpr int kTileFilters = 6;
constexpr int kFilterStep = 2;

/// A register tile, filters times neighbouring outputs, whole vectors:
/// output[k][i] = sum over taps of filters[k][tap] * input[offsets[tap] + i].
template <class Compute>
struct PlanesTile {
  const Compute* input;
  const int64_t* offsets;
  int64_t taps;
  const Compute* filters;  // each has its taps side by side
  int64_t filter_stride;
  const Compute* bias;  // of each filter
  Range<Compute> range;
  Compute* output;
  int64_t output_stride;  // from filter to filter
  bool streams;           // past the caches to outputs too many for them, where they are aligned
  const Compute* next;    // to be prefetched: of each tap, what is at its offset
};

/// A register tile of dot products, of filters and windows or the other way round.
constexpr int kDotRows = 4;
constexpr int kDotColumns = 2;

/// sums[i * row_stride + j * column_stride] = sum over taps of rows[i][tap] * columns[j][tap].
template <class Compute>
struct DotTile {
  const Compute* rows[kDotRows];
  const Compute* columns[kDotColumns];
  int64_t taps;
  Compute* sums;
  int64_t row_stride, column_stride;
  int64_t ahead;  // from a row to one that is to be prefetched
};

/// Sums of some values' magnitudes and squares.
template <class Compute>
struct Spread {
  Compute sum;
  Compute squares;
};

/// Neighbouring tiles of inputs, of what pieces of the window (winograd/axis.hpp) see for 2 x 2 outputs, channels
/// being next to each other: to be transformed to the pieces' points. `channels` is a whole number of vectors.
template <class Compute>
struct InputTiles {
  const Compute* input;  // of the first tile
  int64_t row_stride;    // from one to the next that a tile has
  int64_t column_stride;
  int64_t channels;
  int64_t tiles;
  Compute* points[kWinogradPoints];       // tile, channel
  int64_t tile_strides[kWinogradPoints];  // of each
  Spread<Compute>* spread;                // of the inputs: what is found is added to it
};

/// Pieces' taps of all channels, `width` filters being next to each other, whole vectors: to be transformed to
/// the pieces' points.
template <class Compute>
struct FilterTaps {
  const Compute* taps;
  int64_t channel_stride, row_stride, column_stride;
  int64_t channels;
  int64_t width;
  Compute* points[kWinogradPoints];  // channel, filter
  Spread<Compute>* spreads;          // of each filter: what is found is added to them
  Compute* least_taps;               // likewise: lowered to the least sum of a tap's magnitudes
};

/// Sums of products at the points of each tile, to be made its 2 x 2 outputs.
template <class Compute>
struct OutputTiles {
  const Compute* products;  // point, tile, filter
  int64_t point_stride;
  int64_t tiles;
  int64_t width;  // filters, whole vectors
  const Compute* bias;
  Range<Compute> range;
  Compute* const* outputs;  // four of each tile, by rows
  bool streams;             // past the caches to those that are aligned
};

/// Rows of equal length to be copied, with conversion. Strides are in elements.
template <class Source, class Target>
struct Rows {
  const Source* source;
  int64_t source_stride;  // from row to row
  int64_t source_step;    // from element to element
  Target* target;         // its elements are next to each other
  int64_t target_stride;
  int64_t rows;
  int64_t count;
  bool streams = false;  // past the caches to a target too large for them, by whole lines
};

/// The kernels of an instruction set for one type of tensor.
template <class Element>
struct Kernels {
  using Compute = typename ComputeOf<Element>::Type;
  int64_t vector_elements;  // of type Compute
  int max_tile_vectors;
  WindowSums<Compute> sum_pixels;
  /// [vectors - 1][filters / kFilterStep - 1]
  void (*sum_planes[kMaxTileVectors][kTileFilters / kFilterStep])(const PlanesTile<Compute>& tile);
  void (*sum_dots[kDotColumns])(const DotTile<Compute>& tile);  // [columns - 1]
  void (*sum_channels)(const ChannelRow<Compute>& row);         // of groups of one channel
  void (*sum_groups)(const ChannelRow<Compute>& row);  // null if no instruction picks lanes
  void (*sum_plane)(const PlaneSum<Compute>& sum);
  /// Those of Winograd's algorithm: [taps of a piece of the rows - 1][of the columns - 1]; for outputs the most.
  template <class Tiles>
  using Transforms = void (*[kMostPieceTaps][kMostPieceTaps])(const Tiles& tiles);
  Transforms<InputTiles<Compute>> transform_input;
  Transforms<FilterTaps<Compute>> transform_filter;
  Transforms<OutputTiles<Compute>> transform_output;
  bool (*are_finite)(const Compute* values, int64_t count);  // whole vectors
  void (*load)(const Rows<Element, Compute>& rows);
  void (*store)(const Rows<Compute, Element>& rows);
};

/// The kernels of an instruction set for all types.
struct KernelSet {
  Kernels<double> float64;
  Kernels<float> float32;
  Kernels<Float16> float16;
  Kernels<BFloat16> bfloat16;
};

/// What there is among some factors that not every way of summing products may meet.
struct Content {
  bool has_special;  // a NaN or an infinity
  bool has_tiny;     // a magnitude below kLeastPlain (pair_kernels.hpp), but for zeros

  Content& operator+=(const Content& other) {
    has_special = has_special || other.has_special;
    has_tiny = has_tiny || other.has_tiny;
    return *this;
  }
};

extern const KernelSet baseline_kernels;
#if defined(IM2WIN_X86)
extern const KernelSet avx2_kernels;
extern const KernelSet avx512_kernels;
#endif

/// Those of choose_isa() for a type of tensor; throws what it throws.
template <class Element>
const Kernels<Element>& choose_kernels();

}  // namespace im2win::cpu
