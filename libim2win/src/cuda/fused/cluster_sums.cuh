// Split K: where tiles are fewer than multiprocessors, the blocks of a cluster share a tile's slabs out, and
// each adds up what all have for a part of its columns. Sums go from block to block in shared memory, without a
// workspace, and are added in the order of the blocks, so that the same bits come out every time.
#pragma once

#include <cuda/ptx>

#include <cstdint>

#include "cuda/cluster.cuh"
#include "cuda/fused/arguments.cuh"
#include "cuda/fused/block.cuh"
#include "cuda/fused/slabs.cuh"
#include "cuda/fused/sums.cuh"
#include "cuda/fused/writer.cuh"
#include "cuda/ptx.cuh"

namespace im2win::cuda::fused {

/// By those threads of a block that stage, when they have staged all.
template <class T>
__device__ __forceinline__ void leave_room_for_sums() {
  __syncwarp();
  ptx::named_barrier_arrive(kSumsBarrier, T::kShape.threads());
}

/// A kernel of as many columns as are added up and written at a time: code that is gone through once takes longer to come
/// than to run, and a block has few. Where rows of outputs are likely to be written, which are better long, it is a patch.
constexpr KernelShape cluster_part(Operands operands, KernelShape shape) {
  const bool has_few = are_elements(operands) && !shape.pixel_rows;
  shape.columns = shape.least_columns = has_few ? kPatchColumns / 2 : kPatchColumns;
  return shape;
}
template <class T>
using ClusterPart = Kernel<typename T::Element, T::kOperands, T::kInstructions,
                           cluster_part(T::kOperands, T::kShape)>;

/// By a warpgroup that multiplies. Blocks of clusters have one tile: where its filters and slabs were is room
/// for sums when all have been multiplied (see shared.hpp).
template <class T>
class ClusterSums {
 public:
  using Element = typename T::Element;

  __device__ __forceinline__ ClusterSums(const Arguments<Element>& a, Block<T> block, int warpgroup)
      : a_(a),
        block_(block),
        warpgroup_(warpgroup),
        own_(block_of_cluster(a.tile)),
        first_(first_eight(own_)),
        eights_(first_eight(own_ + 1) - first_),
        outgoing_(block.outgoing(warpgroup)),
        incoming_(block.incoming()) {}

  /// From the block's sums of all columns to the outputs of its own ones.
  __device__ __forceinline__ void write(const Sums<T::kSums>& sums) const {
    if (threadIdx.x == T::kFirstMultiplier) expect();
    ptx::named_barrier(kSumsBarrier, T::kShape.threads());  // all have staged and multiplied
    put(sums.sum);
    ptx::named_barrier(kColumnsBarrier, kMultiplyingThreads);  // all sums are put
    ptx::arrive_in_cluster();
    ptx::wait_in_cluster();  // no other block reads slabs any more
    send();
    Writer<Part> writer(a_, Block<Part>{block_.layout}, locate(a_, first_tile(a_.tile)));
    wait(&barriers().sums, 0);
    __syncwarp();
    ptx::arrive_in_cluster();
    write_own(writer);
    ptx::wait_in_cluster();  // what this block sends has come, or it could not end
  }

 private:
  using Part = ClusterPart<T>;
  static constexpr bool kSplit = T::kOperands == Operands::kSplit;
  static constexpr int kEights = T::kShape.columns / 8, kPartEights = Part::kShape.columns / 8;

  __device__ __forceinline__ int first_eight(int block) const {
    return fused::first_eight(a_.tile, block);
  }
  __device__ __forceinline__ int blocks() const { return a_.tile.cluster_blocks(); }

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
    return incoming_ +
           (block * T::kShape.multiplying_warpgroups + warpgroup_) * letter_bytes(a_.tile);
  }

  /// Where others send theirs, what the block keeps.
  __device__ __forceinline__ void put(const float (&sums)[T::kSums]) const {
    char* const kept = from_block(own_);
#pragma unroll
    for (int i = 0; i < kEights; ++i) {
      if (8 * i >= T::kShape.least_columns && 8 * i >= a_.tile.product_columns) continue;
      const bool keeps = i >= first_ && i < first_ + eights_;
      of_thread(keeps ? kept : outgoing_, keeps ? i - first_ : i) =
          make_float4(sums[4 * i], sums[4 * i + 1], sums[4 * i + 2], sums[4 * i + 3]);
    }
    if constexpr (kSplit) {
      const float* const doubt = block_.patch(warpgroup_ * 4 + threadIdx.x % 128 / 32).doubt;
      for (int i = 0; i < 2; ++i) {
        if (threadIdx.x % 4 != 0) continue;
        bound(outgoing_ + kEights * kEightBytes, i) = doubt[threadIdx.x % 32 / 4 + 8 * i];
        bound(kept + eights_ * kEightBytes, i) = doubt[threadIdx.x % 32 / 4 + 8 * i];
      }
    }
    ::cuda::ptx::fence_proxy_async(::cuda::ptx::space_shared);
  }

  /// All that other blocks send to this one.
  __device__ __forceinline__ void expect() const {
    const int letters = (blocks() - 1) * T::kShape.multiplying_warpgroups;
    const int bytes = eights_ * kEightBytes + (kSplit ? kBoundBytes : 0);
    ::cuda::ptx::mbarrier_arrive_expect_tx(::cuda::ptx::sem_release, ::cuda::ptx::scope_cta,
                                           ::cuda::ptx::space_shared, &barriers().sums,
                                           static_cast<uint32_t>(letters * bytes));
  }

  /// By a thread of each warp, which share the blocks out.
  __device__ __forceinline__ void send() const {
    if (!ptx::elect()) return;
    const int letter = own_ * T::kShape.multiplying_warpgroups + warpgroup_;
#pragma unroll 1
    for (int i = 1 + static_cast<int>(threadIdx.x) % 128 / 32; i < blocks(); i += 4) {
      const int block = (own_ + i) & (blocks() - 1);
      const uint32_t to =
          ptx::shared_address_in_cluster(incoming_ + letter * letter_bytes(a_.tile), block);
      const uint32_t barrier = ptx::shared_address_in_cluster(&barriers().sums, block);
      const int first = first_eight(block), bytes = (first_eight(block + 1) - first) * kEightBytes;
      ptx::send(outgoing_ + first * kEightBytes, bytes, to, barrier);
      if constexpr (kSplit)
        ptx::send(outgoing_ + kEights * kEightBytes, kBoundBytes, to + bytes, barrier);
    }
  }

  __device__ __forceinline__ void write_own(Writer<Part>& writer) const {
    Sums<Part::kSums> part;
    add_bounds(part.doubt);
#pragma unroll 1
    for (int eight = 0; eight < eights_; eight += kPartEights) {
      add(eight, part.sum);
      const int first = 8 * (first_ + eight), count = 8 * min(eights_ - eight, kPartEights);
      writer.enter(first, min(count, a_.tile.warpgroup_columns - first));
      writer.write(part);
    }
  }

  /// What all blocks have of the own eights from one on; beyond the last, of that once more: a branch would have loads
  /// wait for one another.
  __device__ __forceinline__ void add(int first, float (&sums)[Part::kSums]) const {
#pragma unroll
    for (float& sum : sums) sum = -0.0f;
#pragma unroll 1
    for (int block = 0; block < blocks(); ++block) {
      char* const from = from_block(block);
      float4 x[kPartEights];
#pragma unroll
      for (int i = 0; i < kPartEights; ++i) x[i] = of_thread(from, min(first + i, eights_ - 1));
#pragma unroll
      for (int i = 0; i < kPartEights; ++i) {
        sums[4 * i] += x[i].x;
        sums[4 * i + 1] += x[i].y;
        sums[4 * i + 2] += x[i].z;
        sums[4 * i + 3] += x[i].w;
      }
    }
  }

  __device__ __forceinline__ void add_bounds(float (&doubt)[2]) const {
    for (int i = 0; i < 2; ++i) {
      float bounds = -0.0f;
#pragma unroll 1
      for (int block = 0; kSplit && block < blocks(); ++block) {
        const float x = bound(from_block(block) + eights_ * kEightBytes, i);
        bounds = with_bound(bounds, fabsf(x), !(x <= 0));
      }
      doubt[i] = doubt_of(bounds);
    }
  }

  const Arguments<Element>& a_;
  Block<T> block_;
  int warpgroup_, own_;
  int first_, eights_;  // of the block's own columns
  char *outgoing_, *incoming_;
};

}  // namespace im2win::cuda::fused
