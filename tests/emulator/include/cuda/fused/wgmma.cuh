// cuda/fused/wgmma.cuh, emulated: operands are found from descriptors as the hardware finds them.
#pragma once

#include <cmath>
#include <cstddef>
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

/// A thread's sums: products of its two rows by the rows of b, four of each eight.
template <Operands kOperands, int kColumns, size_t kSteps>
void multiply_rows(float (&d)[kColumns / 2], const float (&rows)[2][kSteps], const Descriptor& b,
                   bool transposed, bool accumulate) {
  for (unsigned column = 0; column < kColumns / 4; ++column) {
    const unsigned n = column / 2 * 8 + threadIdx.x % 4 * 2 + column % 2;
    for (unsigned i = 0; i < 2; ++i) {
      float& sum = d[column / 2 * 4 + 2 * i + column % 2];
      float products = 0;
      for (unsigned k = 0; k < kSteps; ++k)
        products += rows[i][k] * WgmmaOperand<kOperands>::at(b, n, k, transposed);
      sum = (accumulate ? sum : 0) + products;
    }
  }
}

template <Operands kOperands, int kColumns, bool kPixelRows = false>
struct Wgmma {
  static void multiply(float (&d)[kColumns / 2], const Descriptor& a, const Descriptor& b,
                       bool accumulate) {
    using Operand = WgmmaOperand<kOperands>;
    const unsigned thread = threadIdx.x % 128, lane = thread % 32;
    const unsigned filter = thread / 32 * 16 + lane / 4;
    float filters[2][Operand::kSteps];
    for (unsigned k = 0; k < Operand::kSteps; ++k)
      for (unsigned i = 0; i < 2; ++i) filters[i][k] = Operand::at(a, filter + 8 * i, k, false);
    multiply_rows<kOperands, kColumns>(d, filters, b, kPixelRows, accumulate);
  }
};

/// A thread has each fourth element of its two rows: it gets the others from the lanes beside it.
template <Operands kOperands, int kColumns>
struct WgmmaOfRegisters {
  static_assert(kOperands == Operands::kTf32);

  static void multiply(float (&d)[kColumns / 2], const float (&a)[4], const Descriptor& b,
                       bool accumulate) {
    const unsigned first = threadIdx.x % 32 / 4 * 4;
    float windows[2][WgmmaOperand<kOperands>::kSteps];
    for (unsigned i = 0; i < 4; ++i)
      for (unsigned other = 0; other < 4; ++other) {
        const float window = __shfl_sync(~0u, a[i], static_cast<int>(first + other));
        windows[i % 2][i / 2 * 4 + other] = ptx::tf32_at(&window);
      }
    multiply_rows<kOperands, kColumns>(d, windows, b, false, accumulate);
  }
};

}  // namespace im2win::cuda::fused
