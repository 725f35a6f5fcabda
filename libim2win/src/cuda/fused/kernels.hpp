// The kernels of im2win_fused that are compiled, a table for each kind of operands.
#pragma once

#include <span>
#include <vector>

#include "cuda/fused/arguments.cuh"
#include "cuda/fused/pack_arguments.cuh"

namespace im2win::cuda::fused {

template <class Arguments>
struct CompiledKernel {
  KernelShape shape;
  void (*run)(const Arguments);
};

template <class Arguments>
std::vector<KernelShape> shapes_of(std::span<const CompiledKernel<Arguments>> kernels) {
  std::vector<KernelShape> shapes;
  for (const CompiledKernel<Arguments>& kernel : kernels) shapes.push_back(kernel.shape);
  return shapes;
}

template <class Element>
using KernelTable = std::span<const CompiledKernel<Arguments<Element>>>;

template <class Element>
using PackKernel = void (*)(const PackArguments, const Element*, char*);

template <class Element>
struct PackKernels {
  PackKernel<Element> at_once, rehearsing;  // see PackArguments::rehearses
};

/// What is compiled for operands of an element type.
template <class Element>
struct Kernels {
  Operands operands;
  KernelTable<Element> kernels;
  PackKernels<Element> pack;
};

template <Instructions kInstructions>
const Kernels<__half>& half_kernels();
template <Instructions kInstructions>
const Kernels<__nv_bfloat16>& bfloat16_kernels();
template <Instructions kInstructions>
const Kernels<float>& tf32_kernels();
template <Instructions kInstructions>
const Kernels<float>& split_kernels();

}  // namespace im2win::cuda::fused
