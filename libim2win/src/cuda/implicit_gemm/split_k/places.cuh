// Where elements are: the sum of what a tap and what a pixel or a filter adds. Each is found once, by a thread of its
// own, as that takes divisions, and tabulated.
#pragma once

#include <cstdint>

#include "cuda/implicit_gemm/split_k/arguments.cuh"

namespace im2win::cuda::implicit_gemm::split_k {

/// Past the last tap or pixel: added to any position, outside any image.
constexpr int kOutsideImage = 1 << 30;

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
    const int64_t(&x)[4] = a_.exact.input_stride;
    const int64_t(&f)[4] = a_.exact.filter_stride;
    const int dy = r * static_cast<int>(a_.exact.dilation_h);
    const int dx = s * static_cast<int>(a_.exact.dilation_w);
    return {number_ < a_.taps ? dy : kOutsideImage, dx,
            c * static_cast<int>(x[1]) + dy * static_cast<int>(x[2]) + dx * static_cast<int>(x[3]),
            c * static_cast<int>(f[1]) + r * static_cast<int>(f[2]) + s * static_cast<int>(f[3])};
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
  const Axis &vertical = a.exact.vertical, &horizontal = a.exact.horizontal;
  const int y = p * static_cast<int>(vertical.stride) - static_cast<int>(vertical.padding);
  const int x = q * static_cast<int>(horizontal.stride) - static_cast<int>(horizontal.padding);
  const int64_t(&stride)[4] = a.exact.input_stride;
  return {n * stride[0] + y * stride[2] + x * stride[3], y, x};
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
