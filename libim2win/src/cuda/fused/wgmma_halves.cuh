// im2win_fused on wgmma for 16-bit elements: the same shapes for float16 and bfloat16.
#pragma once

#include "cuda/fused/table.cuh"

namespace im2win::cuda::fused {

template <class Element, Operands kOperands>
const Kernels<Element>& instantiate_halves() {
  return instantiate<
      Element, kOperands, Instructions::kWgmma, KernelShape{128, 104}, KernelShape{128, 120},
      KernelShape{128, 160}, KernelShape{128, 200}, KernelShape{128, 240, 1}, KernelShape{64, 80},
      KernelShape{64, 160}, KernelShape{64, 240, 1}, KernelShape{256, 80}, KernelShape{256, 104},
      KernelShape{.filters = 64, .columns = 240, .staging_warpgroups = 1, .takes_turns = true},
      KernelShape{.filters = 128, .columns = 128, .staging_warpgroups = 1, .pixel_rows = true},
      KernelShape{.filters = 128, .columns = 256, .staging_warpgroups = 1, .pixel_rows = true},
      KernelShape{.filters = 64,
                  .columns = 256,
                  .staging_warpgroups = 1,
                  .takes_turns = true,
                  .pixel_rows = true}>();
}

}  // namespace im2win::cuda::fused
