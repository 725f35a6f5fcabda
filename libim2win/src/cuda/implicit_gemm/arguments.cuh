// What the kernels of implicit_gemm_tiled know of the problem, which part of it a block has, and how sums leave.
//
// A padded window's zeros make NaN of weights that are not finite. NaN stays NaN in a sum, so a sum
// that is none has not met one; one that is NaN is computed again from the taps inside the image.
#pragma once

#include <algorithm>
#include <type_traits>

#include "checked.hpp"
#include "cuda/direct.cuh"
#include "cuda/implicit_gemm/choice.hpp"
#include "cuda/launch.cuh"

namespace im2win::cuda::implicit_gemm {

/// What elements are summed in.
template <class Element>
using SumOf = std::conditional_t<sizeof(Element) == 2, float, Element>;

/// Plain data.
template <class Element>
struct Arguments {
  DirectArguments<Element, SumOf<Element>> exact;
  Divisor channels, window, columns;  // of a group; of R * S taps; of S
  Divisor p, q;
  Divisor filter_tiles, pixel_tiles;
  int64_t h, w;
  int64_t filters;  // of a group
  int64_t pixels, blocks;
  int taps;
  bool is_padded;

  Arguments(const Problem& problem, int edge)
      : exact(problem),
        channels(problem.c_per_group()),
        window(problem.r * problem.s),
        columns(problem.s),
        p(problem.p),
        q(problem.q),
        filter_tiles(ceil_div(problem.k_per_group(), edge)),
        pixel_tiles(std::max<int64_t>(ceil_div(problem.output_pixels(), edge), 1)),
        h(problem.h),
        w(problem.w),
        filters(problem.k_per_group()),
        pixels(problem.output_pixels()),
        blocks(blocks_of(problem, edge)),
        taps(static_cast<int>(problem.window_elements())),
        is_padded(problem.is_padded()) {}
};

/// The part of the GEMM that a block computes. Blocks of the same windows run together.
struct Place {
  int64_t group, first_filter, first_pixel;

  template <class Element>
  __device__ __forceinline__ Place(const Arguments<Element>& a, int64_t block, int edge) {
    const auto [rest, filter_tile] = a.filter_tiles.divide(block);
    const auto [number, pixel_tile] = a.pixel_tiles.divide(rest);
    group = number;
    first_filter = filter_tile * edge;
    first_pixel = pixel_tile * edge;
  }
};

template <class Element>
__device__ __forceinline__ OutputIndex output_at(const Arguments<Element>& a, const Place& place,
                                                 int64_t filter, int64_t pixel) {
  const auto [row, q] = a.q.divide(pixel);
  const auto [n, p] = a.p.divide(row);
  return {n, place.group * a.filters + filter, p, q};
}

/// From the taps inside the image alone.
template <class Element>
__device__ __noinline__ void write_exact(const Arguments<Element>& a, OutputIndex at) {
  const auto& outputs = a.exact.outputs;
  outputs.write(outputs.filter(at.k), outputs.pixel(at.n, at.p, at.q), window_sum(a.exact, at));
}

/// Finishes a sum and stores it. `locate` says which output it is, should it have to be summed again.
template <class Element, class Locate>
__device__ __forceinline__ void write_sum(
    const Arguments<Element>& a, const typename Outputs<Element, SumOf<Element>>::Filter& filter,
    const typename Outputs<Element, SumOf<Element>>::Pixel& pixel, const Locate& locate,
    SumOf<Element> sum) {
  if (a.is_padded && sum != sum)
    write_exact(a, locate());
  else
    a.exact.outputs.write(filter, pixel, sum);
}

}  // namespace im2win::cuda::implicit_gemm
