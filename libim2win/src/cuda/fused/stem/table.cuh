// Instantiates im2win_stem for a kind of operands: see fused/table.cuh.
#pragma once

#include "cuda/fused/stem/kernel.cuh"
#include "cuda/fused/stem/kernels.hpp"
#include "cuda/fused/stem/shapes.hpp"

namespace im2win::cuda::fused::stem {

template <class Element, Operands kOperands, KernelShape... kShapes>
const Kernels<Element>& instantiate() {
  static constexpr CompiledKernel<Arguments<Element>> kCompiled[] = {
      {kShapes, stem_kernel<Kernel<Element, kOperands, Instructions::kWgmma, kShapes>>}...};
  static const Kernels<Element> kernels = {kOperands, kCompiled};
  return kernels;
}

}  // namespace im2win::cuda::fused::stem
