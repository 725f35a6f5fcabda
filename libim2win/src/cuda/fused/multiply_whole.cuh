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
      : a_(a),
        rings_(a, block, warpgroup),
        full_steps_(ptx::fresh(a.tile.steps[0].count)),
        other_steps_(ptx::fresh(a.tile.steps[1].count)),
        copies_(ptx::fresh(!kRoundsCopies<T> && a.copied_bytes > 0 ? 1 : 0)) {}

  /// `more`: whether the block has another tile after this one.
  __device__ __forceinline__ void multiply(const TilePosition&, bool more, SumsOfSets<T>& sums) {
    rings_.enter_tile(more);
    multiply_columns<T::kShape.columns>(sums);
    rings_.leave_tile();
  }

 private:
  static constexpr OperandTraits kTraits = OperandRings<T>::kTraits;

  /// Batches under way, but for the last, when the next is issued. A warpgroup that takes turns keeps the tensor cores
  /// busy alone: with one they have nothing to do for a tenth of the time.
  static constexpr int kUnderWay = T::kShape.takes_turns ? 3 : 1;
  /// Those who take turns have filters that stay.
  static constexpr bool kMayPair = kHasBoxes<T> && !T::kShape.takes_turns && T::kSets == 1;

  struct Pending {
    StagesInUse used;
    int until_done = 0;       // how many batches later what it names has been used
    bool accumulate = false;  // whether the sums hold anything
  };

  /// So many columns, or fewer.
  template <int kColumns>
  __device__ __forceinline__ void multiply_columns(SumsOfSets<T>& sums) {
    if constexpr (kColumns > T::kShape.least_columns) {
      if (a_.tile.product_columns < kColumns) return multiply_columns<kColumns - 8>(sums);
    }
    Pending pending;
    // One sum an output all the way. Batches are under way while the next is issued; what a batch has read is handed
    // back when so many after it have been issued.
    if (kMayPair && a_.pairs) {
      multiply_short_slabs<kColumns, kMayPair>(sums, pending);
    } else if (full_steps_ == kTraits.batch && other_steps_ == 0 &&
               (T::kShape.pixel_rows || !copies_)) {
      multiply_short_slabs<kColumns, false>(sums, pending);
    } else {
      multiply_slabs<kColumns>(sums, pending);
    }
#pragma unroll
    for (Sums<T::kSums>& set : sums) {
      Order<T>::end(set.sum);
      set.doubt[0] = set.doubt[1] = 0;
    }
    rings_.hand_back(pending.used);
  }

  template <int kColumns>
  __device__ __forceinline__ void multiply_slabs(SumsOfSets<T>& sums, Pending& pending) {
    const int end = ptx::fresh(end_slab(a_.tile));
    const int full = ptx::fresh(a_.tile.full_groups * a_.tile.chunks);
    for (int slab = first_slab(a_.tile); slab < end; ++slab) {
      const bool is_full = slab < full;
      SlabSteps steps = {
          rings_.windows(), rings_.offset_in_tile(a_.tile.steps[is_full ? 0 : 1].step), {}};
      rings_.read_steps(steps.at, steps.step);
      barriers().slabs.wait_full(rings_.slab());
      see_copies();
      multiply_slab<kColumns>(steps, is_full ? full_steps_ : other_steps_, sums, pending);
      // That before one of fewer batches than may be under way.
      if (kUnderWay > 1 && pending.used.slab >= 0) {
        Order<T>::template wait<0>();
        rings_.hand_back(pending.used);
      }
      pending.used.slab = rings_.slab().stage;
      pending.until_done = kUnderWay;
      rings_.leave_slab();
    }
  }

  /// Slabs of a batch each, and of the same steps, such as those of windows of single pixels: they follow each
  /// other so closely that each instruction between their products counts. With pairs there are fewest.
  template <int kColumns, bool kPairs>
  __device__ __forceinline__ void multiply_short_slabs(SumsOfSets<T>& sums, Pending& pending) {
    uint32_t step[kTraits.batch];
    rings_.read_steps(rings_.offset_in_tile(a_.tile.steps[0].step), step);
    int left = end_slab(a_.tile) - first_slab(a_.tile);
    if constexpr (kPairs) rings_.count_batches(left);
#pragma unroll 1
    for (; left > 0; --left) {
      const Descriptor windows = rings_.windows();
      const Descriptor filters = kPairs ? rings_.paired_filters() : rings_.filters();
      barriers().slabs.wait_full(rings_.slab());
      if (T::kShape.pixel_rows && !kPairs) see_copies();
      if constexpr (!kPairs) rings_.wait_filters();
      Order<T>::begin();
#pragma unroll
      for (int i = 0; i < kTraits.batch; ++i)
        multiply_step<kColumns>(filters + i * rings_.step(), windows + step[i],
                                i > 0 || pending.accumulate, sums);
      Order<T>::commit();
      const StagesInUse used = {kPairs ? -1 : rings_.filter().stage, rings_.slab().stage};
      if constexpr (!kPairs) rings_.leave_filters();
      rings_.leave_slab();
      Order<T>::template wait<1>();
      rings_.hand_back(pending.used);
      pending = {used, 0, true};
    }
  }

  /// Those of the threads that stage are no writes of the async proxy, by which wgmma reads.
  __device__ __forceinline__ void see_copies() const {
    if (T::kInstructions == Instructions::kWgmma && copies_)
      ::cuda::ptx::fence_proxy_async(::cuda::ptx::space_shared);
  }

  /// Of all sets.
  template <int kColumns>
  __device__ __forceinline__ void multiply_step(const Descriptor& filters,
                                                const Descriptor& windows, bool accumulate,
                                                SumsOfSets<T>& sums) const {
#pragma unroll
    for (int set = 0; set < T::kSets; ++set)
      Product<T, kColumns>::multiply(reinterpret_cast<float(&)[kColumns / 2]>(sums[set].sum),
                                     filters + rings_.set(set), windows, accumulate);
  }

  /// The next steps of a slab.
  struct SlabSteps {
    Descriptor windows;
    int at;  // of the steps after `step`: see OperandRings::offset_in_tile
    uint32_t step[kTraits.batch];
  };

  /// Whole batches in a loop of their own, which is short: while the other warpgroup writes, this one alone
  /// has to keep the tensor cores busy, and to go through the loop faster than they through a batch.
  template <int kColumns>
  __device__ __forceinline__ void multiply_slab(SlabSteps& slab, int left, SumsOfSets<T>& sums,
                                                Pending& pending) {
    for (int whole = whole_batches(kTraits, left); whole > 0; --whole) {
      issue<kColumns, kTraits.batch>(slab, sums, pending);
      left -= kTraits.batch;
    }
    while (left > 0) {
      const int count = batch_of(kTraits, left);
      issue_fewer<kColumns, kTraits.batch - 1>(count, slab, sums, pending);
      left -= count;
    }
  }

  template <int kColumns, int kCount>
  __device__ __forceinline__ void issue(SlabSteps& slab, SumsOfSets<T>& sums, Pending& pending) {
    rings_.wait_filters();
    const Descriptor filters = rings_.filters();
    Order<T>::begin();
#pragma unroll
    for (int i = 0; i < kCount; ++i)
      multiply_step<kColumns>(filters + i * rings_.step(), slab.windows + slab.step[i],
                              i > 0 || pending.accumulate, sums);
    Order<T>::commit();
    slab.at += kCount * static_cast<int>(sizeof(Step));
    rings_.read_steps(slab.at, slab.step);
    const int used = rings_.filter().stage;
    rings_.leave_filters();
    Order<T>::template wait<kUnderWay>();
    if (kUnderWay == 1 || --pending.until_done == 0) rings_.hand_back(pending.used);
    pending.used.filters = used;
    pending.accumulate = true;
  }

  /// A batch of kMost steps or fewer.
  template <int kColumns, int kMost>
  __device__ __forceinline__ void issue_fewer(int count, SlabSteps& slab, SumsOfSets<T>& sums,
                                              Pending& pending) {
    if constexpr (kMost > 1) {
      if (count < kMost) return issue_fewer<kColumns, kMost - 1>(count, slab, sums, pending);
    }
    issue<kColumns, kMost>(slab, sums, pending);
  }

  const Arguments<typename T::Element>& a_;
  OperandRings<T> rings_;
  int32_t full_steps_, other_steps_;  // of the two kinds of slabs
  int32_t copies_;
};

}  // namespace im2win::cuda::fused
