// cuda/depthwise/ptx.cuh, emulated. Addresses in shared memory are offsets.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include "cuda/ptx.cuh"
#include "emulator.hpp"

using std::isfinite;

/// Of the thread's warp alone: it decides what the warp's lanes do, no more.
inline bool __syncthreads_or(int value) {
  __syncthreads();
  return __any_sync(~0u, value != 0);
}

namespace im2win::cuda {

using ptx::load_if;

inline void follow(bool = true) { emulator::wait_for_kernel_before(); }

inline float clamp(float x, float low, float high) { return x < low ? low : x > high ? high : x; }

template <class Pair>
Pair add_times_zero(Pair x, Pair sum) {
  return {float(x.x) * 0 + float(sum.x), float(x.y) * 0 + float(sum.y)};
}

inline uint32_t shared_address(const void* p) {
  return static_cast<uint32_t>(static_cast<const char*>(p) - dynamic_shared_memory);
}

inline uint32_t load_shared(uint32_t address) {
  uint32_t word;
  std::memcpy(&word, dynamic_shared_memory + address, sizeof word);
  return word;
}

inline uint32_t load_shared_half(uint32_t address) {
  uint16_t half;
  std::memcpy(&half, dynamic_shared_memory + address, sizeof half);
  return half;
}

inline uint4 load_shared_word(uint32_t address) {
  uint4 word;
  std::memcpy(&word, dynamic_shared_memory + address, sizeof word);
  return word;
}

inline void store_shared(uint32_t address, uint32_t word) {
  std::memcpy(dynamic_shared_memory + address, &word, sizeof word);
}

inline void store_shared_half(uint32_t address, uint32_t word) {
  std::memcpy(dynamic_shared_memory + address, &word, 2);
}

template <int kBytes>
void copy_async(uint32_t to, const void* from) {
  emulator::require_readable(from, kBytes);
  std::memcpy(dynamic_shared_memory + to, from, kBytes);
}

inline void load_fragments(uint32_t address, uint32_t (&fragments)[4], unsigned matrices = 4) {
  const unsigned lane = threadIdx.x % 32;
  const uint64_t* const rows = emulator::exchange(address);
  for (unsigned i = 0; i < matrices; ++i)
    fragments[i] = load_shared(static_cast<uint32_t>(rows[8 * i + lane / 4]) + 4 * (lane % 4));
}

inline void load_two_fragments(uint32_t address, uint32_t (&fragments)[4]) {
  load_fragments(address, fragments, 2);
}

/// What all lanes have of a matrix of 8 rows of pairs: element `column` of a row.
template <class Element>
class Matrix {
 public:
  explicit Matrix(uint32_t fragment) { std::copy_n(emulator::exchange(fragment), 32, fragments_); }
  float at(unsigned row, unsigned column) const {
    const auto bits = static_cast<uint16_t>(fragments_[4 * row + column / 2] >> column % 2 * 16);
    return float(bits_as<Element>(bits));
  }

 private:
  uint64_t fragments_[32];
};

template <class Element>
void multiply_8(float (&sums)[4], const uint32_t (&a)[4], uint32_t b0) {
  const unsigned lane = threadIdx.x % 32;
  const Matrix<Element> first[2] = {Matrix<Element>(a[0]), Matrix<Element>(a[1])};
  const Matrix<Element> second(b0);
  for (unsigned i = 0; i < 4; ++i)
    for (unsigned k = 0; k < 8; ++k)
      sums[i] += first[i / 2].at(lane / 4, k) * second.at(2 * (lane % 4) + i % 2, k);
}

template <class Element>
void multiply_16(float (&sums)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1) {
  multiply_8<Element>(sums, a, b0);
  multiply_8<Element>(sums, {a[2], a[3]}, b1);
}

}  // namespace im2win::cuda
