// The element types on the device, and their conversion to and from what is computed in.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

namespace im2win::cuda {

template <class Compute, class Element>
__device__ __forceinline__ Compute to_compute(Element x) {
  return static_cast<Compute>(x);
}

template <>
__device__ __forceinline__ float to_compute<float, __half>(__half x) {
  return __half2float(x);
}

template <>
__device__ __forceinline__ float to_compute<float, __nv_bfloat16>(__nv_bfloat16 x) {
  return __bfloat162float(x);
}

/// Rounds to nearest, ties to even.
template <class Element, class Compute>
__device__ __forceinline__ Element from_compute(Compute x) {
  return static_cast<Element>(x);
}

template <>
__device__ __forceinline__ __half from_compute<__half, float>(float x) {
  return __float2half_rn(x);
}

template <>
__device__ __forceinline__ __nv_bfloat16 from_compute<__nv_bfloat16, float>(float x) {
  return __float2bfloat16_rn(x);
}

}  // namespace im2win::cuda
