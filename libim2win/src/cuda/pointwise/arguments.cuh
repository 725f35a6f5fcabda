// What a launch of `pointwise` is given, and what a block keeps in shared memory.
#pragma once

#include <cuda.h>

#include <cstdint>

#include "checked.hpp"
#include "cuda/divisor.hpp"
#include "cuda/epilogue.cuh"
#include "cuda/fused/pipeline.cuh"
#include "cuda/pointwise/tile.hpp"

extern __shared__ __align__(1024) char dynamic_shared_memory[];

namespace im2win::cuda::pointwise {

/// How outputs leave a block.
enum class Leaving : int32_t {
  // Sums with a bias, perhaps bounded from below, packed in shared memory:
  kBoxes,     // of 64 filters
  kRun,       // pixels that follow each other, whole words of 16 bytes each
  kPairs,     // likewise, of any size, by words of two elements
  kWords,     // pixel by pixel
  kFewWords,  // of few filters
  // Any others, as sums in shared memory:
  kFinished,
};

template <class Element>
struct Arguments {
  const Element* input = nullptr;
  const Element* filter = nullptr;
  Outputs<Element, float> outputs;
  int64_t input_stride, filter_stride;     // from a pixel to the next, or a filter
  int64_t output_stride, residual_stride;  // from a pixel to the next
  Tile tile;
  Divisor splits;
  int32_t pixels, channels, filters;
  int32_t tiles;  // of pixels
  CUtensorMap input_boxes, filter_boxes, output_boxes;
  int32_t copied = 0;  // elements that inputs and filters come by; 0: as boxes
  Leaving leaving = Leaving::kFinished;
  int32_t word = 1;      // neighbouring filters that are written at once
  Divisor row_words{1};  // of a pixel, where these are few

  Arguments(const Problem& problem, const Tile& t)
      : outputs(problem),
        input_stride(*pixel_stride(problem.input)),
        filter_stride(problem.filter.stride[0]),
        output_stride(*pixel_stride(problem.output)),
        residual_stride(problem.has_residual ? *pixel_stride(problem.residual) : 0),
        tile(t),
        splits(t.splits),
        pixels(static_cast<int32_t>(problem.output_pixels())),
        channels(static_cast<int32_t>(problem.c)),
        filters(static_cast<int32_t>(problem.k)),
        tiles(static_cast<int32_t>(ceil_div(problem.output_pixels(), int64_t{t.pixels}))) {}
};

/// What a kernel is compiled for.
template <class Element_, Shape kShape_>
struct Compiled {
  using Element = Element_;
  static constexpr Shape kShape = kShape_;
};

/// At the start of dynamic shared memory.
template <class T>
struct Shared {
  fused::Ring<kMaxStages> stages;
  uint64_t filters_full;
  alignas(32) float biases[T::kShape.filters()];
};

template <class T>
__device__ __forceinline__ Shared<T>& shared() {
  static_assert(sizeof(Shared<T>) <= kFiltersBegin);
  return *reinterpret_cast<Shared<T>*>(dynamic_shared_memory);
}

/// The tiles of a block, which has them at every step from a first one on, and its filters.
struct Share {
  int32_t first_tile, step;
  int32_t first_filter;

  template <class Element>
  __device__ __forceinline__ Share(const Arguments<Element>& a, int filters) {
    const auto [tile, split] = a.splits.divide(static_cast<int32_t>(blockIdx.x));
    first_tile = tile;
    step = a.splits.quotient(static_cast<int32_t>(gridDim.x));
    first_filter = split * filters;
  }
};

}  // namespace im2win::cuda::pointwise
