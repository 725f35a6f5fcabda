// cuda/fused/wgmma.cuh, emulated: operands are found from descriptors as the hardware finds them.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <cstdint>

#include "cuda/fused/tile.hpp"
#include "emulator.hpp"

namespace im2win::cuda::fused {

inline uint64_t descriptor(uint32_t address, uint32_t leading, uint32_t stride) {
  return uint64_t{stride} << 32 | (leading << 16 | address / kUnitBytes);
}

template <Operands kOperands, int kColumns>
struct Wgmma {
  static void multiply(float (&d)[kColumns / 2], uint64_t a, uint64_t b, bool accumulate) {
    const unsigned thread = threadIdx.x % 128, lane = thread % 32;
    const unsigned filter = thread / 32 * 16 + lane / 4;
    float filters[2][kSteps];
    for (unsigned k = 0; k < kSteps; ++k)
      for (unsigned i = 0; i < 2; ++i) filters[i][k] = operand(a, filter + 8 * i, k);
    for (unsigned column = 0; column < kColumns / 4; ++column) {
      const unsigned n = column / 2 * 8 + lane % 4 * 2 + column % 2;
      for (unsigned i = 0; i < 2; ++i) {
        float& sum = d[column / 2 * 4 + 2 * i + column % 2];
        float products = 0;
        for (unsigned k = 0; k < kSteps; ++k) products += filters[i][k] * operand(b, n, k);
        sum = (accumulate ? sum : 0) + products;
      }
    }
  }

 private:
  static constexpr unsigned kUnitElements = traits(kOperands).unit_elements;
  static constexpr unsigned kSteps = 2 * kUnitElements;

  static float operand(uint64_t descriptor, unsigned row, unsigned k) {
    const auto field = [&](int bit) { return (descriptor >> bit & 0x3fff) * kUnitBytes; };
    const char* core =
        dynamic_shared_memory + field(0) + row / 8 * field(32) + k / kUnitElements * field(16);
    return element(core + row % 8 * kUnitBytes + k % kUnitElements * kUnitBytes / kUnitElements);
  }

  static float element(const void* p) {
    if constexpr (kOperands == Operands::kTf32) {
      return __uint_as_float(*static_cast<const uint32_t*>(p) & ~0x1fffu);
    } else if constexpr (kOperands == Operands::kBFloat16) {
      return __bfloat162float(*static_cast<const __nv_bfloat16*>(p));
    } else {
      return __half2float(*static_cast<const __half*>(p));
    }
  }
};

}  // namespace im2win::cuda::fused
