// What kernels of im2win_fma for windows of few elements know of the problem, and the part of it that a block has.
#pragma once

#include <cstdint>

#include "checked.hpp"
#include "cuda/fma_windows/tile.hpp"
#include "cuda/places.cuh"

namespace im2win::cuda::fma_windows {

/// Plain data.
template <class Element>
struct Arguments {
  DirectArguments<Element, float> exact;
  Divisor channels, window, columns;  // of a group; of R * S taps; of S
  Divisor p, q;
  Divisor filter_tiles, filter_tiles_of_group;
  int64_t blocks;
  int filters;  // of a group
  int tile_filters, tile_pixels;
  int pixels, pixel_tiles, workers;
  int h, w, taps;
  bool is_padded;
  bool has_words = false;  // of what a thread holds

  Arguments(const Problem& problem, const Tile& tile)
      : exact(problem),
        channels(problem.c_per_group()),
        window(problem.r * problem.s),
        columns(problem.s),
        p(problem.p),
        q(problem.q),
        filter_tiles(fma_windows::filter_tiles(problem, tile)),
        filter_tiles_of_group(ceil_div(problem.k_per_group(), tile.filters)),
        blocks(fma_windows::filter_tiles(problem, tile) * tile.workers),
        filters(static_cast<int>(problem.k_per_group())),
        tile_filters(tile.filters),
        tile_pixels(tile.pixels),
        pixels(static_cast<int>(problem.output_pixels())),
        pixel_tiles(static_cast<int>(fma_windows::pixel_tiles(problem, tile))),
        workers(tile.workers),
        h(static_cast<int>(problem.h)),
        w(static_cast<int>(problem.w)),
        taps(static_cast<int>(problem.window_elements())),
        is_padded(problem.is_padded()) {
    drop_steps_not_taken(problem, exact);
  }

  struct Located {
    int n, p, q;
  };
  __device__ __forceinline__ Located locate(int pixel) const {
    const auto [row, column] = q.divide(pixel);
    const auto [n, in_image] = p.divide(row);
    return {n, in_image, column};
  }
  __device__ __forceinline__ PixelPlace pixel_place(int pixel) const {
    if (pixel >= pixels) return {0, kOutsideImage, 0};
    const auto [n, p, q] = locate(pixel);
    return cuda::pixel_place(exact, n, p, q);
  }
  __device__ __forceinline__ int64_t output(int pixel) const {
    const auto [n, p, q] = locate(pixel);
    return exact.outputs.pixel(n, p, q).output;
  }
};

/// The outputs that a block has. Blocks of the same windows run together.
struct Place {
  int64_t first_channel, first_filter;
  int filters;
  int worker;

  template <class Element>
  __device__ __forceinline__ Place(const Arguments<Element>& a, int64_t block) {
    const auto [number, tile] = a.filter_tiles.divide(block);
    const auto [group, in_group] = a.filter_tiles_of_group.divide(tile);
    first_channel = group * a.channels.divisor;
    first_filter = group * a.filters + in_group * a.tile_filters;
    filters = min(a.tile_filters, a.filters - static_cast<int>(in_group) * a.tile_filters);
    worker = static_cast<int>(number);
  }
};

template <class Element_, int kDepth_>
struct Shape {
  using Element = Element_;
  static constexpr int kDepth = kDepth_;
  /// Of rows of taps: an odd number of words of 16 bytes, so that lanes that read the same word of neighbouring rows meet
  /// in no bank.
  static constexpr int kPitch = kDepth / 4 % 2 == 1 ? kDepth : kDepth + 4;
};

/// Windows or filters, in registers.
template <class T>
using Held = float[T::kDepth][kHeld];

}  // namespace im2win::cuda::fma_windows
