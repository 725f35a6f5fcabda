// cuda/ptx.cuh, emulated.
#pragma once

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

inline void named_barrier(int id, int threads) { emulator::barrier(id, threads); }
inline void named_barrier_arrive(int id, int threads) { emulator::barrier_arrive(id, threads); }

template <class T>
T load_if(bool condition, const T* p) {
  return condition ? *p : T{};
}

inline void load_if(bool condition, const float* p, int64_t stride, float (&x)[8]) {
  for (int i = 0; i < 8; ++i)
    x[i] = condition
               ? *reinterpret_cast<const float*>(reinterpret_cast<const char*>(p) + i * stride)
               : 0;
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

inline uint32_t round_to_tf32(float x) {
  const uint32_t bits = __float_as_uint(x);
  return std::isfinite(x) ? (bits + 0x1000u) & ~0x1fffu : bits;
}

inline float max_or_nan(float x, float y) {
  return std::isnan(x) || std::isnan(y) ? NAN : std::max(x, y);
}

inline int thread_in_block() { return static_cast<int>(threadIdx.x); }
inline int32_t fresh(int32_t x) { return x; }

inline uint32_t shared_address(const void* p) {
  return static_cast<uint32_t>(static_cast<const char*>(p) - dynamic_shared_memory);
}

}  // namespace im2win::cuda::ptx
