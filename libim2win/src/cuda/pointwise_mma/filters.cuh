// A part's filters in shared memory, as products take them: of each step and each sixteen filters, fragments, of which a
// lane reads its four words at once. Zeros where there are no filters or channels.
#pragma once

#include <cstdint>

#include "cuda/pointwise_mma/arguments.cuh"

namespace im2win::cuda::pointwise_mma {

constexpr int kLaneFragmentBytes = 16, kFragmentBytes = 32 * kLaneFragmentBytes;

/// Where a lane's part of a fragment is, so that neighbouring fours' are in different banks.
__device__ __forceinline__ constexpr int lane_offset(int four, int lane_of_four) {
  return (four * 4 + (lane_of_four ^ four / 2)) * kLaneFragmentBytes;
}

/// Of a pass: what a lane reads of a step.
template <class T>
class FilterFragments {
 public:
  /// `filter`: the pass's first of the part's.
  __device__ __forceinline__ FilterFragments(const Arguments<typename T::Element>& a,
                                             int32_t filter)
      : address_(ptx::shared_address(dynamic_shared_memory) +
                 filter / kProductFilters * T::kFragments * kFragmentBytes +
                 lane_offset(lane_of_warp() / 4, lane_of_warp() % 4)),
        step_bytes_(a.tile.part_filters() / kProductFilters * T::kFragments * kFragmentBytes) {}

  __device__ __forceinline__ void advance() { address_ += step_bytes_; }

  __device__ __forceinline__ void read(int sixteen, uint32_t (&x)[T::kFragments][4]) const {
#pragma unroll
    for (int i = 0; i < T::kFragments; ++i) {
      const auto words = *static_cast<const uint4*>(
          ptx::at_shared_address(address_ + (sixteen * T::kFragments + i) * kFragmentBytes));
      x[i][0] = words.x, x[i][1] = words.y, x[i][2] = words.z, x[i][3] = words.w;
    }
  }

 private:
  uint32_t address_;
  int step_bytes_;
};

}  // namespace im2win::cuda::pointwise_mma
