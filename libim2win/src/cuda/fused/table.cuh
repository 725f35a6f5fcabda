// Instantiates im2win_fused for a kind of operands. One file a kind, as they take long to compile; but float16's and
// bfloat16's are nearly the same code, of which a file, compressed as a whole, takes little more for both than for one.
#pragma once

#include <span>

#include "cuda/fused/kernel.cuh"
#include "cuda/fused/kernels.hpp"
#include "cuda/fused/pack.cuh"

namespace im2win::cuda::fused {

template <class Element, Operands kOperands, Instructions kInstructions, KernelShape... kShapes>
KernelTable<Element> compiled() {
  static constexpr CompiledKernel<Arguments<Element>> kCompiled[] = {
      {kShapes, fused_kernel<Kernel<Element, kOperands, kInstructions, kShapes>>}...};
  return kCompiled;
}

template <class Element, Operands kOperands>
constexpr PackKernels<Element> kPackKernels = {fused_pack_kernel<Element, kOperands, false>,
                                               fused_pack_kernel<Element, kOperands, true>};

template <class Element, Operands kOperands, Instructions kInstructions, KernelShape... kShapes>
const Kernels<Element>& instantiate() {
  static const Kernels<Element> kernels = {
      kOperands, compiled<Element, kOperands, kInstructions, kShapes...>(),
      kPackKernels<Element, kOperands>};
  return kernels;
}

}  // namespace im2win::cuda::fused
