// Instantiates im2win_stem for one kind of operands. One file an instance, as they take long to compile.
#pragma once

#include "cuda/fused/stem/kernel.cuh"
#include "cuda/fused/stem/kernels.hpp"

namespace im2win::cuda::fused::stem {

template <class Element, Operands kOperands, KernelShape... kShapes>
const Kernels<Element>& instantiate() {
  static constexpr CompiledKernel<Arguments<Element>> kCompiled[] = {
      {kShapes, stem_kernel<Kernel<Element, kOperands, Instructions::kWgmma, kShapes>>}...};
  static const Kernels<Element> kernels = {kOperands, kCompiled};
  return kernels;
}

/// Rows of 224 pixels, or theirs at strides of 2 and 4, are whole multiples of these. Of TF32 there is twice as much
/// to stage for a product, by as many warpgroups as multiply.
constexpr KernelShape kNarrow = {64, 56, 1, kMostWarpgroups}, kWide = {64, 112, 1, kMostWarpgroups},
                      kWideTf32 = {64, 112, 2, 2};
/// 96 filters, which have a third of other products' rows in vain. Of 32 bits, two warpgroups: split operands take
/// the registers of a third, TF32's filters the room for its patch.
constexpr KernelShape kPixelMajor = {96, 64, 1, 2, false, false, true},
                      kPixelMajorHalves = {96, 64, 1, kMostWarpgroups, false, false, true};

}  // namespace im2win::cuda::fused::stem
