// cuda/fused/wgmma.cuh, emulated: operands are found from descriptors as the hardware finds them.
#pragma once

#include <cmath>
#include <cstdint>

#include "cuda/fused/descriptor.cuh"
#include "cuda/fused/tile.hpp"
#include "cuda/ptx.cuh"
#include "emulator.hpp"

namespace im2win::cuda::fused {

/// The fields of a descriptor as the PTX ISA lays them out.
template <Operands kOperands>
struct WgmmaOperand {
  static constexpr unsigned kUnitElements = traits(kOperands).unit_elements;
  static constexpr unsigned kSteps = 2 * kUnitElements;

  static float at(const Descriptor& descriptor, unsigned row, unsigned k, bool transposed) {
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

 private:
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

template <Operands kOperands, int kColumns, bool kPixelRows = false>
struct Wgmma {
  static void multiply(float (&d)[kColumns / 2], const Descriptor& a, const Descriptor& b,
                       bool accumulate) {
    const unsigned thread = threadIdx.x % 128, lane = thread % 32;
    const unsigned filter = thread / 32 * 16 + lane / 4;
    constexpr unsigned kSteps = WgmmaOperand<kOperands>::kSteps;
    float filters[2][kSteps];
    for (unsigned k = 0; k < kSteps; ++k)
      for (unsigned i = 0; i < 2; ++i)
        filters[i][k] = WgmmaOperand<kOperands>::at(a, filter + 8 * i, k, false);
    for (unsigned column = 0; column < kColumns / 4; ++column) {
      const unsigned n = column / 2 * 8 + lane % 4 * 2 + column % 2;
      for (unsigned i = 0; i < 2; ++i) {
        float& sum = d[column / 2 * 4 + 2 * i + column % 2];
        float products = 0;
        for (unsigned k = 0; k < kSteps; ++k)
          products += filters[i][k] * WgmmaOperand<kOperands>::at(b, n, k, kPixelRows);
        sum = (accumulate ? sum : 0) + products;
      }
    }
  }
};

/// A thread has each fourth element of its two rows: it gets the others from the lanes beside it.
template <Operands kOperands, int kColumns>
struct WgmmaOfRegisters {
  static void multiply(float (&d)[kColumns / 2], const float (&a)[4], const Descriptor& b,
                       bool accumulate) {
    const unsigned lane = threadIdx.x % 32;
    float windows[2][kSteps];
    for (unsigned i = 0; i < 4; ++i)
      for (unsigned other = 0; other < 4; ++other)
        windows[i % 2][i / 2 * 4 + other] =
            tf32(__shfl_sync(~0u, a[i], static_cast<int>(lane / 4 * 4 + other)));
    for (unsigned column = 0; column < kColumns / 4; ++column) {
      const unsigned n = column / 2 * 8 + lane % 4 * 2 + column % 2;
      for (unsigned i = 0; i < 2; ++i) {
        float& sum = d[column / 2 * 4 + 2 * i + column % 2];
        float products = 0;
        for (unsigned k = 0; k < kSteps; ++k)
          products += windows[i][k] * Operand::at(b, n, k, false);
        sum = (accumulate ? sum : 0) + products;
      }
    }
  }

 private:
  using Operand = WgmmaOperand<kOperands>;
  static constexpr unsigned kSteps = Operand::kSteps;
  static float tf32(float x) { return ptx::tf32_at(&x); }
  static_assert(kSteps == 8);
};

}  // namespace im2win::cuda::fused
