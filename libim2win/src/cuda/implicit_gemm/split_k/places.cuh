// Where elements of a tile are. What each tap, pixel and filter adds is found once, by a thread of its own, as that takes
// divisions, and tabulated.
#pragma once

#include <cstdint>

#include "cuda/implicit_gemm/split_k/arguments.cuh"

namespace im2win::cuda::implicit_gemm::split_k {

/// Of every stage the same tap, whose place a thread finds without dividing each time.
template <class T>
class TapWalk {
  using Element = typename T::Element;

 public:
  __device__ __forceinline__ TapWalk(const Arguments<Element>& a, int number)
      : a_(a), number_(number) {
    const auto [outer, rest] =
        T::kChannelsLast ? a.channels.divide(number) : a.window.divide(number);
    const auto [r, s] = a.columns.divide(T::kChannelsLast ? outer : rest);
    at_ = T::kChannelsLast ? Digits{r, s, rest} : Digits{outer, r, s};
  }

  __device__ __forceinline__ TapPlace place() const {
    const int c = T::kChannelsLast ? at_.inner : at_.outer;
    const int r = T::kChannelsLast ? at_.outer : at_.middle;
    const int s = T::kChannelsLast ? at_.middle : at_.inner;
    TapPlace place = tap_place(a_.exact, c, r, s);
    if (number_ >= a_.taps) place.dy = kOutsideImage;
    return place;
  }

  /// To the next stage.
  __device__ __forceinline__ void advance() {
    number_ += T::kTaps;
    at_.inner += a_.step.inner;
    const int middles = at_.inner >= a_.sizes.inner;
    at_.inner -= middles * a_.sizes.inner;
    at_.middle += a_.step.middle + middles;
    const int outers = at_.middle >= a_.sizes.middle;
    at_.middle -= outers * a_.sizes.middle;
    at_.outer += a_.step.outer + outers;
  }

 private:
  const Arguments<Element>& a_;
  int number_;
  Digits at_;
};

template <class Element>
__device__ __forceinline__ PixelPlace pixel_place(const Arguments<Element>& a, const Place& place,
                                                  int pixel) {
  if (place.first_pixel + pixel >= a.pixels) return {0, kOutsideImage, 0};
  const auto [n, p, q] = a.locate(place, pixel);
  return cuda::pixel_place(a.exact, n, p, q);
}

/// Where windows of the tile's pixels and their outputs are.
template <class T>
__device__ __forceinline__ void tabulate_pixels(const Arguments<typename T::Element>& a,
                                                const Place& place, Shared<T>& to) {
  const int thread = static_cast<int>(threadIdx.x), pixel = thread % T::kEdge;
  if (thread < T::kEdge) {
    to.pixels[pixel] = pixel_place(a, place, pixel);
  } else if (thread < 2 * T::kEdge && place.first_pixel + pixel < a.pixels) {
    const auto [n, p, q] = a.locate(place, pixel);
    to.outputs.pixels[pixel] = a.exact.outputs.pixel(n, p, q);
  }
}

/// Where outputs of the tile's filters are, and their biases.
template <class T>
__device__ __forceinline__ void tabulate_filters(const Arguments<typename T::Element>& a,
                                                 const Place& place, Shared<T>& to) {
  const int filter = static_cast<int>(threadIdx.x);
  if (filter < T::kEdge && place.first_filter + filter < a.filters)
    to.outputs.filters[filter] =
        a.exact.outputs.filter(place.group * a.filters + place.first_filter + filter);
}

}  // namespace im2win::cuda::implicit_gemm::split_k
