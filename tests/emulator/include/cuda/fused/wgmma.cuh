// cuda/fused/wgmma.cuh, emulated: operands are found from descriptors as the hardware finds them.
#pragma once

#include <cmath>
#include <cstdint>

#include "cuda/fused/descriptor.cuh"
#include "cuda/fused/tile.hpp"
#include "cuda/ptx.cuh"
#include "emulator.hpp"

namespace im2win::cuda::fused {

template <Operands kOperands, int kColumns, bool kPixelRows = false>
struct Wgmma {
  static void multiply(float (&d)[kColumns / 2], const Descriptor& a, const Descriptor& b,
                       bool accumulate) {
    const unsigned thread = threadIdx.x % 128, lane = thread % 32;
    const unsigned filter = thread / 32 * 16 + lane / 4;
    float filters[2][kSteps];
    for (unsigned k = 0; k < kSteps; ++k)
      for (unsigned i = 0; i < 2; ++i) filters[i][k] = operand(a, filter + 8 * i, k, false);
    for (unsigned column = 0; column < kColumns / 4; ++column) {
      const unsigned n = column / 2 * 8 + lane % 4 * 2 + column % 2;
      for (unsigned i = 0; i < 2; ++i) {
        float& sum = d[column / 2 * 4 + 2 * i + column % 2];
        float products = 0;
        for (unsigned k = 0; k < kSteps; ++k)
          products += filters[i][k] * operand(b, n, k, kPixelRows);
        sum = (accumulate ? sum : 0) + products;
      }
    }
  }

 private:
  static constexpr unsigned kUnitElements = traits(kOperands).unit_elements;
  static constexpr unsigned kSteps = 2 * kUnitElements;

  /// The fields of the descriptor as the PTX ISA lays them out.
  static float operand(const Descriptor& descriptor, unsigned row, unsigned k, bool transposed) {
    const uint64_t bits = descriptor.bits();
    const auto field = [&](int at) { return static_cast<unsigned>(bits >> at & 0x3fff) * 16; };
    const unsigned unit = k / kUnitElements;
    if (transposed) {
      unsigned address =
          field(0) + row / 64 * field(16) + unit * field(32) + k % 8 * 128 + row % 64 * 2;
      address ^= (address >> 7 & 7) << 4;
      return bits >> 62 == 1 ? element(dynamic_shared_memory + address) : NAN;
    }
    unsigned address = field(0) + row / 8 * field(32);
    if (const unsigned swizzle = static_cast<unsigned>(bits >> 62); swizzle == 0) {
      address += row % 8 * kUnitBytes + unit * field(16);
    } else {
      const unsigned row_bytes = 256u >> swizzle;
      address += row % 8 * row_bytes + unit * kUnitBytes;
      address ^= (address >> 7 & (row_bytes / kUnitBytes - 1)) << 4;
    }
    return element(dynamic_shared_memory + address +
                   k % kUnitElements * kUnitBytes / kUnitElements);
  }

  static float element(const void* p) {
    if constexpr (kOperands == Operands::kTf32) {
      return ptx::tf32_at(p);
    } else if constexpr (kOperands == Operands::kBFloat16) {
      return ptx::bfloat16_at(p);
    } else {
      return ptx::half_at(p);
    }
  }
};

}  // namespace im2win::cuda::fused
