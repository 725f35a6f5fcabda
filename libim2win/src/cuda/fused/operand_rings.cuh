// Where a warpgroup that multiplies is among the stages of slabs and filters, and what products read there.
#pragma once

#include <cstdint>

#include "cuda/fused/arguments.cuh"
#include "cuda/fused/block.cuh"
#include "cuda/fused/descriptor.cuh"
#include "cuda/ptx.cuh"

namespace im2win::cuda::fused {

/// What products under way read; -1: nothing.
struct StagesInUse {
  int filters = -1, slab = -1;
};

/// A warpgroup goes through slab after slab of tile after tile, in the order of staging, batch by batch.
template <class T>
class OperandRings {
 public:
  static constexpr OperandTraits kTraits = traits(T::kOperands);

  __device__ __forceinline__ OperandRings(const Arguments<typename T::Element>& a, Block<T> block,
                                          int warpgroup)
      : a_(a),
        layout_(block.layout),
        filters_(kept(filters_of(a.tile, ptx::shared_address(block.filter_stage(0)), warpgroup))),
        windows_(kept(windows_of(a.tile, ptx::shared_address(block.slab(0)), warpgroup))),
        step_(kept(filters_in_place(a.tile) ? 2 : T::kFilterStep)),
        set_(kept(128 * (filters_in_place(a.tile) ? a.tile.units : 1))),
        slab_stages_(kept(a.tile.slab_stages)),
        filter_stages_(kept(a.tile.filter_stages)),
        slab_units_(kept(block.layout.slab / kUnitBytes)),
        filter_units_(kept(block.layout.filter_stage / kUnitBytes)),
        releases_filters_(kept(is_teller() && !a.tile.resident ? 1 : 0)),
        until_start_(warpgroup == 0 ? a.tile.lead + 1 : 0) {
    if (kTurns && warpgroup > 0) pass_tile();
  }

  /// `more`: whether the block has another tile after this one.
  __device__ __forceinline__ void enter_tile(bool more) {
    if constexpr (kTurns) until_start_ = more ? a_.tile.filter_stages : 0;
  }
  __device__ __forceinline__ void leave_tile() {
    filters_come_ = !a_.tile.resident;
    if constexpr (kTurns) pass_tile();
  }

  /// Of the first step of a batch, of the warpgroup's first set.
  __device__ __forceinline__ Descriptor filters() const { return filters_at(filter_); }
  /// Likewise, where these are paired with windows.
  __device__ __forceinline__ Descriptor paired_filters() const { return filters_at(slab_); }
  /// Units from there to the filters of another of its sets.
  __device__ __forceinline__ uint32_t set(int number) const {
    return static_cast<uint32_t>(number * set_);
  }
  /// Units from a step's filters to the next.
  __device__ __forceinline__ uint32_t step() const { return static_cast<uint32_t>(step_); }
  /// Of the slab.
  __device__ __forceinline__ Descriptor windows() const {
    return windows_ + offset(slab_.stage, slab_units_, layout_.slab);
  }
  __device__ __forceinline__ static uint32_t units_of(int32_t bytes) {
    return static_cast<uint32_t>(bytes) / kUnitBytes;
  }

  __device__ __forceinline__ const Cursor& slab() const { return slab_; }
  __device__ __forceinline__ const Cursor& filter() const { return filter_; }

  /// Called before batches, so many of them.
  __device__ __forceinline__ void count_batches(int batches) {
    const bool before = until_start_ > 0;
    until_start_ -= batches;
    if (before && until_start_ <= 0) start_other();
  }
  /// Called before each batch.
  __device__ __forceinline__ void wait_filters() {
    if (--until_start_ == 0) start_other();
    if (filters_come_) barriers().filters.wait_full(filter_);
  }
  __device__ __forceinline__ void leave_filters() { filter_.advance(filter_stages_); }
  __device__ __forceinline__ void leave_slab() { slab_.advance(slab_stages_); }

  __device__ __forceinline__ void release_filters(int stage) const {
    if (kKeeps ? releases_filters_ != 0 : is_teller() && !a_.tile.resident)
      barriers().filters.arrive_empty(stage);
  }
  __device__ __forceinline__ void release_slab(int stage) const {
    if (is_teller()) barriers().slabs.arrive_empty(stage);
  }
  __device__ __forceinline__ void hand_back(StagesInUse& used) const {
    if (used.filters >= 0) release_filters(used.filters);
    if (used.slab >= 0) release_slab(used.slab);
    used = {};
  }

  /// See arrivals.
  __device__ __forceinline__ static bool is_teller() { return !kWgmma || threadIdx.x % 32 == 0; }

  __device__ __forceinline__ const Steps& steps_of(int slab) const {
    return a_.tile.steps[slab < a_.tile.full_groups * a_.tile.chunks ? 0 : 1];
  }
  /// In bytes from the tile's beginning: half of a pointer.
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

  /// Of the block's tile, that the warpgroup has.
  __device__ __forceinline__ static int first_filter(int warpgroup) {
    return T::kShape.filters >= 128 && !T::kShape.pixel_major ? warpgroup * 64 : 0;
  }

 private:
  static constexpr bool kTurns = T::kShape.takes_turns;
  static constexpr bool kWgmma = T::kInstructions == Instructions::kWgmma;

  /// Whether registers suffice for what the loop of batches reads.
  static constexpr bool kKeeps = T::kOperands != Operands::kSplit;

  /// In a register, where these suffice: parameters of the kernel that the loop of batches reads again take it
  /// longer than its products, as many of them have no room in the first cache of constants.
  __device__ __forceinline__ static int32_t kept(int32_t x) { return kKeeps ? ptx::fresh(x) : x; }
  __device__ __forceinline__ static Descriptor kept(const Descriptor& x) {
    return kKeeps ? x.kept() : x;
  }
  __device__ __forceinline__ static void start_other() {
    let_other_start(!kTurns || ptx::thread_in_block() < T::kFirstMultiplier + 128);
  }
  /// Of a stage of so many units, or bytes.
  __device__ __forceinline__ static uint32_t offset(int stage, int units, int bytes) {
    return kKeeps ? static_cast<uint32_t>(stage * units) : units_of(stage * bytes);
  }

  __device__ __forceinline__ Descriptor filters_at(const Cursor& at) const {
    return filters_ + offset(at.stage, filter_units_, layout_.filter_stage);
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

  /// The other warpgroup's.
  __device__ __forceinline__ void pass_tile() {
    for (int i = 0; i < a_.tile.slabs(); ++i) leave_slab();
  }

  const Arguments<typename T::Element>& a_;
  const SharedLayout& layout_;
  Descriptor filters_, windows_;  // of the first stages
  int32_t step_, set_, slab_stages_, filter_stages_, slab_units_, filter_units_;
  int32_t releases_filters_;
  Cursor slab_, filter_;
  bool filters_come_ = true;  // or are there since the first tile
  // Batches until the other warpgroup starts: the second, once; or in turns, with the last batch of a tile.
  int until_start_;
};

}  // namespace im2win::cuda::fused
