// Loads, copies, stores and prefetches on a condition, each one predicated instruction: a branch for each of many would make them
// wait for one another. The condition becomes a predicate in the assembly, where the compiler makes no branch of it.
#pragma once

#include <cstdint>

namespace im2win::cuda::ptx {

/// *p through the read-only path if any bit is set, or zero.
__device__ __forceinline__ float load_if_any(uint32_t bits, const float* p) {
  float x;
  asm("{\n.reg .pred c;\nsetp.ne.b32 c, %1, 0;\nmov.b32 %0, 0;\n@c ld.global.nc.b32 %0, [%2];\n}\n"
      : "=f"(x)
      : "r"(bits), "l"(p));
  return x;
}

/// Likewise. One bit of many would have to be made a bool first.
__device__ __forceinline__ float load_if(bool condition, const float* p) {
  return load_if_any(condition, p);
}

__device__ __forceinline__ uint16_t load_if(bool condition, const uint16_t* p) {
  uint16_t x;
  asm("{\n.reg .pred c;\nsetp.ne.b32 c, %1, 0;\nmov.b16 %0, 0;\n@c ld.global.nc.b16 %0, [%2];\n}\n"
      : "=h"(x)
      : "r"(static_cast<int>(condition)), "l"(p));
  return x;
}

__device__ __forceinline__ uint32_t load_if(bool condition, const uint32_t* p) {
  uint32_t x;
  asm("{\n.reg .pred c;\nsetp.ne.b32 c, %1, 0;\nmov.b32 %0, 0;\n@c ld.global.nc.b32 %0, [%2];\n}\n"
      : "=r"(x)
      : "r"(static_cast<int>(condition)), "l"(p));
  return x;
}

__device__ __forceinline__ uint2 load_if(bool condition, const uint2* p) {
  uint2 x;
  asm("{\n.reg .pred c;\nsetp.ne.b32 c, %2, 0;\nmov.b32 %0, 0;\nmov.b32 %1, 0;\n"
      "@c ld.global.nc.v2.b32 {%0, %1}, [%3];\n}\n"
      : "=r"(x.x), "=r"(x.y)
      : "r"(static_cast<int>(condition)), "l"(p));
  return x;
}

__device__ __forceinline__ float2 load_if(bool condition, const float2* p) {
  float2 x;
  asm("{\n.reg .pred c;\nsetp.ne.b32 c, %2, 0;\nmov.b32 %0, 0;\nmov.b32 %1, 0;\n"
      "@c ld.global.nc.v2.b32 {%0, %1}, [%3];\n}\n"
      : "=f"(x.x), "=f"(x.y)
      : "r"(static_cast<int>(condition)), "l"(p));
  return x;
}

__device__ __forceinline__ uint4 load_if(bool condition, const uint4* p) {
  uint4 x;
  asm("{\n.reg .pred c;\nsetp.ne.b32 c, %4, 0;\nmov.b32 %0, 0;\nmov.b32 %1, 0;\nmov.b32 %2, 0;\n"
      "mov.b32 %3, 0;\n@c ld.global.nc.v4.b32 {%0, %1, %2, %3}, [%5];\n}\n"
      : "=r"(x.x), "=r"(x.y), "=r"(x.z), "=r"(x.w)
      : "r"(static_cast<int>(condition)), "l"(p));
  return x;
}

/// As load_if, but for the zero, in whose place is anything.
__device__ __forceinline__ uint16_t load_or_any(bool condition, const uint16_t* p) {
  uint16_t x;
  asm("{\n.reg .pred c;\nsetp.ne.b32 c, %1, 0;\n@c ld.global.nc.b16 %0, [%2];\n}\n"
      : "=h"(x)
      : "r"(static_cast<int>(condition)), "l"(p));
  return x;
}

/// Eight of them, `stride` bytes apart.
__device__ __forceinline__ void load_if(bool condition, const float* p, int64_t stride,
                                        float (&x)[8]) {
  asm("{\n.reg .pred c;\n.reg .b64 p;\nsetp.ne.b32 c, %8, 0;\nmov.b64 p, %9;\n"
      "mov.b32 %0, 0;\nmov.b32 %1, 0;\nmov.b32 %2, 0;\nmov.b32 %3, 0;\n"
      "mov.b32 %4, 0;\nmov.b32 %5, 0;\nmov.b32 %6, 0;\nmov.b32 %7, 0;\n"
      "@c ld.global.nc.b32 %0, [p];\nadd.s64 p, p, %10;\n@c ld.global.nc.b32 %1, [p];\n"
      "add.s64 p, p, %10;\n@c ld.global.nc.b32 %2, [p];\nadd.s64 p, p, %10;\n"
      "@c ld.global.nc.b32 %3, [p];\nadd.s64 p, p, %10;\n@c ld.global.nc.b32 %4, [p];\n"
      "add.s64 p, p, %10;\n@c ld.global.nc.b32 %5, [p];\nadd.s64 p, p, %10;\n"
      "@c ld.global.nc.b32 %6, [p];\nadd.s64 p, p, %10;\n@c ld.global.nc.b32 %7, [p];\n}\n"
      : "=&f"(x[0]), "=&f"(x[1]), "=&f"(x[2]), "=&f"(x[3]), "=&f"(x[4]), "=&f"(x[5]), "=&f"(x[6]),
        "=&f"(x[7])
      : "r"(static_cast<int>(condition)), "l"(p), "l"(stride));
}

/// Four elements, `stride` elements apart, through the read-only path: those whose bit is set in `which`, and
/// zeros.
#define IM2WIN_LOAD_FOUR(Element, type, constraint)                                              \
  __device__ __forceinline__ void load_four_if(uint32_t which, const Element* p, int32_t stride, \
                                               Element* x) {                                     \
    asm("{\n.reg .pred c0, c1, c2, c3;\n.reg .b32 t;\n"                                          \
        "and.b32 t, %4, 1;\nsetp.ne.b32 c0, t, 0;\nand.b32 t, %4, 2;\nsetp.ne.b32 c1, t, 0;\n"   \
        "and.b32 t, %4, 4;\nsetp.ne.b32 c2, t, 0;\nand.b32 t, %4, 8;\nsetp.ne.b32 c3, t, 0;\n"   \
        "mov." type " %0, 0;\nmov." type " %1, 0;\nmov." type " %2, 0;\nmov." type               \
        " %3, 0;\n"                                                                              \
        "@c0 ld.global.nc." type " %0, [%5];\n@c1 ld.global.nc." type                            \
        " %1, [%6];\n"                                                                           \
        "@c2 ld.global.nc." type " %2, [%7];\n@c3 ld.global.nc." type " %3, [%8];\n}\n"          \
        : "=&" constraint(x[0]), "=&" constraint(x[1]), "=&" constraint(x[2]),                   \
          "=&" constraint(x[3])                                                                  \
        : "r"(which), "l"(p), "l"(p + stride), "l"(p + 2 * stride), "l"(p + 3 * stride));        \
  }

IM2WIN_LOAD_FOUR(float, "b32", "f")
IM2WIN_LOAD_FOUR(uint16_t, "b16", "h")

#undef IM2WIN_LOAD_FOUR

/// From an address in shared memory, or zero.
template <class Element>
__device__ __forceinline__ Element load_shared_if(bool condition, uint32_t address);

template <>
__device__ __forceinline__ float load_shared_if<float>(bool condition, uint32_t address) {
  float x;
  asm volatile(
      "{\n.reg .pred c;\nsetp.ne.b32 c, %1, 0;\nmov.b32 %0, 0;\n@c ld.shared.b32 %0, [%2];\n}\n"
      : "=f"(x)
      : "r"(static_cast<int>(condition)), "r"(address));
  return x;
}

template <>
__device__ __forceinline__ uint16_t load_shared_if<uint16_t>(bool condition, uint32_t address) {
  uint16_t x;
  asm volatile(
      "{\n.reg .pred c;\nsetp.ne.b32 c, %1, 0;\nmov.b16 %0, 0;\n@c ld.shared.b16 %0, [%2];\n}\n"
      : "=h"(x)
      : "r"(static_cast<int>(condition)), "r"(address));
  return x;
}

/// To such an address.
__device__ __forceinline__ void store_shared_if(bool condition, uint32_t address, float x) {
  asm volatile("{\n.reg .pred c;\nsetp.ne.b32 c, %0, 0;\n@c st.shared.b32 [%1], %2;\n}\n" ::"r"(
                   static_cast<int>(condition)),
               "r"(address), "f"(x)
               : "memory");
}

__device__ __forceinline__ void store_shared_if(bool condition, uint32_t address, uint32_t x) {
  asm volatile("{\n.reg .pred c;\nsetp.ne.b32 c, %0, 0;\n@c st.shared.b32 [%1], %2;\n}\n" ::"r"(
                   static_cast<int>(condition)),
               "r"(address), "r"(x)
               : "memory");
}

/// The low half of x (PTX ISA, "Operand Size Exceeding Instruction-Type Size").
__device__ __forceinline__ void store_shared_half_if(bool condition, uint32_t address, uint32_t x) {
  asm volatile("{\n.reg .pred c;\nsetp.ne.b32 c, %0, 0;\n@c st.shared.b16 [%1], %2;\n}\n" ::"r"(
                   static_cast<int>(condition)),
               "r"(address), "r"(x)
               : "memory");
}

/// To shared memory, likewise.
__device__ __forceinline__ void store_unit_if(bool condition, uint4* to, uint4 x) {
  asm volatile(
      "{\n.reg .pred c;\nsetp.ne.b32 c, %0, 0;\n@c st.shared.v4.b32 [%1], {%2, %3, %4, %5};\n}\n" ::
          "r"(static_cast<int>(condition)),
      "r"(static_cast<uint32_t>(__cvta_generic_to_shared(to))), "r"(x.x), "r"(x.y), "r"(x.z),
      "r"(x.w)
      : "memory");
}

/// Starts a copy of so many bytes to an address in shared memory, or of as many zeros (PTX ISA, cp.async, ignore-src): an
/// instruction, where __pipeline_memcpy_async() chooses among several unless it knows how many are zeros.
template <int kBytes>
__device__ __forceinline__ void copy_async_if(bool exists, uint32_t to, const void* from) {
#if __CUDA_ARCH__ >= 800
  if constexpr (kBytes == 16)
    asm volatile(
        "{\n.reg .pred none;\nsetp.eq.u32 none, %2, 0;\n"
        "cp.async.cg.shared.global [%0], [%1], 16, none;\n}\n" ::"r"(to),
        "l"(from), "r"(static_cast<uint32_t>(exists))
        : "memory");
  else
    asm volatile(
        "{\n.reg .pred none;\nsetp.eq.u32 none, %3, 0;\n"
        "cp.async.ca.shared.global [%0], [%1], %2, none;\n}\n" ::"r"(to),
        "l"(from), "n"(kBytes), "r"(static_cast<uint32_t>(exists))
        : "memory");
#else
#pragma unroll
  for (int i = 0; i < kBytes / 4; ++i)
    store_shared_if(true, to + 4 * i, load_if(exists, static_cast<const uint32_t*>(from) + i));
#endif
}

/// Asks for a line to come to the L2 cache.
__device__ __forceinline__ void prefetch_if(bool condition, const void* p) {
  asm volatile("{\n.reg .pred c;\nsetp.ne.b32 c, %0, 0;\n@c prefetch.global.L2 [%1];\n}\n" ::"r"(
                   static_cast<int>(condition)),
               "l"(p)
               : "memory");
}

}  // namespace im2win::cuda::ptx
