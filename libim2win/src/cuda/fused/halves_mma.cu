#include "cuda/fused/table.cuh"

namespace im2win::cuda::fused {
namespace {

template <class Element, Operands kOperands>
const Kernels<Element>& instantiate_halves() {
  return instantiate<Element, kOperands, Instructions::kMma, KernelShape{128, 80},
                     KernelShape{128, 160}, KernelShape{64, 80}, KernelShape{64, 160}>();
}

}  // namespace

template <>
const Kernels<__half>& half_kernels<Instructions::kMma>() {
  return instantiate_halves<__half, Operands::kHalf>();
}
template <>
const Kernels<__nv_bfloat16>& bfloat16_kernels<Instructions::kMma>() {
  return instantiate_halves<__nv_bfloat16, Operands::kBFloat16>();
}

}  // namespace im2win::cuda::fused
