// Where an operand of a product is in shared memory: wgmma's matrix descriptor of core matrices, 8
// rows by 16 bytes, without swizzle (PTX ISA, "Asynchronous warpgroup-level matrix instructions").
//
// It holds the start, the distance of a step's two units (leading dimension) and that of
// neighbouring core matrices along the rows (stride), in units of 16 bytes at bits 0, 16 and 32. A
// start may be any multiple of 16 bytes, so the shift of a tap is an addition.
#pragma once

#include <cstdint>

#include "cuda/fused/tile.hpp"

namespace im2win::cuda::fused {

/// `leading` and `stride` in units.
__device__ __forceinline__ uint64_t descriptor(uint32_t address, uint32_t leading,
                                               uint32_t stride) {
  return uint64_t{stride} << 32 | (leading << 16 | address / kUnitBytes);
}

__device__ __forceinline__ uint32_t descriptor_field(uint64_t descriptor, int bit) {
  return static_cast<uint32_t>(descriptor >> bit & 0x3fff) * kUnitBytes;
}

/// The bytes between neighbouring core matrices along the rows.
__device__ __forceinline__ uint32_t stride(uint64_t descriptor) {
  return descriptor_field(descriptor, 32);
}

/// Of 16 bytes of a row.
__device__ __forceinline__ uint32_t row_address(uint64_t descriptor, int row, int unit) {
  return descriptor_field(descriptor, 0) + row / 8 * stride(descriptor) + row % 8 * kUnitBytes +
         unit * descriptor_field(descriptor, 16);
}

}  // namespace im2win::cuda::fused
