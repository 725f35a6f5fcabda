// Algorithm 1 of the paper by tiles, in float64: the implicit GEMM of M = filters of a group, N = output pixels,
// K = taps. Windows are gathered from the input on the way to shared memory, whatever the tensors'
// strides; taps go in the order in which the input has them. Several stages of taps are on their way
// while one is multiplied.
#pragma once

#include <cuda_pipeline.h>

#include "cuda/implicit_gemm/arguments.cuh"
#include "cuda/implicit_gemm/tensor_core_sums.cuh"
#include "cuda/ptx.cuh"

namespace im2win::cuda::implicit_gemm {

constexpr int kThreads = 128;
constexpr int kStages = 4;

/// A block's tile of kEdge filters by kEdge pixels, kTaps of them a stage.
template <bool kChannelsLast_>
struct Tile {
  using Element = double;
  static constexpr int kEdge = kLargeEdge, kTaps = 64 / sizeof(Element);
  static constexpr bool kChannelsLast = kChannelsLast_;    // of the input
  static constexpr int kLoads = kEdge * kTaps / kThreads;  // of a thread, operand and stage
  /// Whole words of 16 bytes; and what a quarter of a warp reads of a tap and of the next ones is in different
  /// banks.
  static constexpr int kPitch = kEdge + 4;
  using Operand = Element[kTaps][kPitch];
};

/// How far a tap is from the first one of its window and of its filter. Past the last tap: outside
/// any image.
struct Tap {
  int64_t dy, dx;
  int64_t window, filter;  // elements

  /// Neighbours in number are columns of a row, or channels where these are last.
  template <class Element>
  __device__ __forceinline__ Tap(const Arguments<Element>& a, int number, bool are_channels_last) {
    const auto [major, minor] =
        are_channels_last ? a.channels.divide(number) : a.window.divide(number);
    const auto [r, s] = a.columns.divide(are_channels_last ? major : minor);
    const int c = are_channels_last ? minor : major;
    constexpr int64_t kOutside = int64_t{1} << 62;
    dy = number < a.taps ? r * a.exact.dilation_h : kOutside;
    dx = s * a.exact.dilation_w;
    const int64_t(&x)[4] = a.exact.input_stride;
    const int64_t(&f)[4] = a.exact.filter_stride;
    window = c * x[1] + r * a.exact.dilation_h * x[2] + dx * x[3];
    filter = c * f[1] + r * f[2] + s * f[3];
  }
};

/// A ring of stages. Of taps, kStages are in use while as many are tabulated.
constexpr int kTabulated = 2 * kStages;
template <class T>
struct Shared {
  alignas(16) typename T::Operand filters[kStages], windows[kStages];
  alignas(16) unsigned char taps[kTabulated][T::kTaps * sizeof(Tap)];

  __device__ __forceinline__ Tap* stage_taps(int stage) {
    return reinterpret_cast<Tap*>(taps[stage % kTabulated]);
  }
};

/// Brings stages of operands from memory to shared memory. Neighbouring threads take neighbours in memory:
/// of windows that is pixels, or channels where these are last; of filters taps.
template <class T>
class Loader {
  using Element = typename T::Element;

 public:
  __device__ __forceinline__ Loader(const Arguments<Element>& a, const Place& place) : a_(a) {
    const int64_t first_c = place.group * a.channels.divisor;
#pragma unroll
    for (int i = 0; i < kPixels; ++i) {
      const OutputIndex at =
          output_at(a, place, 0, min(place.first_pixel + pixel(i), a.pixels - 1));
      y_[i] = a.exact.vertical.start(at.p);
      x_[i] = a.exact.horizontal.start(at.q);
      const int64_t(&stride)[4] = a.exact.input_stride;
      windows_[i] = a.exact.input + at.n * stride[0] + first_c * stride[1] + y_[i] * stride[2] +
                    x_[i] * stride[3];
    }
    const int64_t k = place.first_filter + filter(0);
    filters_left_ = a.filters - k;
    filter_ = a.exact.filter + (place.group * a.filters + k) * a.exact.filter_stride[0];
  }

  /// The taps of kStages stages, all at a time as this takes long; for fetch() after a barrier.
  __device__ __forceinline__ void tabulate(Shared<T>& shared, int first_stage) const {
    static_assert(kStages * T::kTaps <= kThreads);
    const int stage = first_stage + static_cast<int>(threadIdx.x) / T::kTaps;
    const int tap = threadIdx.x % T::kTaps;
    if (stage < first_stage + kStages)
      shared.stage_taps(stage)[tap] = Tap(a_, stage * T::kTaps + tap, T::kChannelsLast);
  }

  /// Taps past the last are zero in both operands, as 0 * NaN would not be 0.
  __device__ __forceinline__ void fetch(Shared<T>& shared, int stage) const {
    const Tap* const taps = shared.stage_taps(stage);
    auto& windows = shared.windows[stage % kStages];
    auto& filters = shared.filters[stage % kStages];
#pragma unroll
    for (int i = 0; i < T::kLoads / kPixels; ++i) {
      const Tap& tap = taps[window_tap(i)];
#pragma unroll
      for (int j = 0; j < kPixels; ++j) {
        const bool is_inside =
            uint64_t(y_[j] + tap.dy) < uint64_t(a_.h) && uint64_t(x_[j] + tap.dx) < uint64_t(a_.w);
        copy_if(is_inside, windows[window_tap(i)][pixel(j)], windows_[j] + tap.window);
      }
    }
    const Tap& tap = taps[filter_tap()];
    const bool is_tap = stage * T::kTaps + filter_tap() < a_.taps;
#pragma unroll
    for (int i = 0; i < T::kLoads; ++i) {
      const int step = filter(i) - filter(0);
      copy_if(is_tap && step < filters_left_, filters[filter_tap()][filter(i)],
              filter_ + step * a_.exact.filter_stride[0] + tap.filter);
    }
  }

 private:
  static constexpr int kPixels = T::kChannelsLast ? T::kLoads : 1;

  /// Or zero.
  __device__ __forceinline__ static void copy_if(bool exists, Element& to, const Element* from) {
    ptx::copy_async_if<sizeof(Element)>(exists, ptx::shared_address(&to), from);
  }

  __device__ __forceinline__ static int pixel(int i) {
    return T::kChannelsLast ? threadIdx.x / T::kTaps + i * (kThreads / T::kTaps)
                            : threadIdx.x % T::kEdge;
  }
  __device__ __forceinline__ static int window_tap(int i) {
    return T::kChannelsLast ? threadIdx.x % T::kTaps
                            : threadIdx.x / T::kEdge + i * (kThreads / T::kEdge);
  }
  __device__ __forceinline__ static int filter(int i) {
    return threadIdx.x / T::kTaps + i * (kThreads / T::kTaps);
  }
  __device__ __forceinline__ static int filter_tap() { return threadIdx.x % T::kTaps; }

  const Arguments<Element>& a_;
  const Element* windows_[kPixels];  // of each pixel, from the first tap on
  const Element* filter_;
  int64_t y_[kPixels], x_[kPixels];
  int64_t filters_left_;
};

template <class T>
__global__ void __launch_bounds__(kThreads, TensorCoreSums<T>::kBlocks)
    implicit_gemm_tiled_kernel(const __grid_constant__ Arguments<typename T::Element> a) {
  __shared__ Shared<T> shared;
  if (block_index() >= a.blocks) return;
  const Place place(a, block_index(), T::kEdge);
  const Loader<T> loader(a, place);
  const int stages = (a.taps + T::kTaps - 1) / T::kTaps;
  loader.tabulate(shared, 0);
  ptx::wait_for_kernel_before();
  __syncthreads();
  const auto fetch = [&](int stage) {
    if (stage < stages) loader.fetch(shared, stage);
    __pipeline_commit();  // also where there is nothing, as stages are counted
  };
  for (int stage = 0; stage < kStages - 1; ++stage) fetch(stage);
  TensorCoreSums<T> sums;
  for (int stage = 0; stage < stages; ++stage) {
    __pipeline_wait_prior(kStages - 2);
    __syncthreads();
    fetch(stage + kStages - 1);
    if (stage % kStages == 0) loader.tabulate(shared, stage + kStages);
    sums.add(shared.filters[stage % kStages], shared.windows[stage % kStages]);
  }
  // Not before: few blocks leave room on other multiprocessors, where all of the next kernel's would crowd.
  ptx::let_next_start();
  sums.write(a, place);
}

}  // namespace im2win::cuda::implicit_gemm
