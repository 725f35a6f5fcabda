// What a launch of `pointwise_planes` is given, and what kernels are compiled for.
#pragma once

#include <cstdint>
#include <type_traits>

#include "cuda/divisor.hpp"
#include "cuda/epilogue.cuh"
#include "cuda/pointwise_planes/tile.hpp"
#include "cuda/ptx.cuh"

extern __shared__ __align__(16) char dynamic_shared_memory[];

namespace im2win::cuda::pointwise_planes {

/// A lane's of a step, neighbours.
constexpr int kLaneChannels = kStepChannels / 4;

/// Plain data.
template <class Element>
struct Arguments {
  const Element* input = nullptr;
  const Element* filter = nullptr;
  Outputs<Element, float> outputs;
  Tile tile;
  int64_t input_stride[2];  // of images and channels
  int64_t filter_stride[2];
  int32_t pixels;  // of all images
  int32_t channels, filters;
  int32_t filter_bytes = sizeof(Element);  // that are copied at a time
  Divisor plane, parts, steps;

  Arguments(const Problem& problem, const Tile& t)
      : outputs(problem),
        tile(t),
        input_stride{problem.input.stride[0], problem.input.stride[1]},
        filter_stride{problem.filter.stride[0], problem.filter.stride[1]},
        pixels(static_cast<int32_t>(problem.output_pixels())),
        channels(static_cast<int32_t>(problem.c)),
        filters(static_cast<int32_t>(problem.k)),
        plane(problem.p * problem.q),
        parts(t.parts),
        steps(t.steps) {}
};

/// Words have kWord neighbouring pixels of a channel: a row of a warp's tile has kWords a lane.
template <class Element_, int kSixteens_, int kWord_>
struct Shape {
  using Element = Element_;
  static constexpr bool kIsTf32 = sizeof(Element) == 4;
  static constexpr int kSixteens = kSixteens_, kWord = kWord_;
  static constexpr int kBytes = static_cast<int>(sizeof(Element)), kWordBytes = kWord * kBytes;
  static constexpr int kPixels = tile_pixels(kBytes), kEights = kPixels / 8;
  static constexpr int kWords = kEights / kWord;
  /// Of a step: each sums over 32 bytes of channels.
  static constexpr int kProducts = kStepChannels * kBytes / 32;
};

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

/// Of the part's filters, in shared memory.
template <class Element>
__device__ __forceinline__ float* biases(const Arguments<Element>& a) {
  return reinterpret_cast<float*>(dynamic_shared_memory + a.tile.biases_begin);
}

__device__ __forceinline__ int lane_of_warp() { return ptx::thread_in_block() % 32; }

}  // namespace im2win::cuda::pointwise_planes
