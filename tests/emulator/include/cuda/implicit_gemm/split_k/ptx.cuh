// cuda/implicit_gemm/split_k/ptx.cuh, emulated.
#pragma once

#include <cstring>

#include "cuda/ptx.cuh"
#include "emulator.hpp"

namespace im2win::cuda::implicit_gemm::split_k {

inline uint16_t load_if(bool condition, const void* p) {
  uint16_t x = 0;
  if (!condition) return x;
  emulator::require_readable(p, sizeof x);
  std::memcpy(&x, p, sizeof x);
  return x;
}

inline void meet_with_writes() { emulator::meet_in_cluster(); }

template <int kCount>
void load_from_cluster_if(bool condition, const float* p, int block, float (&x)[kCount]) {
  if (!condition) return;
  std::memcpy(&x,
              emulator::shared_memory_of(block) +
                  (reinterpret_cast<const char*>(p) - dynamic_shared_memory),
              sizeof x);
}

}  // namespace im2win::cuda::implicit_gemm::split_k
