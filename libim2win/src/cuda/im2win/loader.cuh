// Algorithm 3: from memory to tiles in shared memory.
#pragma once

#include <cstdint>

#include "cuda/im2win/block.cuh"

namespace im2win::cuda {

/// Brings tiles from memory to registers (fetch) and on to shared memory (commit). A warp loads 8
/// neighbouring taps of 4 neighbouring pixels at a time; a thread stays with its tap modulo K_B.
template <class T>
class Loader {
 public:
  __device__ __forceinline__ Loader(const Im2winArguments& a, const BlockPosition& block,
                                    const uint32_t* pixels)
      : a_(a) {
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    tap_ = row_ = lane % 8 + 8 * (warp % (T::kK / 8));
    pixel_ = lane / 8 + 4 * (warp / (T::kK / 8));
#pragma unroll
    for (int i = 0; i < kWindowLoads; ++i) offsets_[i] = is_pixel(i) ? pixels[column(i)] : 0;

    r_ = tap_ % a.steps.r;
    s_ = tap_ / a.steps.r % a.steps.s;
    const WindowLayout& layout = a.exact.layout;
    const int64_t c = block.group * a.exact.channels + tap_ / a.steps.r / a.steps.s;
    window_ = a.windows + PixelPosition::of(a, block.first_pixel).image(layout) +
              c * layout.channel + s_ * layout.column + r_;

    const int64_t tile = block.group * a.filter_tiles.divisor + block.filter_tile;
    filter_ =
        reinterpret_cast<const float4*>(a.filters + tile * a.padded_taps * T::kM) + threadIdx.x;
  }

  /// The next tile. Taps past the last are zero in both operands, as 0 * NaN would not be 0.
  __device__ __forceinline__ void fetch() {
#pragma unroll
    for (int i = 0; i < kFilterLoads; ++i)
      if (is_filter(i)) filters_[i] = __ldg(filter_ + i * T::kThreads);
#pragma unroll
    for (int i = 0; i < kWindowLoads; ++i)
      windows_[i] = tap_ < a_.taps ? __ldg(window_ + offsets_[i]) : 0.0f;
    advance();
  }

  __device__ __forceinline__ void commit(Tiles<T>& tiles) const {
    float4* filters = reinterpret_cast<float4*>(tiles.filters) + threadIdx.x;
#pragma unroll
    for (int i = 0; i < kFilterLoads; ++i)
      if (is_filter(i)) filters[i * T::kThreads] = filters_[i];
#pragma unroll
    for (int i = 0; i < kWindowLoads; ++i)
      if (is_pixel(i)) tiles.windows[row_][column(i)] = windows_[i];
  }

 private:
  static constexpr int kFilterWords = T::kM * T::kK / 4;
  static constexpr int kFilterLoads = (kFilterWords + T::kThreads - 1) / T::kThreads;
  static constexpr int kPixelStep = T::kThreads / T::kK;
  static constexpr int kWindowLoads = (T::kN + kPixelStep - 1) / kPixelStep;

  __device__ __forceinline__ static bool is_filter(int i) {
    return kFilterWords % T::kThreads == 0 || i * T::kThreads + threadIdx.x < kFilterWords;
  }
  __device__ __forceinline__ int column(int i) const { return pixel_ + i * kPixelStep; }
  __device__ __forceinline__ bool is_pixel(int i) const {
    return (i + 1) * kPixelStep <= T::kN || column(i) < T::kN;
  }

  __device__ __forceinline__ void advance() {
    filter_ += kFilterWords;
    tap_ += T::kK;
    window_ += a_.steps.step;
    r_ += a_.steps.step_r;
    s_ += a_.steps.step_s;
    if (r_ >= a_.steps.r) {
      r_ -= a_.steps.r;
      ++s_;
      window_ += a_.steps.carry_r;
    }
    if (s_ >= a_.steps.s) {
      s_ -= a_.steps.s;
      window_ += a_.steps.carry_s;
    }
  }

  const Im2winArguments& a_;
  const float4* filter_;
  const float* window_;             // tap_, from where the first pixel's image begins
  uint32_t offsets_[kWindowLoads];  // of this thread's pixels from there
  int tap_, r_, s_;
  int row_, pixel_;  // in the tile
  float4 filters_[kFilterLoads];
  float windows_[kWindowLoads];
};

}  // namespace im2win::cuda
