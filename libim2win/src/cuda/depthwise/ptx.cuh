// The PTX that the depthwise kernels need and CUDA C++ lacks: clamping that keeps NaN, shared memory
// by its address, and tensor cores' products of 16-bit elements, summed in float (PTX ISA: max, cp.async,
// mma.sync, ldmatrix).
//
// A fragment of an 8 x 8 matrix is one register a lane: lane i holds elements 2 (i % 4) and the
// next of row i / 4. A is 16 rows: two such matrices for each 8 of the inner dimension. B is 8
// columns, each as a row of a fragment. Of the sums, a lane holds two neighbours of row i / 4 and
// the same of row i / 4 + 8.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <cstdint>

#include "cuda/ptx.cuh"

namespace im2win::cuda {

/// For kernels that are launched while the one before them goes on: waits for its end, before anything of the
/// tensors is read, which that one may have written. Lets the next one start, if it is to, whose blocks then wait
/// where this one leaves room: of few long blocks that is on few multiprocessors, and the next one's crowd there.
/// Kernels of such blocks let it start when they have computed.
__device__ __forceinline__ void follow(bool lets_next_start = true) {
  if (lets_next_start) ptx::let_next_start();
  ptx::wait_for_kernel_before();
}

/// NaN stays NaN.
__device__ __forceinline__ float clamp(float x, float low, float high) {
#if __CUDA_ARCH__ >= 800
  asm("max.NaN.f32 %0, %0, %1;" : "+f"(x) : "f"(low));
  asm("min.NaN.f32 %0, %0, %1;" : "+f"(x) : "f"(high));
  return x;
#else
  return x < low ? low : x > high ? high : x;
#endif
}

using ptx::load_if;

/// x * 0 + sum, of pairs of elements.
template <class Pair>
__device__ __forceinline__ Pair add_times_zero(Pair x, Pair sum) {
#if __CUDA_ARCH__ >= 800
  return __hfma2(x, Pair(0, 0), sum);
#else
  __trap();
  return sum;
#endif
}

__device__ __forceinline__ uint32_t shared_address(const void* p) {
  return static_cast<uint32_t>(__cvta_generic_to_shared(p));
}

__device__ __forceinline__ uint32_t load_shared(uint32_t address) {
  uint32_t word;
  asm volatile("ld.shared.u32 %0, [%1];" : "=r"(word) : "r"(address) : "memory");
  return word;
}

__device__ __forceinline__ uint32_t load_shared_half(uint32_t address) {
  uint16_t half;
  asm volatile("ld.shared.u16 %0, [%1];" : "=h"(half) : "r"(address) : "memory");
  return half;
}

__device__ __forceinline__ uint4 load_shared_word(uint32_t address) {
  uint4 word;
  asm volatile("ld.shared.v4.u32 {%0, %1, %2, %3}, [%4];"
               : "=r"(word.x), "=r"(word.y), "=r"(word.z), "=r"(word.w)
               : "r"(address)
               : "memory");
  return word;
}

__device__ __forceinline__ void store_shared(uint32_t address, uint32_t word) {
  asm volatile("st.shared.u32 [%0], %1;" ::"r"(address), "r"(word) : "memory");
}

/// The low half of the word.
__device__ __forceinline__ void store_shared_half(uint32_t address, uint32_t word) {
  asm volatile("st.shared.u16 [%0], %1;" ::"r"(address), "h"(static_cast<uint16_t>(word))
               : "memory");
}

/// Starts a copy of 16 or 4 bytes to shared memory, as __pipeline_memcpy_async() does, but through the
/// L1 cache: where copies overlap, the second finds them there.
template <int kBytes>
__device__ __forceinline__ void copy_async(uint32_t to, const void* from) {
#if __CUDA_ARCH__ >= 800
  asm volatile("cp.async.ca.shared.global [%0], [%1], %2;" ::"r"(to), "l"(from), "n"(kBytes)
               : "memory");
#else
#pragma unroll
  for (int i = 0; i < kBytes / 4; ++i)
    store_shared(to + 4 * i, static_cast<const uint32_t*>(from)[i]);
#endif
}

/// The fragments of four matrices. Lane i gives the address of row i % 8 of matrix i / 8: 16 bytes in
/// shared memory, aligned so.
__device__ __forceinline__ void load_fragments(uint32_t address, uint32_t (&fragments)[4]) {
#if __CUDA_ARCH__ >= 800
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(fragments[0]), "=r"(fragments[1]), "=r"(fragments[2]), "=r"(fragments[3])
               : "r"(address)
               : "memory");
#else
  __trap();
#endif
}

/// The first two of four, from lanes 0 to 15.
__device__ __forceinline__ void load_two_fragments(uint32_t address, uint32_t (&fragments)[4]) {
#if __CUDA_ARCH__ >= 800
  asm volatile("ldmatrix.sync.aligned.m8n8.x2.shared.b16 {%0, %1}, [%2];"
               : "=r"(fragments[0]), "=r"(fragments[1])
               : "r"(address)
               : "memory");
#else
  __trap();
#endif
}

/// sums += A B, of an inner dimension of 16: the first half of `a`, and b0, of the first 8.
template <class Element>
__device__ __forceinline__ void multiply_16(float (&sums)[4], const uint32_t (&a)[4], uint32_t b0,
                                            uint32_t b1);
/// Of the first 8 alone.
template <class Element>
__device__ __forceinline__ void multiply_8(float (&sums)[4], const uint32_t (&a)[4], uint32_t b0);

#if __CUDA_ARCH__ >= 800
#define IM2WIN_MULTIPLY_16(type)                                             \
  asm("mma.sync.aligned.m16n8k16.row.col.f32." type "." type                 \
      ".f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};" \
      : "+f"(sums[0]), "+f"(sums[1]), "+f"(sums[2]), "+f"(sums[3])           \
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1))
#define IM2WIN_MULTIPLY_8(type)                                    \
  asm("mma.sync.aligned.m16n8k8.row.col.f32." type "." type        \
      ".f32 {%0, %1, %2, %3}, {%4, %5}, {%6}, {%0, %1, %2, %3};"   \
      : "+f"(sums[0]), "+f"(sums[1]), "+f"(sums[2]), "+f"(sums[3]) \
      : "r"(a[0]), "r"(a[1]), "r"(b0))
#else
#define IM2WIN_MULTIPLY_16(type) __trap()
#define IM2WIN_MULTIPLY_8(type) __trap()
#endif

template <>
__device__ __forceinline__ void multiply_16<__half>(float (&sums)[4], const uint32_t (&a)[4],
                                                    uint32_t b0, uint32_t b1) {
  IM2WIN_MULTIPLY_16("f16");
}
template <>
__device__ __forceinline__ void multiply_16<__nv_bfloat16>(float (&sums)[4], const uint32_t (&a)[4],
                                                           uint32_t b0, uint32_t b1) {
  IM2WIN_MULTIPLY_16("bf16");
}
template <>
__device__ __forceinline__ void multiply_8<__half>(float (&sums)[4], const uint32_t (&a)[4],
                                                   uint32_t b0) {
  IM2WIN_MULTIPLY_8("f16");
}
template <>
__device__ __forceinline__ void multiply_8<__nv_bfloat16>(float (&sums)[4], const uint32_t (&a)[4],
                                                          uint32_t b0) {
  IM2WIN_MULTIPLY_8("bf16");
}

#undef IM2WIN_MULTIPLY_16
#undef IM2WIN_MULTIPLY_8

}  // namespace im2win::cuda
