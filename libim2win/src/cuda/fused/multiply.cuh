// The multiplying warpgroups: from operands in shared memory to the sums of a tile.
#pragma once

#include <cstdint>
#include <type_traits>

#include "cuda/fused/arguments.cuh"
#include "cuda/fused/block.cuh"
#include "cuda/fused/descriptor.cuh"
#include "cuda/fused/mma.cuh"
#include "cuda/fused/order.cuh"
#include "cuda/fused/slabs.cuh"
#include "cuda/fused/wgmma.cuh"
#include "cuda/ptx.cuh"

namespace im2win::cuda::fused {

/// The sums of one thread, as wgmma lays them out (see Wgmma). A sum whose magnitude is below its
/// filter's doubt, or is NaN, must be formed again; doubt of NaN means every sum.
template <int kSums>
struct Sums {
  float sum[kSums];
  float doubt[2];  // of the thread's two filters
};

/// Minus the bound below which a sum is in doubt, until something gives reason for doubt: of some terms, and
/// of those and more, of which `bound` is.
__device__ __forceinline__ float with_bound(float before, float bound, bool doubtful) {
  return doubtful || !(before <= 0) ? fabsf(before) + bound : before - bound;
}

/// What it is when all terms are in.
__device__ __forceinline__ float doubt_of(float bounds) { return bounds <= 0 ? 0 : bounds; }

/// Multiplies the slabs of tile after tile by their filters, in the order of staging.
template <class T>
class Multiplier {
 public:
  __device__ __forceinline__ Multiplier(const Arguments<typename T::Element>& a, Block<T> block,
                                        int warpgroup)
      : a_(a),
        block_(block),
        filters_(filters_of(a.tile, ptx::shared_address(block.filter_stage(0)), warpgroup)),
        step_(filters_in_place(a.tile) ? 2 : kStep),
        windows_(windows_of(a.tile, ptx::shared_address(block.slab(0)), warpgroup)),
        own_filter_(first_filter(warpgroup) + threadIdx.x % 128 / 32 * 16 + threadIdx.x % 32 / 4),
        low_(units_of(block.layout.part)),
        until_start_(warpgroup == 0 ? a.tile.lead + 1 : 0) {
    if (kTurns && warpgroup > 0) pass_tile();
  }

  /// `more`: whether the block has another tile after this one.
  __device__ __forceinline__ void multiply(const TilePosition& tile, bool more,
                                           Sums<T::kSums>& sums) {
    if constexpr (kTurns) until_start_ = more ? a_.tile.filter_stages : 0;
    if constexpr (T::kOperands == Operands::kSplit) {
      multiply_split(tile, sums);
    } else {
      multiply_whole(sums);
    }
    filters_come_ = !a_.tile.resident;
    if constexpr (kTurns) pass_tile();
  }

 private:
  static constexpr OperandTraits kTraits = traits(T::kOperands);
  static constexpr int kPart = 2 * T::kShape.filters;  // units from high to low filters
  static constexpr int kStep = kTraits.parts * kPart;  // and from a step to the next
  static constexpr bool kTurns = T::kShape.takes_turns;

  static constexpr bool kWgmma = T::kInstructions == Instructions::kWgmma;
  using Product =
      std::conditional_t<kWgmma, Wgmma<T::kOperands, T::kShape.columns, T::kShape.pixel_rows>,
                         Mma<T::kOperands, T::kShape.columns>>;
  using Order = std::conditional_t<kWgmma, WgmmaOrder, MmaOrder>;

  __device__ __forceinline__ static int first_filter(int warpgroup) {
    return T::kShape.filters == 128 ? warpgroup * 64 : 0;
  }
  __device__ __forceinline__ static bool filters_in_place(const Tile& tile) {
    return kHasBoxes<T> && tile.filters_in_place;
  }
  /// Of the first step of a stage.
  __device__ __forceinline__ static Descriptor filters_of(const Tile& tile, uint32_t stage,
                                                          int warpgroup) {
    if (!filters_in_place(tile))
      return Descriptor(stage, T::kShape.filters, 8) + first_filter(warpgroup);
    return Descriptor(stage, 0, 8 * tile.units, swizzle_of(tile.units)) +
           first_filter(warpgroup) * tile.units;
  }
  /// Of the first slab. From 8 channels of 64 pixels it is as many rows to the next ones.
  __device__ __forceinline__ static Descriptor windows_of(const Tile& tile, uint32_t slab,
                                                          int warpgroup) {
    if (T::kShape.pixel_rows) return Descriptor(slab, 0, 8 * kRowUnits, swizzle_of(kRowUnits));
    return Descriptor(slab, 0, tile.group_stride * tile.row_units, swizzle_of(tile.row_units)) +
           warpgroup * tile.warpgroup_step * tile.row_units;
  }

  /// See arrivals.
  __device__ __forceinline__ static bool is_teller() { return !kWgmma || threadIdx.x % 32 == 0; }

  __device__ __forceinline__ Descriptor filter_stage() const {
    return filters_ + units_of(filter_.stage * block_.layout.filter_stage);
  }
  __device__ __forceinline__ Descriptor slab_stage() const {
    return windows_ + units_of(slab_.stage * block_.layout.slab);
  }
  __device__ __forceinline__ static uint32_t units_of(int32_t bytes) {
    return static_cast<uint32_t>(bytes) / kUnitBytes;
  }

  __device__ __forceinline__ const Steps& steps_of(int slab) const {
    return a_.tile.steps[slab < a_.tile.full_groups * a_.tile.chunks ? 0 : 1];
  }

  /// Called before each batch.
  __device__ __forceinline__ void wait_filters() {
    if (--until_start_ == 0)
      let_other_start(!kTurns || ptx::thread_in_block() < T::kFirstMultiplier + 128);
    if (filters_come_) barriers().filters.wait_full(filter_);
  }
  __device__ __forceinline__ void release_filters(int stage) {
    if (a_.tile.resident) return;
    if (is_teller()) barriers().filters.arrive_empty(stage);
  }
  /// The other warpgroup's.
  __device__ __forceinline__ void pass_tile() {
    for (int i = 0; i < a_.tile.slabs(); ++i) slab_.advance(a_.tile.slab_stages);
  }
  __device__ __forceinline__ void release_slab(int stage) {
    if (is_teller()) barriers().slabs.arrive_empty(stage);
  }
  __device__ __forceinline__ int offset_in_tile(const Step* step) const {
    return static_cast<int>(reinterpret_cast<const char*>(step) -
                            reinterpret_cast<const char*>(&a_.tile));
  }
  /// The steps of a batch, read here and not where they are used, which would have to wait for them.
  __device__ __forceinline__ void read_steps(int offset, uint32_t (&step)[kTraits.batch]) const {
    const auto* steps =
        reinterpret_cast<const Step*>(reinterpret_cast<const char*>(&a_.tile) + offset);
#pragma unroll
    for (int i = 0; i < kTraits.batch; ++i)
      step[i] = static_cast<uint32_t>(
          ptx::fresh(static_cast<int32_t>(reinterpret_cast<const uint32_t&>(steps[i]))));
  }

  /// One sum an output all the way. A batch is under way while the next is issued; what a batch has
  /// read is handed back when the one after has been issued.
  __device__ __forceinline__ void multiply_whole(Sums<T::kSums>& sums) {
    Pending pending;
    for (int slab = first_slab(a_.tile); slab < end_slab(a_.tile); ++slab) {
      barriers().slabs.wait_full(slab_);
      // Copies are no writes of the async proxy, by which wgmma reads.
      if (kWgmma && a_.copies) ::cuda::ptx::fence_proxy_async(::cuda::ptx::space_shared);
      multiply_slab(steps_of(slab), sums.sum, pending);
      pending.slab = slab_.stage;
      slab_.advance(a_.tile.slab_stages);
    }
    Order::end(sums.sum);
    hand_back(pending);
    sums.doubt[0] = sums.doubt[1] = 0;
  }

  struct Pending {
    int filters = -1, slab = -1;  // what the products under way read; -1: nothing
    bool accumulate = false;      // whether the sums hold anything
  };

  __device__ __forceinline__ void hand_back(Pending& pending) {
    if (pending.filters >= 0) release_filters(pending.filters);
    if (pending.slab >= 0) release_slab(pending.slab);
    pending.filters = pending.slab = -1;
  }

  /// The next steps of a slab.
  struct SlabSteps {
    Descriptor windows;
    int at;  // of the steps after `step`, in bytes from the tile's beginning: half of a pointer
    uint32_t step[kTraits.batch];
  };

  /// Whole batches in a loop of their own, which is short: while the other warpgroup writes, this one alone
  /// has to keep the tensor cores busy, and to go through the loop faster than they through a batch.
  __device__ __forceinline__ void multiply_slab(const Steps& steps, float (&sums)[T::kSums],
                                                Pending& pending) {
    SlabSteps slab = {slab_stage(), offset_in_tile(steps.step), {}};
    read_steps(slab.at, slab.step);
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
    wait_filters();
    const Descriptor filters = filter_stage();
    Order::begin();
#pragma unroll
    for (int i = 0; i < kCount; ++i)
      Product::multiply(sums, filters + i * step_, slab.windows + slab.step[i],
                        i > 0 || pending.accumulate);
    Order::commit();
    slab.at += kCount * static_cast<int>(sizeof(Step));
    read_steps(slab.at, slab.step);
    const int used = filter_.stage;
    filter_.advance(a_.tile.filter_stages);
    Order::template wait<1>();
    hand_back(pending);
    pending.filters = used;
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

  /// A batch of steps whose operands are there; of no steps after a tile's last.
  struct Batch {
    Descriptor filters, windows;
    uint32_t step[kTraits.batch];
    int count;
  };

  /// Where multiply_split is in a tile.
  struct Walk {
    int step;            // the next, in bytes from the tile's beginning: half of a pointer
    int steps;           // of the slab from that on
    const float* scale;  // of the slab's filters
    float factor[2];     // that takes the scales of the slab and of a filter out of a product
    int slab;
  };

  /// High products of each batch make one sum, low ones another, those of a slab where they have registers of
  /// their own: each goes to float32 sums with the scale of their slab and filter taken out again.
  __device__ __forceinline__ void multiply_split(const TilePosition& tile, Sums<T::kSums>& sums) {
#pragma unroll
    for (int i = 0; i < T::kSums; ++i) sums.sum[i] = 0;
    Walk walk;
    walk.slab = first_slab(a_.tile);
    const int64_t number = int64_t{tile.group} * a_.filter_tiles.divisor + tile.filter_tile;
    walk.scale = reinterpret_cast<const float*>(a_.filters + a_.packed.scales) +
                 (number * a_.tile.slabs() + walk.slab) * T::kShape.filters + own_filter_;
    if (is_doubter()) doubt(0) = doubt(1) = -0.0f;
    enter_slab(walk);
    Batch batch = {filters_, windows_, {}, 0};
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
    const Steps& steps = steps_of(walk.slab);
    walk.step = offset_in_tile(steps.step);
    walk.steps = steps.count;
    barriers().slabs.wait_full(slab_);
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
    if (is_teller()) scale = barriers().scales[slab_.stage];
    if constexpr (kWgmma) {
      scale.inverse = __shfl_sync(~0u, scale.inverse, 0);
      scale.fit = static_cast<Fit>(__shfl_sync(~0u, static_cast<int>(scale.fit), 0));
    }
    return scale;
  }

  /// To the next slab; false if there is none.
  __device__ __forceinline__ bool leave_slab(Walk& walk) {
    slab_.advance(a_.tile.slab_stages);
    if (++walk.slab == end_slab(a_.tile)) return false;
    walk.scale += T::kShape.filters;
    enter_slab(walk);
    return true;
  }

  __device__ __forceinline__ void next_batch(Walk& walk, Batch& batch) {
    read_steps(walk.step, batch.step);
    batch.count = batch_of(kTraits, walk.steps);
    walk.step += batch.count * static_cast<int>(sizeof(Step));
    walk.steps -= batch.count;
    batch.filters = filter_stage();
    batch.windows = slab_stage();
    wait_filters();
  }

  static constexpr float kLow = 1.0f / 2048;

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
      Product::multiply(part, of.filters + i * kStep, of.windows + batch.step[i], i > 0);
    Order::commit();
  }

  template <int kCount>
  __device__ __forceinline__ static void multiply_low(const Places& of, const Batch& batch,
                                                      bool accumulate, float (&part)[T::kSums]) {
#pragma unroll
    for (int i = 0; i < kCount; ++i) {
      const Descriptor filters = of.filters + i * kStep;
      Product::multiply(part, filters, of.low_windows + batch.step[i], i > 0 || accumulate);
      Product::multiply(part, filters + kPart, of.windows + batch.step[i], true);
    }
    Order::commit();
  }

  // Batches of kMost steps, then those of fewer. Each kind in a loop of its own, whatever their number: where
  // kinds are branches of one, the compiler spills sums.

  /// Without registers for low products: these first, and then the high ones.
  template <int kMost>
  __device__ __forceinline__ void multiply_batches(Walk& walk, Batch& batch,
                                                   float (&sums)[T::kSums]) {
    while (batch.count == kMost) multiply_batch<kMost>(walk, batch, sums);
    if constexpr (kMost > 1) multiply_batches<kMost - 1>(walk, batch, sums);
  }

  /// Multiplies the batch and goes to the next, which is waited for while products are under way.
  template <int kCount>
  __device__ __forceinline__ void multiply_batch(Walk& walk, Batch& batch,
                                                 float (&sums)[T::kSums]) {
    const float factor[2] = {walk.factor[0], walk.factor[1]};
    const Places of = places(batch);
    float part[T::kSums];
    Order::begin();
    multiply_low<kCount>(of, batch, false, part);
    Order::end(part);
    add(part, factor[0] * kLow, factor[1] * kLow, sums);
    Order::begin();
    multiply_high<kCount>(of, batch, part);
    const int used_filters = filter_.stage, used_slab = slab_.stage;
    const bool slab_ends = walk.steps == 0;
    filter_.advance(a_.tile.filter_stages);
    if (slab_ends && !leave_slab(walk)) {
      batch.count = 0;
    } else {
      next_batch(walk, batch);
    }
    Order::end(part);
    release_filters(used_filters);
    if (slab_ends) release_slab(used_slab);
    add(part, factor[0], factor[1], sums);
  }

  /// The low products of a slab, and what those under way read.
  struct LowProducts {
    float part[T::kSums];
    Pending pending;
  };

  /// With registers for low products: these are under way while the sums of high ones are added, and the next
  /// high ones right behind them. Goes to the next slab's first batch.
  __device__ __forceinline__ void multiply_slab(Walk& walk, Batch& batch, float (&sums)[T::kSums]) {
    LowProducts low;
    while (batch.count > 0) multiply_batches<kTraits.batch>(walk, batch, low, sums);
    const float factor[2] = {walk.factor[0] * kLow, walk.factor[1] * kLow};
    low.pending.slab = slab_.stage;
    if (leave_slab(walk)) next_batch(walk, batch);
    Order::end(low.part);
    hand_back(low.pending);
    add(low.part, factor[0], factor[1], sums);
  }

  template <int kMost>
  __device__ __forceinline__ void multiply_batches(Walk& walk, Batch& batch, LowProducts& low,
                                                   float (&sums)[T::kSums]) {
    while (batch.count == kMost) multiply_batch<kMost>(walk, batch, low, sums);
    if constexpr (kMost > 1) multiply_batches<kMost - 1>(walk, batch, low, sums);
  }

  /// Goes to the slab's next batch, if it has one. What the last batch's low products have read is handed back
  /// when this one's high ones, which come after them, are done.
  template <int kCount>
  __device__ __forceinline__ void multiply_batch(Walk& walk, Batch& batch, LowProducts& low,
                                                 float (&sums)[T::kSums]) {
    const Places of = places(batch);
    float high[T::kSums];
    Order::begin();
    multiply_high<kCount>(of, batch, high);
    multiply_low<kCount>(of, batch, low.pending.accumulate, low.part);
    const int used = filter_.stage;
    filter_.advance(a_.tile.filter_stages);
    Order::template wait<1>(high);
    hand_back(low.pending);
    low.pending.filters = used;
    low.pending.accumulate = true;
    if (walk.steps > 0) {
      next_batch(walk, batch);
    } else {
      batch.count = 0;
    }
    add(high, walk.factor[0], walk.factor[1], sums);
  }

  __device__ __forceinline__ static void add(const float (&part)[T::kSums], float factor0,
                                             float factor1, float (&sums)[T::kSums]) {
#pragma unroll
    for (int i = 0; i < T::kSums; ++i) sums[i] = fmaf(part[i], i & 2 ? factor1 : factor0, sums[i]);
  }

  const Arguments<typename T::Element>& a_;
  Block<T> block_;
  Descriptor filters_, windows_;  // of the first stages
  uint32_t step_;                 // units from a step's filters to the next
  int own_filter_;                // in the block's tile, the first of two
  uint32_t low_;                  // units from high to low windows
  Cursor slab_, filter_;
  bool filters_come_ = true;  // or are there since the first tile
  // Batches until the other warpgroup starts: the second, once; or in turns, with the last batch of a tile.
  int until_start_;
};

}  // namespace im2win::cuda::fused
