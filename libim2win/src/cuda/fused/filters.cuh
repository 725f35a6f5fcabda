// Packed filters on their way to shared memory, a batch of steps a stage.
#pragma once

#include <cuda_pipeline_primitives.h>
#include <cuda/ptx>

#include <cstdint>

#include "cuda/fused/arguments.cuh"
#include "cuda/fused/block.cuh"
#include "cuda/fused/operands.cuh"
#include "cuda/fused/slabs.cuh"
#include "cuda/ptx.cuh"

namespace im2win::cuda::fused {

/// The batches of a block, tile after tile; only the first tile's where filters stay. One thread brings them
/// all, and what each takes it limits layers of few products a slab: most is found once a tap group.
template <class T>
class FilterBatches {
 public:
  __device__ __forceinline__ explicit FilterBatches(const Arguments<typename T::Element>& a)
      : a_(a), slabs_(a) {
    enter_tile();
  }

  __device__ __forceinline__ bool ended() const { return slabs_.ended(a_); }
  __device__ __forceinline__ const char* from() const { return from_; }
  __device__ __forceinline__ int bytes() const { return count_ * kStepBytes; }

  __device__ __forceinline__ void advance() {
    from_ += bytes();
    start(left_ - count_);
    if (left_ > 0) return;
    const bool tile_ends = slabs_.slab.left == 1;
    slabs_.advance(a_);
    if (tile_ends) {
      if (a_.tile.resident) slabs_.number = a_.tiles;
      enter_tile();
    } else if (slabs_.slab.enters_group) {
      enter_group();
    } else {
      start(steps_);
    }
  }

 private:
  static constexpr OperandTraits kTraits = traits(T::kOperands);
  static constexpr int kStepBytes = T::kFilterStep * kUnitBytes;

  /// A batch, from which on the slab has so many steps.
  __device__ __forceinline__ void start(int steps) {
    left_ = steps;
    count_ = batch_of(kTraits, steps);
  }

  __device__ __forceinline__ void enter_tile() {
    if (ended()) return;
    const TilePosition& tile = slabs_.tile;
    from_ =
        a_.filters +
        (int64_t{tile.group} * a_.filter_tiles.divisor + tile.filter_tile) * a_.packed.tile_bytes +
        a_.tile.steps_before(slabs_.slab.tap_group, slabs_.slab.chunk) * kStepBytes;
    enter_group();
  }

  __device__ __forceinline__ void enter_group() {
    steps_ = a_.tile.steps[kind_of(a_.tile, slabs_.slab.tap_group)].count;
    start(steps_);
  }

  const Arguments<typename T::Element>& a_;
  SlabWalk<typename T::Element> slabs_;
  const char* from_ = nullptr;
  int steps_ = 0;             // of the tap group's slabs
  int left_ = 0, count_ = 0;  // see start; and the batch's own steps
};

/// By bulk copies, which a thread starts.
template <class T>
class BulkFilters {
 public:
  /// By a whole warp.
  __device__ __forceinline__ BulkFilters(const Arguments<typename T::Element>& a, Block<T> block)
      : batches_(a),
        to_(barriers().filters, a.tile.filter_stages, block.filter_stage(0),
            block.layout.filter_stage) {}

  __device__ __forceinline__ bool ended() const { return batches_.ended(); }
  __device__ __forceinline__ bool has_room() const { return to_.has_room(); }
  __device__ __forceinline__ void wait_for_room() const { to_.wait_for_room(); }

  /// By a thread: starts the next batch's; there is room.
  __device__ __forceinline__ void copy() const {
    namespace ptx = ::cuda::ptx;
    const auto bytes = static_cast<uint32_t>(batches_.bytes());
    to_.announce(bytes);
    ptx::cp_async_bulk(ptx::space_cluster, ptx::space_global, to_.to(), batches_.from(), bytes,
                       to_.full());
  }
  __device__ __forceinline__ void advance() {
    batches_.advance();
    to_.advance();
  }

 private:
  FilterBatches<T> batches_;
  FillCursor to_;
};

/// The boxes of a filter as it is: a batch is a tap of a slab's channels. A batch of small tiles is multiplied in less
/// time than a hundred instructions take that wait for one another: between boxes there are few.
template <class T>
class FilterBoxes {
 public:
  __device__ __forceinline__ explicit FilterBoxes(const Arguments<typename T::Element>& a)
      : a_(a), slabs_(a), slab_channels_(ptx::unknown(a.tile.units * a.tile.unit_channels)) {}

  /// Calls bring({first channel, tap column, tap row, first filter}) for all of a block's, tile after tile; only the
  /// first tile's where filters stay.
  template <class Bring>
  __device__ __forceinline__ void for_each(const Bring& bring) {
    while (!slabs_.ended(a_)) {
      bring_group(bring);
      const int32_t tile = slabs_.number;
      slabs_.leave_group(a_);
      if (a_.tile.resident && slabs_.number != tile) return;
    }
  }

 private:
  /// What remains of a tap group's slabs.
  template <class Bring>
  __device__ __forceinline__ void bring_group(const Bring& bring) const {
    const SlabShare& slab = slabs_.slab;
    const int kind = kind_of(a_.tile, slab.tap_group);
    const int taps = a_.tile.steps[kind].count / traits(T::kOperands).batch;
    const Tap first = first_tap(a_, slab.tap_group);
    int32_t at[4] = {slab.chunk * slab_channels_, 0, 0,
                     slabs_.tile.group * static_cast<int>(a_.filters_per_group) +
                         slabs_.tile.filter_tile * T::kShape.filters};
    FilterTap tap = a_.filter_taps[kind][0];
    for (int slabs = slab.of_group(a_.tile); slabs > 0; --slabs, at[0] += slab_channels_)
      for (int i = 0; i < taps;) {
        at[1] = first.column + tap.column;
        at[2] = first.row + tap.row;
        tap = a_.filter_taps[kind][++i < taps ? i : 0];  // read while there is no room for the next
        bring(at);
      }
  }

  const Arguments<typename T::Element>& a_;
  SlabWalk<typename T::Element> slabs_;
  int32_t slab_channels_;
};

/// By copies of boxes, which a thread starts. Pairs fill a stage together with the windows (see Arguments::pairs).
template <class T>
class BoxedFilters {
 public:
  using Element = typename T::Element;

  /// By a whole warp.
  __device__ __forceinline__ BoxedFilters(const Arguments<Element>& a, Block<T> block)
      : a_(a),
        boxes_(a),
        to_(a.pairs ? stages(barriers().slabs, block) : stages(barriers().filters, block)),
        bytes_(static_cast<uint32_t>(ptx::unknown(block.layout.filter_stage))) {}

  /// By a thread.
  __device__ __forceinline__ void run() {
    boxes_.for_each([&](const int32_t(&at)[4]) { bring(at); });
  }

 private:
  template <class Ring>
  __device__ __forceinline__ FillCursor stages(const Ring& ring, Block<T> block) const {
    return {ring, a_.tile.filter_stages, block.filter_stage(0), block.layout.filter_stage};
  }

  __device__ __forceinline__ void bring(const int32_t (&at)[4]) {
    namespace ptx = ::cuda::ptx;
    to_.wait_for_room();
    to_.announce(bytes_);
    ptx::cp_async_bulk_tensor(ptx::space_cluster, ptx::space_global, to_.to(), &a_.filter, at,
                              to_.full());
    to_.advance();
  }

  const Arguments<Element>& a_;
  FilterBoxes<T> boxes_;
  FillCursor to_;
  uint32_t bytes_;  // of a batch
};

/// By a warp's copies of 16 bytes, for those without bulk copies.
template <class T>
class CopiedFilters {
 public:
  __device__ __forceinline__ CopiedFilters(const Arguments<typename T::Element>& a, Block<T> block)
      : a_(a), block_(block), batches_(a), lane_(static_cast<int>(threadIdx.x % 32)) {}

  __device__ __forceinline__ void run() {
    for (; !batches_.ended(); batches_.advance()) {
      copy();
      cursor_.advance(a_.tile.filter_stages);
    }
    hand_over();
  }

 private:
  __device__ __forceinline__ void copy() {
    if (__any_sync(~0u, !barriers().filters.is_empty(cursor_))) hand_over();
    barriers().filters.wait_empty(cursor_);
    char* to = block_.filter_stage(cursor_.stage);
    for (int i = lane_ * kUnitBytes; i < batches_.bytes(); i += 32 * kUnitBytes)
      __pipeline_memcpy_async(to + i, batches_.from() + i, kUnitBytes, 0);
    __pipeline_commit();
    ++copying_;
  }

  /// The stages whose copies are under way, once they are done.
  __device__ __forceinline__ void hand_over() {
    if (copying_ == 0) return;
    __pipeline_wait_prior(0);
    __syncwarp();
    for (; copying_ > 0; --copying_) {
      const int back = cursor_.stage - copying_;
      barriers().filters.arrive_full(back < 0 ? back + a_.tile.filter_stages : back);
    }
  }

  const Arguments<typename T::Element>& a_;
  Block<T> block_;
  FilterBatches<T> batches_;
  Cursor cursor_;
  int lane_;
  int copying_ = 0;  // stages before the cursor that are being copied
};

/// By a warp, element by element, to where boxes would have put them: for filters in place that are no words
/// of 16 bytes.
template <class T>
class GatheredFilters {
 public:
  __device__ __forceinline__ GatheredFilters(const Arguments<typename T::Element>& a,
                                             Block<T> block)
      : a_(a), block_(block), boxes_(a), lane_(static_cast<int>(threadIdx.x % 32)) {}

  __device__ __forceinline__ void run() {
    boxes_.for_each([&](const int32_t(&at)[4]) {
      barriers().filters.wait_empty(cursor_);
      gather(at);
      barriers().filters.arrive_full_by_warp(cursor_.stage);
      cursor_.advance(a_.tile.filter_stages);
    });
  }

 private:
  using Moved = fused::Moved<T::kOperands>;
  static constexpr int kUnitElements = traits(T::kOperands).unit_elements;

  __device__ __forceinline__ void gather(const int32_t (&at)[4]) const {
    const int64_t(&stride)[4] = a_.exact.stride;
    const Moved* from = reinterpret_cast<const Moved*>(a_.exact.data) + at[0] + at[2] * stride[2] +
                        at[1] * stride[3];
    char* to = block_.filter_stage(cursor_.stage);
    const int units = a_.tile.units;
    for (int i = lane_; i < T::kShape.filters * units; i += 32) {
      const int filter = i / units, unit = i % units;
      Moved x[kUnitElements];
#pragma unroll
      for (int e = 0; e < kUnitElements; ++e) {
        const int channel = unit * kUnitElements + e;
        const bool exists = at[3] + filter < a_.filters_total && at[0] + channel < a_.channels;
        x[e] = ptx::load_if(exists, from + (at[3] + filter) * stride[0] + channel);
      }
      *reinterpret_cast<uint4*>(to + swizzled_place(filter, unit, units) * kUnitBytes) =
          pack_unit(x);
    }
  }

  const Arguments<typename T::Element>& a_;
  Block<T> block_;
  FilterBoxes<T> boxes_;
  Cursor cursor_;
  int lane_;
};

}  // namespace im2win::cuda::fused
