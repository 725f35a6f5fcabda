// The products of im2win_fused from compute capability 8.0 on: mma.sync, its operands brought from
// shared memory by ldmatrix. The interface and the layout of sums are those of wgmma: a warp has 16
// filters, and the rows of core matrices are rows of ldmatrix's 8 x 16 bytes, without bank conflicts.
#pragma once

#include <cstdint>

#include "cuda/fused/descriptor.cuh"
#include "cuda/fused/tile.hpp"
#include "cuda/ptx.cuh"

namespace im2win::cuda::fused {

/// d = a * b, or with `accumulate` d += a * b: see Wgmma. The warp's filters are a's from its
/// number modulo 4, times 16, on.
template <Operands kOperands, int kColumns>
struct Mma {
  __device__ __forceinline__ static void multiply(float (&d)[kColumns / 2], const Descriptor& a,
                                                  const Descriptor& b, bool accumulate) {
    static_assert(kColumns % 16 == 0);
    const int thread = ptx::thread_in_block();
    const int lane = thread % 32, filter = thread % 128 / 32 * 16;
    if (!accumulate) {
#pragma unroll
      for (float& sum : d) sum = 0;
    }
    // Matrices, of eight lanes' rows each: filters 0 to 7 and 8 to 15, first of unit 0, then of 1;
    // columns 0 to 7 of units 0 and 1, then columns 8 to 15.
    uint32_t filters[4];
    ptx::load_matrices(a.row_address(filter + lane % 16, lane / 16), filters);
    const uint32_t column = b.row_address(lane % 8 + lane / 16 * 8, lane / 8 % 2);
    const uint32_t step = 2 * b.stride();
#pragma unroll
    for (int i = 0; i < kColumns / 16; ++i) {
      uint32_t windows[4];
      ptx::load_matrices(column + i * step, windows);
      multiply_eight(&d[8 * i], filters, windows[0], windows[1]);
      multiply_eight(&d[8 * i + 4], filters, windows[2], windows[3]);
    }
  }

 private:
  __device__ __forceinline__ static void multiply_eight(float* d, const uint32_t (&a)[4],
                                                        uint32_t b0, uint32_t b1) {
    if constexpr (kOperands == Operands::kTf32) {
      ptx::mma_tf32(d, a, b0, b1);
    } else if constexpr (kOperands == Operands::kBFloat16) {
      ptx::mma_bfloat16(d, a, b0, b1);
    } else {
      ptx::mma_half(d, a, b0, b1);
    }
  }
};

}  // namespace im2win::cuda::fused
