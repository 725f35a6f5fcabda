// A warp's slots of shared memory, each of a step of a tile.
#pragma once

#include <cuda_pipeline.h>

#include <cstdint>

#include "cuda/fused/output_rows.cuh"
#include "cuda/pointwise_mma/arguments.cuh"

namespace im2win::cuda::pointwise_mma {

class Slots {
 public:
  template <class Element>
  __device__ __forceinline__ explicit Slots(const Arguments<Element>& a)
      : first_(ptx::shared_address(dynamic_shared_memory) + a.tile.slots_begin +
               ptx::thread_in_block() / 32 * a.tile.slots * kSlotBytes),
        end_(first_ + a.tile.slots * kSlotBytes),
        asked_(first_) {}

  __device__ __forceinline__ uint32_t first() const { return first_; }
  __device__ __forceinline__ uint32_t after(uint32_t slot) const {
    slot += kSlotBytes;
    return slot == end_ ? first_ : slot;
  }

  /// The one to be asked for next.
  __device__ __forceinline__ uint32_t asked() const { return asked_; }
  __device__ __forceinline__ void advance() { asked_ = after(asked_); }

  /// Until the step after the last one that was waited for has come, and what was read before has been read by all lanes.
  __device__ __forceinline__ static void wait() {
    __pipeline_wait_prior(kStepsAhead - 1);
    __syncwarp();
  }

 private:
  uint32_t first_, end_, asked_;
};

}  // namespace im2win::cuda::pointwise_mma
