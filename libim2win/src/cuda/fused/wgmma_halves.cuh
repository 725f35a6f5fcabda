// im2win_fused on wgmma for 16-bit elements: the same shapes for float16 and bfloat16.
#pragma once

#include "cuda/fused/table.cuh"

namespace im2win::cuda::fused {

template <class Element, Operands kOperands>
const Kernels<Element>& instantiate_halves() {
  return instantiate<
      Element, kOperands, Instructions::kWgmma, KernelShape{128, 104, 56},
      KernelShape{128, 120, 112}, KernelShape{128, 160, 128}, KernelShape{128, 200, 168},
      KernelShape{128, 240, 208, 1}, KernelShape{64, 80, 48}, KernelShape{64, 160, 88},
      KernelShape{64, 240, 168, 1}, KernelShape{256, 80, 56}, KernelShape{256, 104, 88},
      KernelShape{.filters = 64,
                  .columns = 240,
                  .least_columns = 168,
                  .staging_warpgroups = 1,
                  .takes_turns = true},
      KernelShape{.filters = 128, .columns = 128, .pixel_rows = true},
      KernelShape{.filters = 128, .columns = 200, .least_columns = 136, .pixel_rows = true},
      KernelShape{.filters = 128, .columns = 256, .staging_warpgroups = 1, .pixel_rows = true},
      KernelShape{.filters = 64,
                  .columns = 256,
                  .staging_warpgroups = 1,
                  .takes_turns = true,
                  .pixel_rows = true}>();
}

}  // namespace im2win::cuda::fused
