// Windows that two blocks, a cluster, have in common, as their tiles differ in filters alone: each block brings every other
// slab, to both at once (PTX ISA, cp.async.bulk.tensor, .multicast::cluster), and half as much comes from the L2 cache.
#pragma once

#include <cuda/ptx>

#include <cstdint>

#include "cuda/cluster.cuh"
#include "cuda/fused/block.cuh"
#include "cuda/fused/pipeline.cuh"

namespace im2win::cuda::fused {

/// Of the thread of a block that brings slabs. The other block's tells it, by an mbarrier here, when there is room for a
/// slab there: its turn of a ring of turns, each a slab of the one and a slab of the other. All that are told are waited
/// for, and all slabs that come are used, so that a block may end while the other goes on.
class SlabTurns {
 public:
  static constexpr uint16_t kBoth = 0b11;  // blocks

  __device__ __forceinline__ static void initialize() {
#pragma unroll 1
    for (uint64_t& barrier : barriers().other_has_room) ::cuda::ptx::mbarrier_init(&barrier, 1);
  }

  /// When there is room for the next slab in this block, and it is expected: true if this block is to bring it, and there
  /// is room in the other one, too.
  __device__ __forceinline__ bool is_own() {
    const bool is_own = is_second_ == is_of_second_;
    uint64_t* const barrier = &barriers().other_has_room[turn_.stage];
    if (is_own) {
      wait(barrier, turn_.parity);
    } else {
      ptx::arrive_at(ptx::shared_address_in_cluster(barrier, is_second_ ? 0 : 1));
    }
    if (is_of_second_) turn_.advance(kMaxSlabStages);
    is_of_second_ = !is_of_second_;
    return is_own;
  }

 private:
  bool is_second_ = blockIdx.x % 2 != 0;  // of the blocks
  bool is_of_second_ = false;             // the slab
  Cursor turn_;
};

}  // namespace im2win::cuda::fused
