// Split K: where tiles are fewer than multiprocessors, the blocks of a cluster share a tile's slabs out, and
// each adds up what all have for a part of its columns. Sums go from block to block in shared memory, without a
// workspace, and are added in the order of the blocks, so that the same bits come out every time.
#pragma once

#include <cuda/ptx>

#include <cstdint>

#include "cuda/fused/arguments.cuh"
#include "cuda/fused/block.cuh"
#include "cuda/fused/slabs.cuh"
#include "cuda/fused/sums.cuh"
#include "cuda/ptx.cuh"

namespace im2win::cuda::fused {

/// By those threads of a block that stage, when they have staged all.
template <class T>
__device__ __forceinline__ void leave_room_for_sums() {
  __syncwarp();
  ptx::named_barrier_arrive(kSumsBarrier, T::kShape.threads());
}

/// By a warpgroup that multiplies. Blocks of clusters have one tile: where its filters and slabs were is room
/// for sums when all have been multiplied (see shared.hpp). This is code that is gone through once, and takes
/// longer to come than to run: what can be is in loops.
template <class T>
class ClusterSums {
 public:
  __device__ __forceinline__ ClusterSums(const Tile& tile, Block<T> block, int warpgroup)
      : tile_(tile),
        warpgroup_(warpgroup),
        own_(block_of_cluster(tile)),
        first_(first_eight(own_)),
        eights_(first_eight(own_ + 1) - first_),
        outgoing_(block.outgoing(warpgroup)),
        incoming_(block.incoming()),
        doubt_(block.patch(warpgroup * 4 + static_cast<int>(threadIdx.x) % 128 / 32).doubt) {}

  /// From the block's own sums of all columns to all blocks' of its own columns, and zeros.
  __device__ __forceinline__ void add(Sums<T::kSums>& sums) const {
    ptx::named_barrier(kSumsBarrier, T::kShape.threads());  // all have staged and multiplied
    put(sums.sum);
    if (threadIdx.x == T::kFirstMultiplier) expect();
    ptx::named_barrier(kColumnsBarrier, kMultiplyingThreads);  // all sums are put
    ptx::meet_in_cluster();  // no other block reads slabs any more
    if (threadIdx.x % 128 == 0) send();
    wait(&barriers().sums, 0);
    __syncwarp();
    ptx::meet_in_cluster();  // what this block sends has come, or it could not end
    add_all();
    take(sums);
  }

 private:
  static constexpr bool kSplit = T::kOperands == Operands::kSplit;
  static constexpr int kEights = T::kShape.columns / 8;
  __device__ __forceinline__ int first_eight(int block) const {
    return fused::first_eight(tile_, block);
  }
  /// The thread's four sums of eight columns.
  __device__ __forceinline__ static float4& of_thread(char* eights, int eight) {
    return reinterpret_cast<float4*>(eights + eight * kEightBytes)[threadIdx.x % 128];
  }
  /// Of one of the thread's two filters, see with_bound.
  __device__ __forceinline__ static float& bound(char* bounds, int i) {
    return reinterpret_cast<float*>(
        bounds)[threadIdx.x % 128 / 32 * kPatchFilters + threadIdx.x % 32 / 4 + 8 * i];
  }
  /// From a block, of the warpgroup's: eights, and bounds after them.
  __device__ __forceinline__ char* from_block(int block) const {
    if (block == own_) return outgoing_ + first_ * kEightBytes;
    return incoming_ +
           (block * T::kShape.multiplying_warpgroups + warpgroup_) * letter_bytes(tile_);
  }
  __device__ __forceinline__ char* bounds_from(int block) const {
    if (block == own_) return outgoing_ + kEights * kEightBytes;
    return from_block(block) + eights_ * kEightBytes;
  }

  __device__ __forceinline__ void put(const float (&sums)[T::kSums]) const {
#pragma unroll
    for (int i = 0; i < kEights; ++i)
      of_thread(outgoing_, i) =
          make_float4(sums[4 * i], sums[4 * i + 1], sums[4 * i + 2], sums[4 * i + 3]);
    if constexpr (kSplit)
      for (int i = 0; i < 2; ++i)
        if (threadIdx.x % 4 == 0)
          bound(outgoing_ + kEights * kEightBytes, i) = doubt_[threadIdx.x % 32 / 4 + 8 * i];
    ::cuda::ptx::fence_proxy_async(::cuda::ptx::space_shared);
  }

  /// All that other blocks send to this one.
  __device__ __forceinline__ void expect() const {
    const int letters = (tile_.cluster_blocks() - 1) * T::kShape.multiplying_warpgroups;
    const int bytes = eights_ * kEightBytes + (kSplit ? kBoundBytes : 0);
    ::cuda::ptx::mbarrier_arrive_expect_tx(::cuda::ptx::sem_release, ::cuda::ptx::scope_cta,
                                           ::cuda::ptx::space_shared, &barriers().sums,
                                           static_cast<uint32_t>(letters * bytes));
  }

  /// By a thread.
  __device__ __forceinline__ void send() const {
    const int letter = own_ * T::kShape.multiplying_warpgroups + warpgroup_;
#pragma unroll 1
    for (int i = 1; i < tile_.cluster_blocks(); ++i) {
      const int block = (own_ + i) & (tile_.cluster_blocks() - 1);
      const uint32_t to =
          ptx::shared_address_in_cluster(incoming_ + letter * letter_bytes(tile_), block);
      const uint32_t barrier = ptx::shared_address_in_cluster(&barriers().sums, block);
      const int first = first_eight(block), bytes = (first_eight(block + 1) - first) * kEightBytes;
      ptx::send(outgoing_ + first * kEightBytes, bytes, to, barrier);
      if constexpr (kSplit)
        ptx::send(outgoing_ + kEights * kEightBytes, kBoundBytes, to + bytes, barrier);
    }
  }

  /// To where the block's own were.
  __device__ __forceinline__ void add_all() const {
#pragma unroll 1
    for (int i = 0; i < eights_; ++i) {
      float4 sum = of_thread(from_block(0), i);
#pragma unroll 1
      for (int block = 1; block < tile_.cluster_blocks(); ++block) {
        const float4 x = of_thread(from_block(block), i);
        sum = make_float4(sum.x + x.x, sum.y + x.y, sum.z + x.z, sum.w + x.w);
      }
      of_thread(outgoing_, first_ + i) = sum;
    }
  }

  __device__ __forceinline__ void take(Sums<T::kSums>& sums) const {
#pragma unroll
    for (int i = 0; i < kEights; ++i) {
      float4 x = {};
      if (i >= first_ && i < first_ + eights_) x = of_thread(outgoing_, i);
      sums.sum[4 * i] = x.x;
      sums.sum[4 * i + 1] = x.y;
      sums.sum[4 * i + 2] = x.z;
      sums.sum[4 * i + 3] = x.w;
    }
    for (int i = 0; kSplit && i < 2; ++i) {
      float bounds = -0.0f;
#pragma unroll 1
      for (int block = 0; block < tile_.cluster_blocks(); ++block) {
        const float x = bound(bounds_from(block), i);
        bounds = with_bound(bounds, fabsf(x), !(x <= 0));
      }
      sums.doubt[i] = doubt_of(bounds);
    }
  }

  const Tile& tile_;
  int warpgroup_, own_;
  int first_, eights_;  // of the block's own columns
  char *outgoing_, *incoming_;
  const float* doubt_;  // of the warp's filters, see Multiplier
};

}  // namespace im2win::cuda::fused
