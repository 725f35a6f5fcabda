// Algorithm 3: from tiles in shared memory to sums in registers.
#pragma once

#include "cuda/im2win/block.cuh"

namespace im2win::cuda {

/// The operands of one tap that a thread multiplies.
template <class T>
struct Fragments {
  float filters[T::kMicroM];
  float windows[T::kMicroN];
};

/// The outputs of one thread, and where they are in the block's tile.
template <class T>
class MicroKernel {
 public:
  /// Lanes' bits alternate between the two directions: lanes i and i ^ 2 read the same filters, i
  /// and i ^ 1 the same windows, which lets a half warp's 16-byte loads go in one pass.
  __device__ __forceinline__ MicroKernel()
      : lane_m_((threadIdx.x & 1) | (threadIdx.x >> 1 & 2)),
        lane_n_((threadIdx.x >> 1 & 1) | (threadIdx.x >> 2 & 6)),
        warp_m_(threadIdx.x / 32 / T::kWarpsN * T::kWarpM),
        warp_n_(threadIdx.x / 32 % T::kWarpsN * T::kWarpN) {}

  __device__ __forceinline__ void load(Fragments<T>& fragments, const Tiles<T>& tiles,
                                       int tap) const {
    load_groups<T::kMicroM, T::kLanesM>(fragments.filters,
                                        &tiles.filters[tap][warp_m_ + lane_m_ * T::kVector]);
    load_groups<T::kMicroN, T::kLanesN>(fragments.windows,
                                        &tiles.windows[tap][warp_n_ + lane_n_ * T::kVector]);
  }

  __device__ __forceinline__ void multiply(const Fragments<T>& fragments) {
#pragma unroll
    for (int m = 0; m < T::kMicroM; ++m)
#pragma unroll
      for (int n = 0; n < T::kMicroN; ++n)
        sums_[m][n] = fmaf(fragments.filters[m], fragments.windows[n], sums_[m][n]);
  }

  /// Puts the group's kOutputRows rows of the warp's tile in shared memory, in the order that
  /// filter() undoes.
  __device__ __forceinline__ void gather(int group, float (*rows)[T::kOutputPitch]) const {
#pragma unroll
    for (int i = 0; i < T::kVector; ++i) {
      float* row = rows[i * T::kLanesM + lane_m_] + lane_n_ * T::kVector;
      const float(&sums)[T::kMicroN] = sums_[group * T::kVector + i];
#pragma unroll
      for (int n = 0; n < T::kMicroN; n += T::kVector) {
        float* to = row + n * T::kLanesN;
        if constexpr (T::kVector == 4) {
          *reinterpret_cast<float4*>(to) =
              make_float4(sums[n], sums[n + 1], sums[n + 2], sums[n + 3]);
        } else {
          *to = sums[n];
        }
      }
    }
  }

  /// The filter, counted from the block's first, in row `row` that gather(group) wrote.
  __device__ __forceinline__ int filter(int group, int row) const {
    return warp_m_ + group * T::kOutputRows + row % T::kLanesM * T::kVector + row / T::kLanesM;
  }

  __device__ __forceinline__ int warp_n() const { return warp_n_; }

 private:
  template <int kCount, int kLanes>
  __device__ __forceinline__ static void load_groups(float (&to)[kCount], const float* from) {
#pragma unroll
    for (int i = 0; i < kCount; i += T::kVector) {
      const float* group = from + i * kLanes;
      if constexpr (T::kVector == 4) {
        const float4 word = *reinterpret_cast<const float4*>(group);
        to[i] = word.x;
        to[i + 1] = word.y;
        to[i + 2] = word.z;
        to[i + 3] = word.w;
      } else {
        to[i] = *group;
      }
    }
  }

  int lane_m_, lane_n_;
  int warp_m_, warp_n_;
  float sums_[T::kMicroM][T::kMicroN] = {};
};

}  // namespace im2win::cuda
