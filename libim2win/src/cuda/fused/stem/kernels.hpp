// The kernels of im2win_stem that are compiled, a table for each kind of operands.
#pragma once

#include <span>

#include "cuda/fused/kernels.hpp"
#include "cuda/fused/stem/arguments.cuh"

namespace im2win::cuda::fused::stem {

/// What is compiled for operands of an element type.
template <class Element>
struct Kernels {
  Operands operands;
  std::span<const CompiledKernel<Arguments<Element>>> kernels;
};

const Kernels<__half>& half_kernels();
const Kernels<__nv_bfloat16>& bfloat16_kernels();
const Kernels<float>& tf32_kernels();
const Kernels<float>& split_kernels();

}  // namespace im2win::cuda::fused::stem
