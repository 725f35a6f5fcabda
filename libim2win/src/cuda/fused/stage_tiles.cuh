// The round of those who stage what slabs of a tap group have in common but once.
#pragma once

#include <cstdint>

#include "cuda/fused/arguments.cuh"
#include "cuda/fused/clear.cuh"
#include "cuda/fused/slabs.cuh"

namespace im2win::cuda::fused {

/// For each of a block's tiles and tap groups: enter(tile, tap group), then stage(how many slabs of it).
template <class Element, class Enter, class Stage>
__device__ __forceinline__ void stage_tiles(const Arguments<Element>& a, const Enter& enter,
                                            const Stage& stage) {
  bool is_first = true;
  for (int32_t number = first_tile(a.tile); number < a.tiles;
       number += static_cast<int32_t>(gridDim.x)) {
    for (SlabShare share(a.tile); share.left > 0; share.leave_group(a.tile)) {
      enter(locate(a, number), share.tap_group);
      if (is_first) wait_to_stage(a);
      is_first = false;
      stage(share.of_group(a.tile));
    }
  }
}

}  // namespace im2win::cuda::fused
