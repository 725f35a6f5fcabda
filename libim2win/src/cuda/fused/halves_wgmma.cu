#include <vector>

#include "cuda/fused/halves_wgmma/tables.hpp"
#include "cuda/fused/table.cuh"

namespace im2win::cuda::fused {
namespace {

template <class Element>
const Kernels<Element>& all_halves() {
  static const auto all = [] {
    std::vector<CompiledKernel<Arguments<Element>>> joined;
    for (const auto& some : {halves_of_columns<Element>(), other_halves<Element>()})
      joined.insert(joined.end(), some.begin(), some.end());
    return joined;
  }();
  static const Kernels<Element> kernels = {kHalves<Element>, all,
                                           kPackKernels<Element, kHalves<Element>>};
  return kernels;
}

}  // namespace

template <>
const Kernels<__half>& half_kernels<Instructions::kWgmma>() {
  return all_halves<__half>();
}
template <>
const Kernels<__nv_bfloat16>& bfloat16_kernels<Instructions::kWgmma>() {
  return all_halves<__nv_bfloat16>();
}

}  // namespace im2win::cuda::fused
