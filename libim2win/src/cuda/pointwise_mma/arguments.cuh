// What a launch of `pointwise_mma` is given, and what kernels are compiled for.
#pragma once

#include <cstdint>
#include <type_traits>

#include "cuda/divisor.hpp"
#include "cuda/epilogue.cuh"
#include "cuda/pointwise/tile.hpp"
#include "cuda/pointwise_mma/tile.hpp"
#include "cuda/ptx.cuh"

extern __shared__ __align__(16) char dynamic_shared_memory[];

namespace im2win::cuda::pointwise_mma {

/// A lane's of a step, neighbours.
constexpr int kLaneChannels = kStepChannels / 4;

/// Of windows of several pixels, whose elements stand for channels, tap after tap. Plain data.
struct Windows {
  // Of the input's rows and columns, and of the filter's.
  int64_t input_stride[2], filter_stride[2];
  int32_t h, w;
  int32_t stride_h, stride_w, dilation_h, dilation_w, padding_top, padding_left;
  Divisor outputs, taps, filter_columns;  // pixels of a row of outputs; channels of a tap

  explicit Windows(const Problem& problem)
      : input_stride{problem.input.stride[2], problem.input.stride[3]},
        filter_stride{problem.filter.stride[2], problem.filter.stride[3]},
        h(static_cast<int32_t>(problem.h)),
        w(static_cast<int32_t>(problem.w)),
        stride_h(static_cast<int32_t>(problem.stride_h)),
        stride_w(static_cast<int32_t>(problem.stride_w)),
        dilation_h(static_cast<int32_t>(problem.dilation_h)),
        dilation_w(static_cast<int32_t>(problem.dilation_w)),
        padding_top(static_cast<int32_t>(problem.padding_top)),
        padding_left(static_cast<int32_t>(problem.padding_left)),
        outputs(problem.q),
        taps(problem.c),
        filter_columns(problem.s) {}
};

/// In elements, to be held to the sizes of words.
template <class Element>
int64_t begin(const void* data) {
  return static_cast<int64_t>(reinterpret_cast<uintptr_t>(data) / sizeof(Element));
}

/// Plain data.
template <class Element>
struct Arguments {
  const Element* input = nullptr;
  const Element* filter = nullptr;
  Outputs<Element, float> outputs;
  Tile tile;
  // Of images and channels; of rows, of pixels.
  int64_t input_stride[2];
  int64_t filter_stride[2];
  int32_t pixels;  // of all images
  int32_t channels, filters;
  int64_t output_stride = 0, residual_stride = 0;  // of pixels, where filters are neighbours
  // That are read at a time; and how many neighbouring filters are stored.
  int32_t filter_bytes = sizeof(Element), input_bytes = sizeof(Element), output_word = 1;
  Divisor plane, parts, part_filters;
  Windows windows;

  Arguments(const Problem& problem, const Tile& t, Form form)
      : outputs(problem),
        tile(t),
        input_stride{
            form == Form::kRows ? *pointwise::pixel_stride(problem.input) : problem.input.stride[0],
            problem.input.stride[1]},
        filter_stride{problem.filter.stride[0], problem.filter.stride[1]},
        pixels(static_cast<int32_t>(problem.output_pixels())),
        channels(static_cast<int32_t>(problem.window_elements())),
        filters(static_cast<int32_t>(problem.k)),
        plane(problem.p * problem.q),
        parts(t.parts),
        part_filters(t.part_filters()),
        windows(problem) {
    if (form == Form::kPlanes) return;
    output_stride = *pointwise::pixel_stride(problem.output);
    if (problem.has_residual) residual_stride = *pointwise::pixel_stride(problem.residual);
  }

  void bind(const Problem& problem, const Buffers& buffers) {
    constexpr int kBytes = static_cast<int>(sizeof(Element));
    input = static_cast<const Element*>(buffers.input);
    filter = static_cast<const Element*>(buffers.filter);
    outputs.bind(buffers);
    filter_bytes =
        filter_word(problem, begin<Element>(buffers.filter), kMostWordBytes / kBytes) * kBytes;
  }
};

/// Of a filter of sixteen: which four lanes have it, and whether it is the second that they have.
struct FilterPlace {
  int four, second;
};

/// What products are of, and how operands lie in fragments.
template <class Element_, Operands kOperands_, Form kForm_>
struct Kind {
  using Element = Element_;
  static constexpr Operands kOperands = kOperands_;
  static constexpr bool kIsTf32 = kOperands == Operands::kTf32,
                        kHasThirds = kOperands == Operands::kThirds;
  static constexpr Form kForm = kForm_;
  static constexpr bool kAreRows = kForm != Form::kPlanes;  // or the windows as which they come
  static constexpr bool kHasDoubts = kHasThirds || kForm == Form::kWindows;  // see doubts.cuh
  static constexpr int kBytes = static_cast<int>(sizeof(Element)), kPixels = tile_pixels(kBytes);
  /// Words of 32 bits, of the lane's channels of a step.
  static constexpr int kLaneWords = kLaneChannels * kBytes / 4;
  /// Of a row of a step, each of 32 bytes: two words of each of four lanes.
  static constexpr int kFragments = kIsTf32 ? 2 : kHasThirds ? 3 : 1;

  /// Of planes, of sixteen filters, rows of a product: four lanes have one, and the one eight after it. Of rows, columns of
  /// two products, of whose sums a lane has two neighbours of either, which are four.
  __device__ __forceinline__ static constexpr FilterPlace place(int filter) {
    if constexpr (kAreRows) return {filter / 4 * 2 + filter % 2, filter / 2 % 2};
    return {filter % 8, filter / 8};
  }
  /// Of a lane's words of a fragment, which are a product's: half of a filter.
  __device__ __forceinline__ static constexpr int word(int second, int half) {
    return kAreRows ? second * 2 + half : half * 2 + second;
  }
};

/// What a kernel is compiled for: so many times 16 filters a pass.
template <class Kind_, int kSixteens_>
struct Pass : Kind_ {
  using Kind = Kind_;
  static constexpr int kSixteens = kSixteens_;
  static constexpr int kThreads = block_warps(kSixteens, Kind::kOperands) * 32;
};

/// Of planes. Words have kWord neighbouring pixels of a channel: a row of a warp's tile has kWords a lane.
template <class Element, Operands kOperands, int kSixteens, int kWord_>
struct Planes : Pass<Kind<Element, kOperands, Form::kPlanes>, kSixteens> {
  static constexpr int kWord = kWord_, kWordBytes = kWord * Planes::kBytes;
  static constexpr int kEights = Planes::kPixels / 8, kWords = kEights / kWord;
};

/// Of pixels whose channels are neighbours, or of windows of such.
template <class Element, Operands kOperands, int kSixteens, Form kForm = Form::kRows>
using Rows = Pass<Kind<Element, kOperands, kForm>, kSixteens>;

/// Columns of a product are every so manyth pixel. Column i has the word of this number of each eight: a lane's sums are
/// of columns 2 * (lane mod 4) on, and so four lanes write neighbouring words.
__device__ __forceinline__ int word_of_column(int column) { return column / 2 + column % 2 * 4; }

/// Where pixels are: of their image, and of its planes.
struct Place {
  int32_t image, pixel;

  template <class Element>
  __device__ __forceinline__ Place(const Arguments<Element>& a, int32_t pixel_of_all) {
    const auto [quotient, remainder] = a.plane.divide(pixel_of_all);
    image = quotient;
    pixel = remainder;
  }
};

/// Of a filter's channel, or element of a window.
template <class K>
__device__ __forceinline__ int64_t offset_of(const Arguments<typename K::Element>& a,
                                             int32_t channel) {
  if constexpr (K::kForm == Form::kWindows) {
    const Windows& windows = a.windows;
    const auto [tap, own] = windows.taps.divide(channel);
    const auto [row, column] = windows.filter_columns.divide(tap);
    return own * a.filter_stride[1] + row * windows.filter_stride[0] +
           column * windows.filter_stride[1];
  } else {
    return channel * a.filter_stride[1];
  }
}

/// Of the part's filters, in shared memory.
template <class Element>
__device__ __forceinline__ float* biases(const Arguments<Element>& a) {
  return reinterpret_cast<float*>(dynamic_shared_memory + a.tile.biases_begin);
}

__device__ __forceinline__ int lane_of_warp() { return ptx::thread_in_block() % 32; }

}  // namespace im2win::cuda::pointwise_mma
