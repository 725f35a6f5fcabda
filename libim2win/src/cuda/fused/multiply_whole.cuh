// Products of operands that are whole elements: from shared memory to the sums of a tile.
#pragma once

#include <cstdint>

#include "cuda/fused/arguments.cuh"
#include "cuda/fused/operand_rings.cuh"
#include "cuda/fused/products.cuh"
#include "cuda/fused/slabs.cuh"
#include "cuda/fused/sums.cuh"

namespace im2win::cuda::fused {

/// Multiplies the slabs of tile after tile by their filters.
template <class T>
class WholeMultiplier {
 public:
  __device__ __forceinline__ WholeMultiplier(const Arguments<typename T::Element>& a,
                                             Block<T> block, int warpgroup)
      : a_(a), rings_(a, block, warpgroup) {}

  /// `more`: whether the block has another tile after this one.
  __device__ __forceinline__ void multiply(const TilePosition&, bool more, Sums<T::kSums>& sums) {
    rings_.enter_tile(more);
    multiply_tile(sums);
    rings_.leave_tile();
  }

 private:
  static constexpr OperandTraits kTraits = OperandRings<T>::kTraits;

  struct Pending {
    StagesInUse used;
    bool accumulate = false;  // whether the sums hold anything
  };

  /// One sum an output all the way. A batch is under way while the next is issued; what a batch has
  /// read is handed back when the one after has been issued.
  __device__ __forceinline__ void multiply_tile(Sums<T::kSums>& sums) {
    Pending pending;
    for (int slab = first_slab(a_.tile); slab < end_slab(a_.tile); ++slab) {
      barriers().slabs.wait_full(rings_.slab());
      // Copies are no writes of the async proxy, by which wgmma reads.
      if (T::kInstructions == Instructions::kWgmma && a_.copies)
        ::cuda::ptx::fence_proxy_async(::cuda::ptx::space_shared);
      multiply_slab(rings_.steps_of(slab), sums.sum, pending);
      pending.used.slab = rings_.slab().stage;
      rings_.leave_slab();
    }
    Order<T>::end(sums.sum);
    rings_.hand_back(pending.used);
    sums.doubt[0] = sums.doubt[1] = 0;
  }

  /// The next steps of a slab.
  struct SlabSteps {
    Descriptor windows;
    int at;  // of the steps after `step`: see OperandRings::offset_in_tile
    uint32_t step[kTraits.batch];
  };

  /// Whole batches in a loop of their own, which is short: while the other warpgroup writes, this one alone
  /// has to keep the tensor cores busy, and to go through the loop faster than they through a batch.
  __device__ __forceinline__ void multiply_slab(const Steps& steps, float (&sums)[T::kSums],
                                                Pending& pending) {
    SlabSteps slab = {rings_.windows(), rings_.offset_in_tile(steps.step), {}};
    rings_.read_steps(slab.at, slab.step);
    int left = steps.count;
    for (int whole = whole_batches(kTraits, left); whole > 0; --whole) {
      issue<kTraits.batch>(slab, sums, pending);
      left -= kTraits.batch;
    }
    while (left > 0) {
      const int count = batch_of(kTraits, left);
      issue_fewer<kTraits.batch - 1>(count, slab, sums, pending);
      left -= count;
    }
  }

  template <int kCount>
  __device__ __forceinline__ void issue(SlabSteps& slab, float (&sums)[T::kSums],
                                        Pending& pending) {
    rings_.wait_filters();
    const Descriptor filters = rings_.filters();
    Order<T>::begin();
#pragma unroll
    for (int i = 0; i < kCount; ++i)
      Product<T>::multiply(sums, filters + i * rings_.step(), slab.windows + slab.step[i],
                           i > 0 || pending.accumulate);
    Order<T>::commit();
    slab.at += kCount * static_cast<int>(sizeof(Step));
    rings_.read_steps(slab.at, slab.step);
    const int used = rings_.filter().stage;
    rings_.leave_filters();
    Order<T>::template wait<1>();
    rings_.hand_back(pending.used);
    pending.used.filters = used;
    pending.accumulate = true;
  }

  /// A batch of kMost steps or fewer.
  template <int kMost>
  __device__ __forceinline__ void issue_fewer(int count, SlabSteps& slab, float (&sums)[T::kSums],
                                              Pending& pending) {
    if constexpr (kMost > 1) {
      if (count < kMost) return issue_fewer<kMost - 1>(count, slab, sums, pending);
    }
    issue<kMost>(slab, sums, pending);
  }

  const Arguments<typename T::Element>& a_;
  OperandRings<T> rings_;
};

}  // namespace im2win::cuda::fused
