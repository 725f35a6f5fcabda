// A warp's way through its tiles of pixels, step after step of channels: each is asked for some steps before it is
// multiplied, and has a slot of shared memory, of which the warp has some to itself.
#pragma once

#include <cuda_pipeline.h>

#include <cstdint>

#include "cuda/fused/output_rows.cuh"
#include "cuda/pointwise_mma/arguments.cuh"

namespace im2win::cuda::pointwise_mma {

/// `Stream`, which is one, says how: start_tile() before the first step of a tile, and copy() for each.
template <class Stream, class Element>
class Slots {
 public:
  /// Before the first tile is multiplied.
  __device__ __forceinline__ void begin() {
#pragma unroll 1
    for (int i = 0; i < kStepsAhead; ++i) ask();
  }

  /// Starts the copies of the next step, if there is one.
  __device__ __forceinline__ void ask() {
    if (tile_ < a_.tile.tiles) {
      stream().copy();
      asked_ = after(asked_);
      if (++step_ == a_.tile.steps) {
        step_ = 0;
        tile_ += stride_;
        if (tile_ < a_.tile.tiles) stream().start_tile();
      }
    }
    __pipeline_commit();  // also where there is nothing, as steps are counted
  }

  /// Until the step after the last one that was waited for has come, and what was read before has been read by all lanes.
  __device__ __forceinline__ static void wait() {
    __pipeline_wait_prior(kStepsAhead - 1);
    __syncwarp();
  }

  __device__ __forceinline__ uint32_t first_slot() const { return first_; }
  __device__ __forceinline__ uint32_t after(uint32_t slot) const {
    slot += kSlotBytes;
    return slot == end_ ? first_ : slot;
  }

 protected:
  /// Of every so manyth tile from one on.
  __device__ __forceinline__ Slots(const Arguments<Element>& a, int32_t first_tile, int32_t stride)
      : a_(a),
        tile_(first_tile),
        stride_(stride),
        first_(ptx::shared_address(dynamic_shared_memory) + a.tile.slots_begin +
               ptx::thread_in_block() / 32 * a.tile.slots * kSlotBytes),
        end_(first_ + a.tile.slots * kSlotBytes),
        asked_(first_) {}

  const Arguments<Element>& a_;
  // Of what is asked for next.
  int32_t tile_, stride_;
  int step_ = 0;

  /// To be copied to.
  __device__ __forceinline__ uint32_t asked() const { return asked_; }

 private:
  __device__ __forceinline__ Stream& stream() { return static_cast<Stream&>(*this); }

  uint32_t first_, end_, asked_;
};

}  // namespace im2win::cuda::pointwise_mma
