// Dense bands on their way to shared memory: each position gets its window, whole.
#pragma once

#include <cstdint>

#include "cuda/fused/operands.cuh"
#include "cuda/fused/stem/arguments.cuh"
#include "cuda/fused/stem/staging.cuh"
#include "cuda/ptx.cuh"

namespace im2win::cuda::fused::stem {

/// By a warpgroup, of which there may be others that take turns. A thread has a window of so many channels at each of
/// some positions. Neighbouring lanes have neighbouring positions, in memory and in shared memory.
template <class T, int kChannels>
class DenseStaging {
 public:
  using Element = typename T::Element;
  using Moved = fused::Moved<T::kOperands>;

  __device__ __forceinline__ DenseStaging(const Arguments<Element>& a, Block<T> block,
                                          int warpgroup)
      : a_(a), walk_(a), ring_(a, block, warpgroup) {
    walk_.pass(warpgroup);
  }

  __device__ __forceinline__ void run() {
    if (a_.column_stride == 1) {
      stage_bands<1>();
    } else if (a_.column_stride == kChannels && a_.stride_c == 1) {
      stage_bands<kChannels>();
    } else {
      stage_bands<0>();
    }
  }

 private:
  static constexpr int kTaps = kDenseTaps * kDenseTaps, kElements = kChannels * kTaps;
  static constexpr int kUnitElements = traits(T::kOperands).unit_elements;
  static constexpr int kUnits = (kElements + kUnitElements - 1) / kUnitElements;
  static constexpr bool kSplit = T::kOperands == Operands::kSplit;

  __device__ __forceinline__ int position(int i) const { return BandRing<T>::thread() + i * 128; }

  /// Pixels are so many elements apart, 0: any number. Of as many as there are channels, these are neighbours.
  template <int kApart>
  __device__ __forceinline__ void stage_bands() {
    for (; !walk_.ended(); walk_.pass(T::kShape.staging_warpgroups)) {
      ask_for_lines();
      if constexpr (kSplit) {
        stage_split<kApart>();
      } else {
        stage_whole<kApart>();
      }
    }
  }

  /// One position after another: registers are few. Nothing is being loaded when the band is handed over, which would
  /// wait for it.
  template <int kApart>
  __device__ __forceinline__ void stage_whole() {
#pragma unroll
    for (int i = 0; i < kDensePositions; ++i) {
      Moved window[kElements];
      load<kApart>(position(i), window);
      uint4 units[kUnits];
#pragma unroll
      for (int j = 0; j < kUnits; ++j) units[j] = pack_unit(Unit(window, j).x);
      if (i == 0) ring_.wait_empty();
      for_units(i, [&](uint4* to, int j) { *to = units[j]; });
    }
    ring_.hand_over();
  }

  /// Zeros behind the last element.
  struct Unit {
    Moved x[kUnitElements];

    __device__ __forceinline__ Unit(const Moved (&window)[kElements], int number) {
#pragma unroll
      for (int i = 0; i < kUnitElements; ++i) {
        const int element = number * kUnitElements + i;
        x[i] = element < kElements ? window[element] : Moved{};
      }
    }
  };

  /// Where the window of a position is in the input.
  struct Window {
    int y, x;
    bool exists;
  };
  __device__ __forceinline__ Window window(int position, int bands_ahead = 0) const {
    if constexpr (!T::kShape.runs)
      return {walk_.y(bands_ahead), walk_.x() + position * a_.stride_w,
              position < a_.bands.positions};
    const int pixel = walk_.row(bands_ahead) * a_.q + position;
    const auto [p, q] = a_.row_pixels.divide(pixel);
    return {p * a_.stride_h - a_.padding_top, q * a_.stride_w - a_.padding_left,
            position < a_.bands.positions && pixel < a_.pixels};
  }

  /// Of a later band: as far as its first row goes on.
  __device__ __forceinline__ void ask_for_lines() const {
    const Window first = window(0, BandWalk<Element>::kLinesAhead);
    walk_.template ask_for_lines<Moved>(BandRing<T>::thread(), first.y, first.x,
                                        first.x + a_.bands.positions * a_.stride_w + kDenseTaps);
  }

  template <int kApart>
  __device__ __forceinline__ void load(int position, Moved (&window)[kElements]) const {
    const int64_t channel = kApart > 1 ? 1 : a_.stride_c;
    const int apart = kApart > 0 ? kApart : a_.column_stride;
    const auto [y, x, exists] = this->window(position);
    const Moved* const first = walk_.template origin<Moved>(y, x);
#pragma unroll
    for (int c = 0; c < kChannels; ++c)
#pragma unroll
      for (int r = 0; r < kDenseTaps; ++r) {
        const Moved* const row = first + c * channel + int64_t{r} * a_.row_stride;
#pragma unroll
        for (int s = 0; s < kDenseTaps; ++s)
          window[(c * kDenseTaps + r) * kDenseTaps + s] = ptx::load_if(
              exists && is_below(y + r, a_.h) && is_below(x + s, a_.w), row + s * apart);
      }
  }

  /// Calls use(where it goes, the unit's number) for each of the thread's units of a position.
  template <class Use>
  __device__ __forceinline__ void for_units(int i, const Use& use) const {
    if (position(i) >= a_.bands.positions) return;
    uint4* const to = ring_.units() + position(i);
#pragma unroll
    for (int j = 0; j < kUnits; ++j) use(to + j * a_.bands.positions, j);
  }

  template <int kApart>
  __device__ __forceinline__ void stage_split() {
    Moved windows[kDensePositions][kElements];
    Magnitudes magnitudes;
#pragma unroll
    for (int i = 0; i < kDensePositions; ++i) load<kApart>(position(i), windows[i]);
#pragma unroll
    for (int i = 0; i < kDensePositions; ++i)
#pragma unroll
      for (int j = 0; j < kElements; j += 2)
        magnitudes.add(windows[i][j], windows[i][min(j + 1, kElements - 1)]);
    const Scale scale = ring_.find_scale(magnitudes);
    ring_.wait_empty();
    const int part = a_.bands.part_bytes / kUnitBytes;
#pragma unroll
    for (int i = 0; i < kDensePositions; ++i)
      for_units(i, [&](uint4* to, int j) {
        // In registers first: words that are written one by one are stored one by one.
        uint4 high, low;
        split_unit(Unit(windows[i], j).x, scale.factor, high, low);
        to[0] = high;
        to[part] = low;
      });
    ring_.tell_scale(scale);
    ring_.hand_over();
  }

  const Arguments<Element>& a_;
  BandWalk<Element> walk_;
  BandRing<T> ring_;
};

}  // namespace im2win::cuda::fused::stem
