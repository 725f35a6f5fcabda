// Instantiates im2win_fused for one kind of operands. One file an instance, as they take long to
// compile.
#pragma once

#include <span>

#include "cuda/fused/kernel.cuh"
#include "cuda/fused/kernels.hpp"
#include "cuda/fused/pack.cuh"

namespace im2win::cuda::fused {

template <class Element, Operands kOperands, Instructions kInstructions, KernelShape... kShapes>
const Kernels<Element>& instantiate() {
  static constexpr CompiledKernel<Arguments<Element>> kCompiled[] = {
      {kShapes, fused_kernel<Kernel<Element, kOperands, kInstructions, kShapes>>}...};
  static const Kernels<Element> kernels = {
      kOperands,
      kCompiled,
      {fused_pack_kernel<Element, kOperands, false>, fused_pack_kernel<Element, kOperands, true>}};
  return kernels;
}

}  // namespace im2win::cuda::fused
