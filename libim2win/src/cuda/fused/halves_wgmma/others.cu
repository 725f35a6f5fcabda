#include "cuda/fused/halves_wgmma/tables.hpp"
#include "cuda/fused/table.cuh"

namespace im2win::cuda::fused {

template <class Element>
KernelTable<Element> other_halves() {
  return compiled<
      Element, kHalves<Element>, Instructions::kWgmma, KernelShape{256, 80, 56},
      KernelShape{256, 104, 88},
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
template KernelTable<__half> other_halves();
template KernelTable<__nv_bfloat16> other_halves();

}  // namespace im2win::cuda::fused
