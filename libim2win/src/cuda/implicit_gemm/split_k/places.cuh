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

template <class T>
__device__ __forceinline__ void tabulate_outputs(const Arguments<typename T::Element>& a,
                                                 const Place& place, OutputPlaces<T>& to) {
  const int thread = static_cast<int>(threadIdx.x), number = thread % T::kEdge;
  const auto& outputs = a.exact.outputs;
  if (thread < T::kEdge && place.first_filter + number < a.filters) {
    to.filters[number] = outputs.filter(place.group * a.filters + place.first_filter + number);
  } else if (thread / T::kEdge == 1 && place.first_pixel + number < a.pixels) {
    const auto [n, p, q] = a.locate(place, number);
    to.pixels[number] = outputs.pixel(n, p, q);
  }
}

}  // namespace im2win::cuda::implicit_gemm::split_k
