// Products of operands that are split in two: from shared memory to the sums of a tile.
#pragma once

#include <cstdint>

#include "cuda/fused/arguments.cuh"
#include "cuda/fused/descriptor.cuh"
#include "cuda/fused/operand_rings.cuh"
#include "cuda/fused/operands.cuh"
#include "cuda/fused/products.cuh"
#include "cuda/fused/slabs.cuh"
#include "cuda/fused/sums.cuh"

namespace im2win::cuda::fused {

/// Multiplies the slabs of tile after tile by their filters.
template <class T>
class SplitMultiplier {
 public:
  __device__ __forceinline__ SplitMultiplier(const Arguments<typename T::Element>& a,
                                             Block<T> block, int warpgroup)
      : a_(a),
        block_(block),
        rings_(a, block, warpgroup),
        own_filter_(OperandRings<T>::first_filter(warpgroup) + threadIdx.x % 128 / 32 * 16 +
                    threadIdx.x % 32 / 4),
        low_(OperandRings<T>::units_of(block.layout.part)) {}

  /// `more`: whether the block has another tile after this one.
  __device__ __forceinline__ void multiply(const TilePosition& tile, bool more,
                                           SumsOfSets<T>& sums) {
    rings_.enter_tile(more);
    multiply_tile(tile, sums[0]);
    rings_.leave_tile();
  }

 private:
  static constexpr OperandTraits kTraits = OperandRings<T>::kTraits;

  /// A batch of steps whose operands are there; of no steps after a tile's last.
  struct Batch {
    Descriptor filters, windows;
    uint32_t step[kTraits.batch];
    int count;
  };

  /// Where it is in a tile.
  struct Walk {
    int step;            // the next: see OperandRings::offset_in_tile
    int steps;           // of the slab from that on
    const float* scale;  // of the slab's filters
    float factor[2];     // that takes the scales of the slab and of a filter out of a product
    int slab;
  };

  /// High products of each batch make one sum, low ones another, those of a slab where they have registers of
  /// their own: each goes to float32 sums with the scale of their slab and filter taken out again.
  __device__ __forceinline__ void multiply_tile(const TilePosition& tile, Sums<T::kSums>& sums) {
#pragma unroll
    for (int i = 0; i < T::kSums; ++i) sums.sum[i] = 0;
    Walk walk;
    walk.slab = first_slab(a_.tile);
    const int64_t number = int64_t{tile.group} * a_.filter_tiles.divisor + tile.filter_tile;
    walk.scale = reinterpret_cast<const float*>(a_.filters + a_.packed.scales) +
                 (number * a_.tile.slabs() + walk.slab) * T::kShape.filters + own_filter_;
    if (is_doubter()) doubt(0) = doubt(1) = -0.0f;
    enter_slab(walk);
    Batch batch = {rings_.filters(), rings_.windows(), {}, 0};
    next_batch(walk, batch);
    do {
      if constexpr (T::kHasLowSums) {
        multiply_slab(walk, batch, sums.sum);
      } else {
        multiply_batches<kTraits.batch>(walk, batch, sums.sum);
      }
    } while (batch.count > 0);
    __syncwarp();
#pragma unroll
    for (int i = 0; i < 2; ++i) sums.doubt[i] = doubt_of(doubt(i));
  }

  /// Of filter lane / 4 + 8 * i of the warp, in shared memory, as it is seldom of use: see with_bound.
  __device__ __forceinline__ float& doubt(int i) {
    return block_.patch(static_cast<int>(threadIdx.x) / 32 - T::kFirstMultiplier / 32)
        .doubt[threadIdx.x % 32 / 4 + 8 * i];
  }
  /// One lane of four that have the same filters.
  __device__ __forceinline__ static bool is_doubter() { return threadIdx.x % 4 == 0; }

  __device__ __forceinline__ void enter_slab(Walk& walk) {
    const float filter_scale[2] = {__ldg(walk.scale), __ldg(walk.scale + 8)};
    const Steps& steps = rings_.steps_of(walk.slab);
    walk.step = rings_.offset_in_tile(steps.step);
    walk.steps = steps.count;
    barriers().slabs.wait_full(rings_.slab());
    const SlabScale slab_scale = scale_of_slab();
#pragma unroll
    for (int i = 0; i < 2; ++i) walk.factor[i] = slab_scale.inverse * fabsf(filter_scale[i]);
    if (is_doubter()) {
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        float bound = walk.factor[i] * static_cast<float>(walk.steps * kBoundOfStep);
        if (slab_scale.fit == Fit::kExtreme) bound = __int_as_float(0x7fffffff);
        const bool doubtful = slab_scale.fit != Fit::kGood || !(filter_scale[i] > 0);
        doubt(i) = with_bound(doubt(i), bound, doubtful);
      }
    }
  }

  /// Read by those that tell when the slab has been used.
  __device__ __forceinline__ SlabScale scale_of_slab() const {
    SlabScale scale = {1, Fit::kGood};
    if (OperandRings<T>::is_teller()) scale = barriers().scales[rings_.slab().stage];
    if constexpr (T::kInstructions == Instructions::kWgmma) {
      scale.inverse = __shfl_sync(~0u, scale.inverse, 0);
      scale.fit = static_cast<Fit>(__shfl_sync(~0u, static_cast<int>(scale.fit), 0));
    }
    return scale;
  }

  /// To the next slab; false if there is none.
  __device__ __forceinline__ bool leave_slab(Walk& walk) {
    rings_.leave_slab();
    if (++walk.slab == end_slab(a_.tile)) return false;
    walk.scale += T::kShape.filters;
    enter_slab(walk);
    return true;
  }

  __device__ __forceinline__ void next_batch(Walk& walk, Batch& batch) {
    rings_.read_steps(walk.step, batch.step);
    batch.count = batch_of(kTraits, walk.steps);
    walk.step += batch.count * static_cast<int>(sizeof(Step));
    walk.steps -= batch.count;
    batch.filters = rings_.filters();
    batch.windows = rings_.windows();
    rings_.wait_filters();
  }

  /// Of a batch's operands.
  struct Places {
    Descriptor filters, windows, low_windows;
  };

  __device__ __forceinline__ Places places(const Batch& batch) const {
    const Descriptor windows = batch.windows.uniform();
    return {batch.filters.uniform(), windows, windows + low_};
  }

  template <int kCount>
  __device__ __forceinline__ static void multiply_high(const Places& of, const Batch& batch,
                                                       float (&part)[T::kSums]) {
#pragma unroll
    for (int i = 0; i < kCount; ++i)
      Product<T, T::kShape.columns>::multiply(part, of.filters + i * T::kFilterStep,
                                              of.windows + batch.step[i], i > 0);
    Order<T>::commit();
  }

  template <int kCount>
  __device__ __forceinline__ static void multiply_low(const Places& of, const Batch& batch,
                                                      bool accumulate, float (&part)[T::kSums]) {
#pragma unroll
    for (int i = 0; i < kCount; ++i) {
      const Descriptor filters = of.filters + i * T::kFilterStep;
      Product<T, T::kShape.columns>::multiply(part, filters, of.low_windows + batch.step[i],
                                              i > 0 || accumulate);
      Product<T, T::kShape.columns>::multiply(part, filters + T::kFilterPart,
                                              of.windows + batch.step[i], true);
    }
    Order<T>::commit();
  }

  // Batches of kMost steps, then those of fewer. Each kind in a loop of its own, whatever their number: where
  // kinds are branches of one, the compiler spills sums.

  template <int kMost, class... Low>
  __device__ __forceinline__ void multiply_batches(Walk& walk, Batch& batch,
                                                   float (&sums)[T::kSums], Low&... low) {
    while (batch.count == kMost) multiply_batch<kMost>(walk, batch, sums, low...);
    if constexpr (kMost > 1) multiply_batches<kMost - 1>(walk, batch, sums, low...);
  }

  /// Without registers for low products: these first, and then the high ones. Goes to the next batch, which is
  /// waited for while products are under way.
  template <int kCount>
  __device__ __forceinline__ void multiply_batch(Walk& walk, Batch& batch,
                                                 float (&sums)[T::kSums]) {
    const float factor[2] = {walk.factor[0], walk.factor[1]};
    const Places of = places(batch);
    float part[T::kSums];
    Order<T>::begin();
    multiply_low<kCount>(of, batch, false, part);
    Order<T>::end(part);
    add_product_sums(part, factor[0] / kLowScale, factor[1] / kLowScale, sums);
    Order<T>::begin();
    multiply_high<kCount>(of, batch, part);
    const int used_filters = rings_.filter().stage, used_slab = rings_.slab().stage;
    const bool slab_ends = walk.steps == 0;
    rings_.leave_filters();
    if (slab_ends && !leave_slab(walk)) {
      batch.count = 0;
    } else {
      next_batch(walk, batch);
    }
    Order<T>::end(part);
    rings_.release_filters(used_filters);
    if (slab_ends) rings_.release_slab(used_slab);
    add_product_sums(part, factor[0], factor[1], sums);
  }

  /// The low products of a slab, and what those under way read.
  struct LowProducts {
    float part[T::kSums];
    StagesInUse used;
    bool accumulate = false;  // whether `part` holds anything
  };

  /// With registers for low products: these are under way while the sums of high ones are added, and the next
  /// high ones right behind them. Goes to the next slab's first batch.
  __device__ __forceinline__ void multiply_slab(Walk& walk, Batch& batch, float (&sums)[T::kSums]) {
    LowProducts low;
    while (batch.count > 0) multiply_batches<kTraits.batch>(walk, batch, sums, low);
    const float factor[2] = {walk.factor[0] / kLowScale, walk.factor[1] / kLowScale};
    low.used.slab = rings_.slab().stage;
    if (leave_slab(walk)) next_batch(walk, batch);
    Order<T>::end(low.part);
    rings_.hand_back(low.used);
    add_product_sums(low.part, factor[0], factor[1], sums);
  }

  /// Goes to the slab's next batch, if it has one. What the last batch's low products have read is handed back
  /// when this one's high ones, which come after them, are done.
  template <int kCount>
  __device__ __forceinline__ void multiply_batch(Walk& walk, Batch& batch, float (&sums)[T::kSums],
                                                 LowProducts& low) {
    const Places of = places(batch);
    float high[T::kSums];
    Order<T>::begin();
    multiply_high<kCount>(of, batch, high);
    multiply_low<kCount>(of, batch, low.accumulate, low.part);
    const int used = rings_.filter().stage;
    rings_.leave_filters();
    Order<T>::template wait<1>(high);
    rings_.hand_back(low.used);
    low.used.filters = used;
    low.accumulate = true;
    if (walk.steps > 0) {
      next_batch(walk, batch);
    } else {
      batch.count = 0;
    }
    add_product_sums(high, walk.factor[0], walk.factor[1], sums);
  }

  const Arguments<typename T::Element>& a_;
  Block<T> block_;
  OperandRings<T> rings_;
  int own_filter_;  // in the block's tile, the first of two
  uint32_t low_;    // units from high to low windows
};

}  // namespace im2win::cuda::fused
