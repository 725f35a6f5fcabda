// Dense bands on their way to shared memory: each position gets its window, whole.
#pragma once

#include <cstdint>

#include "cuda/fused/operands.cuh"
#include "cuda/fused/stem/arguments.cuh"
#include "cuda/fused/stem/staging.cuh"
#include "cuda/ptx.cuh"

namespace im2win::cuda::fused::stem {

/// Of a warpgroup, of which there may be others that take turns.
template <class T>
class DenseBands {
 public:
  using Element = typename T::Element;
  using Moved = fused::Moved<T::kOperands>;

  __device__ __forceinline__ DenseBands(const Arguments<Element>& a, Block<T> block, int warpgroup)
      : a_(a), walk_(a), ring_(a, block, warpgroup) {
    walk_.pass(warpgroup);
  }

  /// Calls stage() for each.
  template <class Stage>
  __device__ __forceinline__ void for_each(const Stage& stage) {
    for (; !walk_.ended(); walk_.pass(T::kShape.staging_warpgroups)) {
      ask_for_lines();
      stage();
    }
  }

  __device__ __forceinline__ BandRing<T>& ring() { return ring_; }

  /// Where the window of a position of the band is in the input.
  struct Window {
    int y, x;
    bool exists;
  };
  __device__ __forceinline__ Window window(int position) const {
    return window_of(walk_, position);
  }
  __device__ __forceinline__ const Moved* origin(int y, int x) const {
    return walk_.template origin<Moved>(y, x);
  }

  /// Where the first unit of a position goes.
  __device__ __forceinline__ uint4* place(int position) const { return ring_.units() + position; }

 private:
  __device__ __forceinline__ Window window_of(const BandWalk<Element>& band, int position) const {
    if constexpr (!T::kShape.runs)
      return {band.y(), band.x() + position * a_.stride_w, position < a_.bands.positions};
    const int pixel = band.row() * a_.q + position;
    const auto [p, q] = a_.row_pixels.divide(pixel);
    return {p * a_.stride_h - a_.padding_top, q * a_.stride_w - a_.padding_left,
            position < a_.bands.positions && pixel < a_.pixels};
  }

  /// Of a later band: as far as its first row goes on.
  __device__ __forceinline__ void ask_for_lines() const {
    const BandWalk<Element> later = walk_.template later<T::kShape.runs>();
    if (!later.exists()) return;
    const Window first = window_of(later, 0);
    later.template ask_for_lines<Moved>(BandRing<T>::thread(), first.y, first.x,
                                        first.x + a_.bands.positions * a_.stride_w + kDenseTaps);
  }

  const Arguments<Element>& a_;
  BandWalk<Element> walk_;
  BandRing<T> ring_;
};

}  // namespace im2win::cuda::fused::stem
