// cuda/ptx.cuh, emulated.
#pragma once

#include <cuda.h>
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_pipeline_primitives.h>

#include <cuda/ptx>

#include <cstdint>

#include "emulator.hpp"

namespace im2win::cuda::ptx {

// Instructions that are .sync.aligned: no lane passes them before all have come.
inline void wgmma_fence() { emulator::exchange(0); }
inline void wgmma_commit() { emulator::exchange(0); }
template <int kPending>
void wgmma_wait() {
  emulator::exchange(0);
}
template <int kCount>
void accumulators_written(float (&)[kCount]) {}
template <int kRegisters>
void give_up_registers() {}
template <int kRegisters>
void take_registers() {}

template <class Word>
void store_word(void* to, const Word& x) {
  *static_cast<Word*>(to) = x;
}

inline void prefetch(const CUtensorMap&) {}

inline float tf32_at(const void* p) {
  return __uint_as_float(*static_cast<const uint32_t*>(p) & ~0x1fffu);
}
inline float bfloat16_at(const void* p) {
  return __bfloat162float(*static_cast<const __nv_bfloat16*>(p));
}
inline float half_at(const void* p) { return __half2float(*static_cast<const __half*>(p)); }

template <unsigned kMatrices>
void load_matrices(uint32_t row, uint32_t (&x)[kMatrices]) {
  const uint64_t* rows = emulator::exchange(row);
  const unsigned lane = threadIdx.x % 32;
  for (unsigned matrix = 0; matrix < kMatrices; ++matrix)
    std::memcpy(&x[matrix], dynamic_shared_memory + rows[8 * matrix + lane / 4] + lane % 4 * 4, 4);
}

inline void load_matrices_transposed(uint32_t row, uint32_t (&x)[4]) {
  const uint64_t* rows = emulator::exchange(row);
  const unsigned lane = threadIdx.x % 32;
  for (unsigned matrix = 0; matrix < 4; ++matrix) {
    uint16_t pair[2];
    for (unsigned i = 0; i < 2; ++i)
      std::memcpy(&pair[i],
                  dynamic_shared_memory + rows[8 * matrix + lane % 4 * 2 + i] + lane / 4 * 2, 2);
    x[matrix] = pair[0] | uint32_t{pair[1]} << 16;
  }
}

inline void store_matrices(uint32_t row, const uint32_t (&x)[4]) {
  const uint64_t* rows = emulator::exchange(row);
  const unsigned lane = threadIdx.x % 32;
  for (unsigned matrix = 0; matrix < 4; ++matrix)
    std::memcpy(dynamic_shared_memory + rows[8 * matrix + lane / 4] + lane % 4 * 4, &x[matrix], 4);
}

inline void store_matrices_transposed(uint32_t row, const uint32_t (&x)[4]) {
  const uint64_t* rows = emulator::exchange(row);
  const unsigned lane = threadIdx.x % 32;
  for (unsigned matrix = 0; matrix < 4; ++matrix)
    for (unsigned i = 0; i < 2; ++i)
      reinterpret_cast<uint16_t*>(dynamic_shared_memory +
                                  rows[8 * matrix + lane % 4 * 2 + i])[lane / 4] =
          static_cast<uint16_t>(x[matrix] >> 16 * i);
}

/// d += a * b, 16 rows by 8 columns by kSteps elements, of which `at` reads one of a's or b's bytes.
template <unsigned kSteps>
void multiply(float* d, const uint32_t (&a)[4], uint32_t b0, uint32_t b1,
              float (*at)(const void*)) {
  constexpr unsigned kBytes = 32 / kSteps;
  uint64_t rows[3][32];  // registers of all lanes: a0 and a1, a2 and a3, b0 and b1
  std::memcpy(rows[0], emulator::exchange(a[0] | uint64_t{a[1]} << 32), sizeof rows[0]);
  std::memcpy(rows[1], emulator::exchange(a[2] | uint64_t{a[3]} << 32), sizeof rows[1]);
  std::memcpy(rows[2], emulator::exchange(b0 | uint64_t{b1} << 32), sizeof rows[2]);
  const unsigned lane = threadIdx.x % 32;
  for (unsigned i = 0; i < 4; ++i)
    for (unsigned k = 0; k < kSteps; ++k) {
      const unsigned half = k / (kSteps / 2), byte = k % (kSteps / 2) * kBytes;
      const unsigned owner = byte / 4, row = i / 2, column = lane % 4 * 2 + i % 2;
      const auto* x = reinterpret_cast<const char*>(&rows[half][lane / 4 * 4 + owner]) + 4 * row;
      const auto* y = reinterpret_cast<const char*>(&rows[2][column * 4 + owner]) + 4 * half;
      d[i] += at(x + byte % 4) * at(y + byte % 4);
    }
}

inline void mma_half(float* d, const uint32_t (&a)[4], uint32_t b0, uint32_t b1) {
  multiply<16>(d, a, b0, b1, half_at);
}
inline void mma_bfloat16(float* d, const uint32_t (&a)[4], uint32_t b0, uint32_t b1) {
  multiply<16>(d, a, b0, b1, bfloat16_at);
}
inline void mma_tf32(float* d, const uint32_t (&a)[4], uint32_t b0, uint32_t b1) {
  multiply<8>(d, a, b0, b1, tf32_at);
}

inline void arrive_after_copies(uint64_t* barrier) { ::cuda::ptx::mbarrier_arrive(barrier); }

inline void named_barrier(int id, int threads) { emulator::barrier(id, threads); }
inline void named_barrier_arrive(int id, int threads) { emulator::barrier_arrive(id, threads); }

template <class T>
T load_shared(uint32_t address) {
  T x;
  std::memcpy(&x, dynamic_shared_memory + address, sizeof x);
  return x;
}
template <class T>
T load_shared_if(bool condition, uint32_t address) {
  return condition ? load_shared<T>(address) : T{};
}

template <class T>
void store_shared_if(bool condition, uint32_t address, T x) {
  if (condition) std::memcpy(dynamic_shared_memory + address, &x, sizeof x);
}
inline void store_shared_half_if(bool condition, uint32_t address, uint32_t x) {
  store_shared_if(condition, address, static_cast<uint16_t>(x));
}

inline void store_shared(uint32_t address, float2 x) {
  std::memcpy(dynamic_shared_memory + address, &x, sizeof x);
}

template <class T>
T load_if(bool condition, const T* p) {
  if (!condition) return T{};
  emulator::require_readable(p, sizeof *p);
  return *p;
}

/// Anything is what would show, were it looked at: not a number.
inline uint16_t load_or_any(bool condition, const uint16_t* p) {
  return condition ? load_if(condition, p) : UINT16_MAX;
}

template <class T>
const T* further(const T* from, int32_t bytes, int32_t times) {
  return reinterpret_cast<const T*>(reinterpret_cast<const char*>(from) + int64_t{bytes} * times);
}

inline void load_if(bool condition, const float* p, int64_t stride, float (&x)[8]) {
  for (int i = 0; i < 8; ++i)
    x[i] = load_if(condition,
                   reinterpret_cast<const float*>(reinterpret_cast<const char*>(p) + i * stride));
}

template <class T>
void load_four_if(uint32_t which, const T* p, int32_t stride, T* x) {
  for (int i = 0; i < 4; ++i) x[i] = load_if((which >> i & 1) != 0, p + i * stride);
}

template <class T>
T load_if_any(uint32_t bits, const T* p) {
  return load_if(bits != 0, p);
}

template <class Word>
void store_streaming(Word* to, const Word& word) {
  *to = word;
}

inline void store_transposed(void* row, uint32_t matrix0, uint32_t matrix1) {
  const uint64_t* rows = emulator::exchange(reinterpret_cast<uint64_t>(row));
  const unsigned lane = threadIdx.x % 32;
  const uint32_t pairs[] = {matrix0, matrix1};
  for (unsigned matrix = 0; matrix < 2; ++matrix)
    for (unsigned i = 0; i < 2; ++i)
      reinterpret_cast<uint16_t*>(rows[8 * matrix + lane % 4 * 2 + i])[lane / 4] =
          static_cast<uint16_t>(pairs[matrix] >> 16 * i);
}

inline void load_transposed(const void* row, uint32_t (&matrices)[2]) {
  const uint64_t* rows = emulator::exchange(reinterpret_cast<uint64_t>(row));
  const unsigned lane = threadIdx.x % 32;
  for (unsigned matrix = 0; matrix < 2; ++matrix) {
    matrices[matrix] = 0;
    for (unsigned i = 0; i < 2; ++i)
      matrices[matrix] |=
          uint32_t{reinterpret_cast<const uint16_t*>(rows[8 * matrix + lane % 4 * 2 + i])[lane / 4]}
          << 16 * i;
  }
}

inline uint32_t round_to_tf32(float x) { return emulator::round_to_tf32(__float_as_uint(x)); }

inline float max_or_nan(float x, float y) {
  return std::isnan(x) || std::isnan(y) ? NAN : std::max(x, y);
}

inline void prefetch(const void*, int64_t) {}
inline void prefetch_if(bool, const void*) {}

inline void let_next_start() {}
inline void wait_for_kernel_before() { emulator::wait_for_kernel_before(); }

inline void store_unit_if(bool condition, uint4* to, uint4 x) {
  if (condition) *to = x;
}
inline int32_t unknown(int32_t x) { return x; }
inline bool elect() { return threadIdx.x % 32 == 0; }
inline int thread_in_block(int first = 0) { return static_cast<int>(threadIdx.x) - first; }
template <class T>
T fresh(const T& x) {
  return x;
}
template <class Pointer, int kCount>
void all_known(Pointer (&)[kCount]) {}

inline uint32_t shared_address(const void* p) {
  return static_cast<uint32_t>(static_cast<const char*>(p) - dynamic_shared_memory);
}
inline void* at_shared_address(uint32_t address) { return dynamic_shared_memory + address; }

template <int kBytes>
void copy_async_if(bool exists, uint32_t to, const void* from) {
  __pipeline_memcpy_async(at_shared_address(to), from, kBytes, exists ? 0 : kBytes);
}

}  // namespace im2win::cuda::ptx
