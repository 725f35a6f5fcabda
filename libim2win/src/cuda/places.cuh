// Where elements of windows are: the sum of what a tap and what a pixel adds, each found once.
#pragma once

#include <cstdint>

#include "cuda/direct.cuh"

namespace im2win::cuda {

/// Past the last tap or pixel: added to any position, outside any image.
constexpr int kOutsideImage = 1 << 30;

/// What a tap adds to the place of a window's first one, and of a filter's.
struct alignas(16) TapPlace {
  int dy, dx;
  int window, filter;  // elements
};

/// Where a pixel's window begins.
struct alignas(16) PixelPlace {
  int64_t window;  // elements
  int y, x;
};

/// Steps of the input that are never taken may be any number, and what is outside the image takes them: they become 0.
template <class Element, class Compute>
void drop_steps_not_taken(const Problem& problem, DirectArguments<Element, Compute>& a) {
  for (int i = 0; i < 4; ++i)
    if (problem.input.size[i] <= 1) a.input_stride[i] = 0;
}

template <class Element, class Compute>
__device__ __forceinline__ TapPlace tap_place(const DirectArguments<Element, Compute>& a, int c,
                                              int r, int s) {
  const int64_t(&x)[4] = a.input_stride;
  const int64_t(&f)[4] = a.filter_stride;
  const int dy = r * static_cast<int>(a.dilation_h), dx = s * static_cast<int>(a.dilation_w);
  return {dy, dx,
          c * static_cast<int>(x[1]) + dy * static_cast<int>(x[2]) + dx * static_cast<int>(x[3]),
          c * static_cast<int>(f[1]) + r * static_cast<int>(f[2]) + s * static_cast<int>(f[3])};
}

template <class Element, class Compute>
__device__ __forceinline__ PixelPlace pixel_place(const DirectArguments<Element, Compute>& a, int n,
                                                  int p, int q) {
  const int y = p * static_cast<int>(a.vertical.stride) - static_cast<int>(a.vertical.padding);
  const int x = q * static_cast<int>(a.horizontal.stride) - static_cast<int>(a.horizontal.padding);
  const int64_t(&stride)[4] = a.input_stride;
  return {n * stride[0] + y * stride[2] + x * stride[3], y, x};
}

/// Without a branch, so that those of several taps or pixels need not wait for one another.
__device__ __forceinline__ bool is_inside(int h, int w, const PixelPlace& at, const TapPlace& by) {
  return (unsigned(at.y) + unsigned(by.dy) < unsigned(h)) &
         (unsigned(at.x) + unsigned(by.dx) < unsigned(w));
}

/// A place from shared memory, by one instruction.
template <class Place>
__device__ __forceinline__ Place loaded(const Place& place) {
  static_assert(sizeof(Place) == sizeof(int4));
  const int4 word = reinterpret_cast<const int4&>(place);
  return reinterpret_cast<const Place&>(word);
}

}  // namespace im2win::cuda
