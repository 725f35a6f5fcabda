#include "cpu/kernels.hpp"

#include "cpu/isa.hpp"
#include "cpu/pair_kernels.hpp"

namespace im2win::cpu {
namespace {

const KernelSet& choose_set() {
  [[maybe_unused]] const Isa isa = choose_isa();
#if defined(IM2WIN_X86)
  if (isa >= Isa::kAvx512) return avx512_kernels;
  if (isa == Isa::kAvx2) return avx2_kernels;
#endif
  return baseline_kernels;
}

}  // namespace

template <>
const Kernels<double>& choose_kernels() {
  return choose_set().float64;
}
template <>
const Kernels<float>& choose_kernels() {
  return choose_set().float32;
}
template <>
const Kernels<Float16>& choose_kernels() {
  return choose_set().float16;
}
template <>
const Kernels<BFloat16>& choose_kernels() {
  return choose_set().bfloat16;
}

const PairKernels* choose_pair_kernels() {
#if defined(IM2WIN_X86)
  if (choose_isa() == Isa::kAvx512Bf16) return &avx512_bf16_kernels;
#endif
  return nullptr;
}

}  // namespace im2win::cpu
