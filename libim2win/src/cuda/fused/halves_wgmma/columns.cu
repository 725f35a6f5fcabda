#include "cuda/fused/halves_wgmma/tables.hpp"
#include "cuda/fused/table.cuh"

namespace im2win::cuda::fused {

template <class Element>
KernelTable<Element> halves_of_columns() {
  return compiled<Element, kHalves<Element>, Instructions::kWgmma, KernelShape{128, 104, 56},
                  KernelShape{128, 120, 112}, KernelShape{128, 160, 128},
                  KernelShape{128, 200, 168}, KernelShape{128, 240, 208, 1},
                  KernelShape{64, 80, 48}, KernelShape{64, 160, 88},
                  KernelShape{64, 240, 168, 1}>();
}
template KernelTable<__half> halves_of_columns();
template KernelTable<__nv_bfloat16> halves_of_columns();

}  // namespace im2win::cuda::fused
