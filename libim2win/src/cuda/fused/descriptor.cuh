// Where an operand of a product is in shared memory: wgmma's matrix descriptor (PTX ISA, "Asynchronous
// warpgroup-level matrix instructions"): of core matrices, 8 rows by 16 bytes, without swizzle, or of rows
// of 32, 64 or 128 bytes, swizzled. Rows are along K; or, of 128 bytes, along the other dimension.
//
// It holds the start, the distance of a step's two units (leading dimension; of no meaning with a
// swizzle, where they are neighbours) and that of 8 rows from the next ones (stride), in units of 16
// bytes at bits 0, 16 and 32, and the swizzle at bit 62; where rows are not along K, the leading dimension is
// from 64 elements to the next ones. A start may be any multiple of 16 bytes, so the
// shift of a tap is an addition: swizzles exchange bits of absolute addresses.
#pragma once

#include <cstdint>

#include "cuda/fused/tile.hpp"
#include "cuda/ptx.cuh"

namespace im2win::cuda::fused {

/// Of rows of so many units.
__device__ __forceinline__ uint32_t swizzle_of(int row_units) {
  return row_units == 8 ? 1 : row_units == 4 ? 2 : row_units == 2 ? 3 : 0;
}

class Descriptor {
 public:
  /// `leading` and `stride` in units.
  __device__ __forceinline__ Descriptor(uint32_t address, uint32_t leading, uint32_t stride,
                                        uint32_t swizzle = 0)
      : low_(leading << 16 | (address & kOwn) / kUnitBytes), high_(swizzle << 30 | stride) {}

  /// Further on by a step's offset (see Step), or by units.
  __device__ __forceinline__ Descriptor operator+(uint32_t step) const {
    Descriptor sum = *this;
    sum.low_ += step;
    return sum;
  }

  /// A lane's, of all lanes of its warp, which the compiler now knows: it keeps the sum in a uniform register,
  /// where products find it, and a step further on takes one instruction.
  __device__ __forceinline__ Descriptor uniform(int lane = 0) const {
    Descriptor same = *this;
    same.low_ = __shfl_sync(~0u, low_, lane);
    return same;
  }

  /// Computed here, not again wherever it is used.
  __device__ __forceinline__ Descriptor kept() const {
    Descriptor same = *this;
    same.low_ = static_cast<uint32_t>(ptx::fresh(static_cast<int32_t>(low_)));
    return same;
  }

  __device__ __forceinline__ uint64_t bits() const { return uint64_t{high_} << 32 | low_; }

  // Without a swizzle, for those who read operands themselves:

  /// The bytes between neighbouring core matrices along the rows.
  __device__ __forceinline__ uint32_t stride() const { return high_ * kUnitBytes; }

  /// Of 16 bytes of a row.
  __device__ __forceinline__ uint32_t row_address(int row, int unit) const {
    return (low_ & 0x3fff) * kUnitBytes + row / 8 * stride() + row % 8 * kUnitBytes +
           unit * (low_ >> 16 & 0x3fff) * kUnitBytes;
  }

 private:
  /// An address in shared memory without the number of the block in its cluster.
  static constexpr uint32_t kOwn = 0x3ffff;

  uint32_t low_, high_;  // what is added stays in the low half
};

}  // namespace im2win::cuda::fused
