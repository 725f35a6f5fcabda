// Dense bands, one element after another.
#pragma once

#include <cstdint>

#include "cuda/fused/operands.cuh"
#include "cuda/fused/stem/dense_bands.cuh"
#include "cuda/ptx.cuh"

namespace im2win::cuda::fused::stem {

/// By a warpgroup. A thread has a window of so many channels at each of some positions. Neighbouring lanes have
/// neighbouring positions, in memory and in shared memory.
template <class T, int kChannels>
class DenseStaging {
 public:
  using Element = typename T::Element;
  using Moved = fused::Moved<T::kOperands>;

  __device__ __forceinline__ DenseStaging(const Arguments<Element>& a, Block<T> block,
                                          int warpgroup)
      : a_(a), bands_(a, block, warpgroup) {}

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
    bands_.for_each([&] {
      if constexpr (kSplit) {
        stage_split<kApart>();
      } else {
        stage_whole<kApart>();
      }
    });
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
      if (i == 0) bands_.ring().wait_empty();
      for_units(i, [&](uint4* to, int j) { *to = units[j]; });
    }
    bands_.ring().hand_over();
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

  template <int kApart>
  __device__ __forceinline__ void load(int position, Moved (&window)[kElements]) const {
    const int64_t channel = kApart > 1 ? 1 : a_.stride_c;
    const int apart = kApart > 0 ? kApart : a_.column_stride;
    const auto [y, x, exists] = bands_.window(position);
    const Moved* const first = bands_.origin(y, x);
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
    uint4* const to = bands_.place(position(i));
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
    const Scale scale = bands_.ring().find_scale(magnitudes);
    bands_.ring().wait_empty();
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
    bands_.ring().tell_scale(scale);
    bands_.ring().hand_over();
  }

  const Arguments<Element>& a_;
  DenseBands<T> bands_;
};

}  // namespace im2win::cuda::fused::stem
