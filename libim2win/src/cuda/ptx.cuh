// The PTX instructions of compute capability 9.0 that CCCL's cuda::ptx lacks.
#pragma once

#include <cuda.h>

#include <cstdint>
#include <type_traits>

#include "cuda/predicated.cuh"

namespace im2win::cuda::ptx {

/// Orders a warpgroup's register writes before its wgmma instructions (PTX ISA, wgmma.fence).
__device__ __forceinline__ void wgmma_fence() {
  asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
}

__device__ __forceinline__ void wgmma_commit() {
  asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
}

/// Until at most kPending groups of wgmma instructions are under way.
template <int kPending>
__device__ __forceinline__ void wgmma_wait() {
  asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(kPending) : "memory");
}

/// The compiler must not move reads of accumulators before the wait for them: after it they count
/// as written.
template <int kCount>
__device__ __forceinline__ void accumulators_written(float (&d)[kCount]) {
#pragma unroll
  for (int i = 0; i < kCount; ++i) asm volatile("" : "+f"(d[i])::"memory");
}

/// Of a block: lets a kernel start that was launched early after this one (see Start), when all blocks
/// have let it or ended. (PTX ISA, griddepcontrol.)
__device__ __forceinline__ void let_next_start() {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.launch_dependents;");
#endif
}

/// In a kernel that was launched early: until the one before it has ended and what it wrote is visible.
__device__ __forceinline__ void wait_for_kernel_before() {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}

template <int kRegisters>
__device__ __forceinline__ void give_up_registers() {
  asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(kRegisters));
}

template <int kRegisters>
__device__ __forceinline__ void take_registers() {
  asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(kRegisters));
}

/// Four matrices of 8 rows by 16 bytes: lane i gives the shared address of row i mod 8 of matrix
/// i / 8, and gets the 4 bytes i mod 4 of row i / 4 of each (PTX ISA, ldmatrix).
__device__ __forceinline__ void load_matrices(uint32_t row, uint32_t (&x)[4]) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(x[0]), "=r"(x[1]), "=r"(x[2]), "=r"(x[3])
               : "r"(row)
               : "memory");
}

/// Likewise, two.
__device__ __forceinline__ void load_matrices(uint32_t row, uint32_t (&x)[2]) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x2.shared.b16 {%0, %1}, [%2];"
               : "=r"(x[0]), "=r"(x[1])
               : "r"(row)
               : "memory");
}

/// Four, of 16-bit elements, each matrix transposed.
__device__ __forceinline__ void load_matrices_transposed(uint32_t row, uint32_t (&x)[4]) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(x[0]), "=r"(x[1]), "=r"(x[2]), "=r"(x[3])
               : "r"(row)
               : "memory");
}

/// The other way around: such matrices to shared memory (PTX ISA, stmatrix: of 9.0 and later).
__device__ __forceinline__ void store_matrices(uint32_t row, const uint32_t (&x)[4]) {
  asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(row),
               "r"(x[0]), "r"(x[1]), "r"(x[2]), "r"(x[3])
               : "memory");
}

/// Likewise, of 16-bit elements, each matrix transposed.
__device__ __forceinline__ void store_matrices_transposed(uint32_t row, const uint32_t (&x)[4]) {
  asm volatile("stmatrix.sync.aligned.m8n8.x4.trans.shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(row),
               "r"(x[0]), "r"(x[1]), "r"(x[2]), "r"(x[3])
               : "memory");
}

#define IM2WIN_MMA(name, instruction)                                                \
  __device__ __forceinline__ void name(float* d, const uint32_t(&a)[4], uint32_t b0, \
                                       uint32_t b1) {                                \
    asm volatile("mma.sync.aligned." instruction                                     \
                 " {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"  \
                 : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])                    \
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));    \
  }

/// d += a * b of a warp: 16 rows of a and 8 of b, by 32 bytes (PTX ISA, mma).
IM2WIN_MMA(mma_half, "m16n8k16.row.col.f32.f16.f16.f32")
IM2WIN_MMA(mma_bfloat16, "m16n8k16.row.col.f32.bf16.bf16.f32")
IM2WIN_MMA(mma_tf32, "m16n8k8.row.col.f32.tf32.tf32.f32")

#undef IM2WIN_MMA

/// Arrives when the thread's copies to shared memory so far are done (PTX ISA, cp.async.mbarrier.arrive).
__device__ __forceinline__ void arrive_after_copies(uint64_t* barrier) {
  asm volatile("cp.async.mbarrier.arrive.noinc.shared.b64 [%0];" ::"r"(
                   static_cast<uint32_t>(__cvta_generic_to_shared(barrier)))
               : "memory");
}

/// A barrier among `threads` threads of the block. 0 is __syncthreads'.
__device__ __forceinline__ void named_barrier(int id, int threads) {
  asm volatile("bar.sync %0, %1;" ::"r"(id), "r"(threads) : "memory");
}

__device__ __forceinline__ void named_barrier_arrive(int id, int threads) {
  asm volatile("bar.arrive %0, %1;" ::"r"(id), "r"(threads) : "memory");
}

/// To global memory, at once: the compiler was seen to take words apart.
__device__ __forceinline__ void store_word(void* to, const uint4& x) {
  asm volatile("st.global.v4.b32 [%0], {%1, %2, %3, %4};" ::"l"(to), "r"(x.x), "r"(x.y), "r"(x.z),
               "r"(x.w)
               : "memory");
}
__device__ __forceinline__ void store_word(void* to, const uint2& x) {
  asm volatile("st.global.v2.b32 [%0], {%1, %2};" ::"l"(to), "r"(x.x), "r"(x.y) : "memory");
}

/// So many times some bytes further on: an instruction (PTX ISA, mad.wide), where the compiler has three of numbers that it
/// made 64 bits long elsewhere.
template <class T>
__device__ __forceinline__ const T* further(const T* from, int32_t bytes, int32_t times) {
  const T* to;
  asm("mad.wide.s32 %0, %1, %2, %3;" : "=l"(to) : "r"(bytes), "r"(times), "l"(from));
  return to;
}

/// From an address in shared memory.
template <class Element>
__device__ __forceinline__ Element load_shared(uint32_t address);

template <>
__device__ __forceinline__ float load_shared<float>(uint32_t address) {
  float x;
  asm volatile("ld.shared.b32 %0, [%1];" : "=f"(x) : "r"(address));
  return x;
}

template <>
__device__ __forceinline__ uint32_t load_shared<uint32_t>(uint32_t address) {
  uint32_t x;
  asm volatile("ld.shared.b32 %0, [%1];" : "=r"(x) : "r"(address));
  return x;
}

template <>
__device__ __forceinline__ uint16_t load_shared<uint16_t>(uint32_t address) {
  uint16_t x;
  asm volatile("ld.shared.b16 %0, [%1];" : "=h"(x) : "r"(address));
  return x;
}

template <>
__device__ __forceinline__ int16_t load_shared<int16_t>(uint32_t address) {
  int16_t x;
  asm volatile("ld.shared.b16 %0, [%1];" : "=h"(x) : "r"(address));
  return x;
}

template <>
__device__ __forceinline__ float4 load_shared<float4>(uint32_t address) {
  float4 x;
  asm volatile("ld.shared.v4.f32 {%0, %1, %2, %3}, [%4];"
               : "=f"(x.x), "=f"(x.y), "=f"(x.z), "=f"(x.w)
               : "r"(address));
  return x;
}

/// To an address in shared memory.
__device__ __forceinline__ void store_shared(uint32_t address, float2 x) {
  asm volatile("st.shared.v2.b32 [%0], {%1, %2};" ::"r"(address), "f"(x.x), "f"(x.y) : "memory");
}

/// Two 8 x 8 matrices of 16-bit elements, in the layout of products' sums, transposed: lane i gives
/// the place of row i mod 8 of matrix i / 8 mod 2 (PTX ISA, stmatrix).
__device__ __forceinline__ void store_transposed(void* row, uint32_t matrix0, uint32_t matrix1) {
  asm volatile("stmatrix.sync.aligned.m8n8.x2.trans.shared.b16 [%0], {%1, %2};" ::"r"(
                   static_cast<uint32_t>(__cvta_generic_to_shared(row))),
               "r"(matrix0), "r"(matrix1)
               : "memory");
}

/// The other way around.
__device__ __forceinline__ void load_transposed(const void* row, uint32_t (&matrices)[2]) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x2.trans.shared.b16 {%0, %1}, [%2];"
               : "=r"(matrices[0]), "=r"(matrices[1])
               : "r"(static_cast<uint32_t>(__cvta_generic_to_shared(row)))
               : "memory");
}

/// *to = word, of 2 to 16 bytes, that the L2 cache keeps less long than others (PTX ISA, cache operators, cs).
template <class Word>
__device__ __forceinline__ void store_streaming(Word* to, const Word& word) {
  constexpr int kBytes = sizeof(Word);
  using Pair = std::conditional_t<kBytes == 8, uint2, uint4>;
  using One = std::conditional_t<kBytes == 2, unsigned short, unsigned int>;
  using Bits = std::conditional_t<kBytes <= 4, One, Pair>;
  static_assert(sizeof(Bits) == kBytes);
  __stcs(reinterpret_cast<Bits*>(to), reinterpret_cast<const Bits&>(word));
}

/// To the nearest of 10 bits of mantissa, ties away from zero.
__device__ __forceinline__ uint32_t round_to_tf32(float x) {
  uint32_t bits;
  asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(bits) : "f"(x));
  return bits;
}

/// The larger, or NaN if either is.
__device__ __forceinline__ float max_or_nan(float x, float y) {
#if __CUDA_ARCH__ >= 800
  float z;
  asm("max.NaN.f32 %0, %1, %2;" : "=f"(z) : "f"(x), "f"(y));
  return z;
#else
  return x != x || y != y ? NAN : fmaxf(x, y);
#endif
}

/// Asks for so many bytes, as far as they are whole words of 16, to come to the L2 cache (PTX ISA,
/// cp.async.bulk.prefetch).
__device__ __forceinline__ void prefetch(const void* p, int64_t bytes) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  constexpr uint64_t kWord = 16;
  const uint64_t begin = (reinterpret_cast<uint64_t>(p) + kWord - 1) / kWord * kWord;
  const uint64_t end = (reinterpret_cast<uint64_t>(p) + bytes) / kWord * kWord;
  if (begin >= end) return;
  asm volatile("cp.async.bulk.prefetch.L2.global [%0], %1;" ::"l"(begin),
               "r"(static_cast<uint32_t>(end - begin))
               : "memory");
#endif
}

/// A tensor's description, for copies of its boxes (PTX ISA, prefetch.tensormap).
__device__ __forceinline__ void prefetch(const CUtensorMap& map) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  asm volatile("prefetch.tensormap [%0];" ::"l"(&map) : "memory");
#endif
}

/// threadIdx.x, read here and not kept in a register from somewhere above, counted from a thread that is not
/// after this one. The compiler has to be told that it is not negative: remainders are a mask then.
__device__ __forceinline__ int thread_in_block(int first = 0) {
  int thread;
  asm volatile("mov.u32 %0, %%tid.x;" : "=r"(thread));
  thread -= first;
  __builtin_assume(thread >= 0);
  return thread;
}

/// True in one lane of a warp, all of which ask. Of compute capability 9.0.
__device__ __forceinline__ bool elect() {
  int elected;
  asm volatile("{\n.reg .pred e;\nelect.sync _|e, 0xffffffff;\nselp.b32 %0, 1, 0, e;\n}\n"
               : "=r"(elected));
  return elected != 0;
}

/// The same number, of which the compiler knows nothing: what is computed from it is computed here.
__device__ __forceinline__ int32_t fresh(int32_t x) {
  asm volatile("" : "+r"(x));
  return x;
}

/// What it points to is not known to be a parameter of the kernel: lanes that read different ones do so as from global
/// memory, and not one after another from the constant one.
template <class X>
__device__ __forceinline__ const X* fresh(const X* p) {
  asm volatile("" : "+l"(p));
  return p;
}

__device__ __forceinline__ float fresh(float x) {
  asm volatile("" : "+f"(x));
  return x;
}

__device__ __forceinline__ uint4 fresh(uint4 x) {
  asm volatile("" : "+r"(x.x), "+r"(x.y), "+r"(x.z), "+r"(x.w));
  return x;
}

/// The same number, of which ptxas, too, knows nothing: conditions on it are not kept for others that are the same.
/// By whole warps.
__device__ __forceinline__ int32_t unknown(int32_t x) { return __shfl_xor_sync(~0u, x, 0); }

/// All of these, which point to global memory, are computed before what follows, each in registers of its own. That
/// they do the compiler no longer sees, and would have each access find out.
template <class Pointer>
__device__ __forceinline__ void all_known(Pointer (&p)[8]) {
  asm volatile(""
               : "+l"(p[0]), "+l"(p[1]), "+l"(p[2]), "+l"(p[3]), "+l"(p[4]), "+l"(p[5]), "+l"(p[6]),
                 "+l"(p[7]));
  for (Pointer each : p) __builtin_assume(__isGlobal(each));
}
template <class Pointer>
__device__ __forceinline__ void all_known(Pointer (&p)[4]) {
  asm volatile("" : "+l"(p[0]), "+l"(p[1]), "+l"(p[2]), "+l"(p[3]));
  for (Pointer each : p) __builtin_assume(__isGlobal(each));
}

__device__ __forceinline__ uint32_t shared_address(const void* p) {
  return static_cast<uint32_t>(__cvta_generic_to_shared(p));
}
/// The other way around.
__device__ __forceinline__ void* at_shared_address(uint32_t address) {
  return __cvta_shared_to_generic(address);
}

}  // namespace im2win::cuda::ptx
