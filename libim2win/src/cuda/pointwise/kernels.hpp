// The kernels of `pointwise` that are compiled: one for each of kShapes.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include "cuda/pointwise/arguments.cuh"

namespace im2win::cuda::pointwise {

template <class Element>
using Kernel = void (*)(const Arguments<Element>);

Kernel<__half> half_kernel(int shape);
Kernel<__nv_bfloat16> bfloat16_kernel(int shape);

}  // namespace im2win::cuda::pointwise
