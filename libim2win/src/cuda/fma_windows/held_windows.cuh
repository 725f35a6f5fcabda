// Where an output's neighbours are pixels: threads hold the windows of some, and go through filters, which all of a block
// read from shared memory at the same time.
#pragma once

#include "cuda/fma_windows/rows.cuh"
#include "cuda/fma_windows/sums.cuh"

namespace im2win::cuda::fma_windows {

template <class T>
class HeldWindows {
  using Element = typename T::Element;

 public:
  struct Shared {
    alignas(16) float filters[kMostFilters][T::kDepth];
    float bias[kMostFilters];
    TapPlace taps[T::kDepth];
  };

  __device__ __forceinline__ HeldWindows(const Arguments<Element>& a, const Place& place,
                                         Shared& shared)
      : a_(a), place_(place), shared_(shared), rows_(a, false) {
    rows_.tabulate(shared.taps);
  }

  /// Brings the filters; whether they are finite.
  __device__ __forceinline__ bool begin() const {
    for (int row = static_cast<int>(threadIdx.x); row < place_.filters; row += kThreads)
      shared_.bias[row] = a_.exact.outputs.bias(place_.first_filter + row);
    return rows_.stage_filters(place_, shared_.filters);
  }

  /// A tile's outputs.
  template <bool kPlain>
  __device__ __forceinline__ void run(int tile) const {
    const Outputs outputs(*this, tile * kTilePixels);
    Held<T> windows;
    gather(tile * kTilePixels, windows);
    multiply<kPlain>(tile * kTilePixels, outputs, windows);
  }

 private:
  /// Pixels of a thread, in the tile: neighbours where these are stored as words, or else such that neighbouring threads
  /// have neighbours.
  __device__ __forceinline__ int held(int i) const {
    const int thread = static_cast<int>(threadIdx.x);
    return a_.has_words ? thread * kHeld + i : thread + i * kThreads;
  }

  /// Where a thread's outputs of the first filter are. Found before the windows come, while registers are free.
  struct Outputs {
    int count = 0;
    Element* first[kHeld];

    __device__ __forceinline__ Outputs(const HeldWindows& windows, int first_pixel) {
      const Arguments<Element>& a = windows.a_;
      const auto& outputs = a.exact.outputs;
      Element* const plane = outputs.data() + windows.place_.first_filter * outputs.strides()[1];
#pragma unroll
      for (int i = 0; i < kHeld; ++i) {
        const int pixel = first_pixel + windows.held(i);
        count += pixel < a.pixels;
        first[i] = plane + a.output(pixel < a.pixels ? pixel : 0);
      }
      ptx::all_known(first);  // or each filter would find them again
    }
  };

  __device__ __forceinline__ void gather(int first_pixel, Held<T>& windows) const {
    const Element* const input = a_.exact.input + place_.first_channel * a_.exact.input_stride[1];
    PixelPlace pixels[kHeld];
#pragma unroll
    for (int i = 0; i < kHeld; ++i) pixels[i] = a_.pixel_place(first_pixel + held(i));
#pragma unroll
    for (int tap = 0; tap < T::kDepth; ++tap) {
      const TapPlace by = loaded(shared_.taps[tap]);
#pragma unroll
      for (int i = 0; i < kHeld; ++i)
        windows[tap][i] =
            load_if(is_inside(a_.h, a_.w, pixels[i], by), input + pixels[i].window + by.window);
    }
  }

  template <bool kPlain>
  __device__ __forceinline__ void multiply(int first_pixel, const Outputs& outputs,
                                           const Held<T>& windows) const {
    const int64_t stride = a_.exact.outputs.strides()[1];
    int64_t offset = 0;
#pragma unroll 1
    for (int row = 0; row < place_.filters; ++row, offset += stride) {
      float sums[kHeld];
      fma_windows::multiply<T>(windows, shared_.filters[row], sums);
      const float bias = shared_.bias[row];
      finish<kPlain>(
          a_, {bias, bias, bias, bias}, outputs.count,
          [&](int i) { return Output{place_.first_filter + row, first_pixel + held(i)}; }, sums);
      if (a_.has_words) {
        if (outputs.count > 0) store_word(outputs.first[0] + offset, sums);
        continue;
      }
#pragma unroll
      for (int i = 0; i < kHeld; ++i)
        if (i < outputs.count) outputs.first[i][offset] = from_compute<Element>(sums[i]);
    }
  }

  const Arguments<Element>& a_;
  const Place& place_;
  Shared& shared_;
  TapRows<T> rows_;
};

}  // namespace im2win::cuda::fma_windows
