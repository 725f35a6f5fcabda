// Windows and filters as rows of taps in shared memory, in float32 and filled up with zeros.
#pragma once

#include <cstdint>

#include "cuda/fma_windows/arguments.cuh"
#include "cuda/ptx.cuh"

namespace im2win::cuda::fma_windows {

/// In float32, or zero.
template <class Element>
__device__ __forceinline__ float load_if(bool is_there, const Element* from) {
  if constexpr (sizeof(Element) == 2) {
    const uint16_t bits = ptx::load_if(is_there, reinterpret_cast<const uint16_t*>(from));
    return to_compute<float>(reinterpret_cast<const Element&>(bits));
  } else {
    return ptx::load_if(is_there, from);
  }
}

/// Sixteen neighbouring threads bring a row, a tap each at a time. Taps are in the order in
/// which the input has them: channel, row and column, or row, column and channel.
template <class T>
class TapRows {
  using Element = typename T::Element;

 public:
  __device__ __forceinline__ TapRows(const Arguments<Element>& a, bool are_channels_last) : a_(a) {
#pragma unroll
    for (int i = 0; i < kTurns; ++i) taps_[i] = place_of(tap(i), are_channels_last);
  }

  /// For threads that go through all taps.
  __device__ __forceinline__ void tabulate(TapPlace (&taps)[T::kDepth]) const {
    if (first_row() != 0) return;
#pragma unroll
    for (int i = 0; i < kTurns; ++i)
      if (tap(i) < T::kDepth) taps[tap(i)] = taps_[i];
  }

  /// Whether all that the thread brings is finite.
  template <int kPitch>
  __device__ __forceinline__ bool stage_filters(const Place& place, float (*rows)[kPitch]) const {
    const int64_t stride = a_.exact.filter_stride[0];
    const Element* const filters = a_.exact.filter + place.first_filter * stride;
    float zero = 0;  // times all: infinity and NaN make NaN of it
#pragma unroll 1
    for (int first = first_row(); first < place.filters; first += kUnroll * kRowsAtOnce) {
      float x[kUnroll][kTurns];
#pragma unroll
      for (int j = 0; j < kUnroll; ++j) {
        const int row = min(first + j * kRowsAtOnce, place.filters - 1);
#pragma unroll
        for (int i = 0; i < kTurns; ++i) {
          x[j][i] = load_if(taps_[i].dy != kOutsideImage, filters + row * stride + taps_[i].filter);
          zero = fmaf(zero, x[j][i], 0.0F);
        }
      }
#pragma unroll
      for (int j = 0; j < kUnroll; ++j) {
        const int row = first + j * kRowsAtOnce;
#pragma unroll
        for (int i = 0; i < kTurns; ++i)
          if (row < place.filters && tap(i) < T::kDepth) rows[row][tap(i)] = x[j][i];
      }
    }
    return zero == 0;
  }

  /// Windows of so many pixels, asynchronously.
  template <int kPitch>
  __device__ __forceinline__ void copy_windows(const Place& place, const PixelPlace* pixels,
                                               int count, float (*rows)[kPitch]) const {
    static_assert(sizeof(Element) == 4);
    const Element* const input = a_.exact.input + place.first_channel * a_.exact.input_stride[1];
#pragma unroll 1
    for (int row = first_row(); row < count; row += kRowsAtOnce) {
      const PixelPlace at = loaded(pixels[row]);
#pragma unroll
      for (int i = 0; i < kTurns; ++i) {
        if (tap(i) >= T::kDepth) continue;
        const bool is_there = is_inside(a_.h, a_.w, at, taps_[i]);
        const Element* const from = input + at.window + taps_[i].window;
        ptx::copy_async_if<4>(is_there, ptx::shared_address(&rows[row][tap(i)]), from);
      }
    }
  }

 private:
  static constexpr int kLanes = 16, kRowsAtOnce = kThreads / kLanes;
  static constexpr int kTurns = (T::kDepth + kLanes - 1) / kLanes;
  static constexpr int kUnroll = 4;  // loads of a tap: each would wait for the last

  __device__ __forceinline__ static int first_row() {
    return static_cast<int>(threadIdx.x) / kLanes;
  }
  __device__ __forceinline__ static int tap(int i) {
    return static_cast<int>(threadIdx.x) % kLanes + i * kLanes;
  }

  __device__ __forceinline__ TapPlace place_of(int tap, bool are_channels_last) const {
    if (tap >= a_.taps) return {kOutsideImage, 0, 0, 0};
    const auto [outer, rest] = are_channels_last ? a_.channels.divide(tap) : a_.window.divide(tap);
    const auto [r, s] = a_.columns.divide(are_channels_last ? outer : rest);
    return tap_place(a_.exact, are_channels_last ? rest : outer, r, s);
  }

  const Arguments<Element>& a_;
  TapPlace taps_[kTurns];
};

}  // namespace im2win::cuda::fma_windows
