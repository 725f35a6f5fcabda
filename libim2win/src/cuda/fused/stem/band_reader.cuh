// Which bands of a strip a warpgroup that multiplies is at.
#pragma once

#include <cuda/ptx>

#include "cuda/fused/pipeline.cuh"
#include "cuda/fused/stem/arguments.cuh"
#include "cuda/ptx.cuh"

namespace im2win::cuda::fused::stem {

/// It meets all bands in their order, those that it does not use, too: it never waits for one while that before it in the
/// same stage may be to come, which the parity of a barrier does not tell apart.
template <class Element>
class BandReader {
 public:
  __device__ __forceinline__ explicit BandReader(const Arguments<Element>& a) : a_(a) {}

  /// How many of the strip's bands have been handed back.
  __device__ __forceinline__ int left() const { return left_; }
  /// So many after these. All of a row's are in the ring at the same time.
  __device__ __forceinline__ Cursor ahead(int bands = 0) const {
    Cursor at = at_;
    at.stage += bands;
    if (at.stage >= a_.bands.stages) {
      at.stage -= a_.bands.stages;
      at.parity ^= 1;
    }
    return at;
  }

  /// Hands back the strip's bands before this one, which the warpgroup does not use.
  __device__ __forceinline__ void pass(int before) {
    while (left_ < before) {
      barriers().bands.wait_full(at_);
      hand_back(left_ + 1);
    }
  }

  /// Those before this one, of those in the ring, each by a lane, once it is there. (Who has waited for a later one waits,
  /// too: a barrier's turns may not all pass unseen.)
  template <bool kWait = true>
  __device__ __forceinline__ void hand_back(int before) {
    if (const int lane = ptx::thread_in_block() % 32; lane < before - left_) {
      const Cursor at = ahead(lane);
      if constexpr (kWait) barriers().bands.wait_full(at);
      barriers().bands.arrive_empty(at.stage);
    }
    at_ = ahead(before - left_);
    left_ = before;
  }

  /// Once all of the last one's have been handed back.
  __device__ __forceinline__ void enter_strip() { left_ = 0; }

 private:
  static_assert(kMaxBands <= 32);

  const Arguments<Element>& a_;
  int left_ = 0;
  Cursor at_;
};

}  // namespace im2win::cuda::fused::stem
