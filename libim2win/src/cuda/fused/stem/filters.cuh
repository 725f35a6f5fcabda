// The filters of a block of im2win_stem, which stay in shared memory: packed by a kernel before, they come as they lie.
// Few are made operands by those who multiply, from where they are, while bands are staged: a kernel that packs them
// has to start between two others, and finds no room beside blocks that have all registers of a multiprocessor.
#pragma once

#include <cuda/ptx>

#include <cstdint>

#include "cuda/fused/block.cuh"
#include "cuda/fused/operands.cuh"
#include "cuda/fused/stem/arguments.cuh"
#include "cuda/ptx.cuh"

namespace im2win::cuda::fused::stem {

/// In the order of packed ones: [set][unit][filter][16 bytes].
template <class T>
class FilterGatherer {
 public:
  using Element = typename T::Element;
  using Moved = fused::Moved<T::kOperands>;

  __device__ __forceinline__ FilterGatherer(const Arguments<Element>& a, char* filters,
                                            const TilePosition& first)
      : a_(a), filters_(filters), before_(first.filter_tile * kFilters) {
    const int64_t k = first.group * a.filters_per_group + before_;
    first_ = ptx::fresh(reinterpret_cast<const Moved*>(a.exact.data)) + k * a.exact.stride[0];
  }

  /// By all warps that multiply, once the kernel before has ended. Lanes have some filters each of some units: those of a
  /// filter are near each other in memory, those of different filters meet different banks.
  __device__ __forceinline__ void gather(int warp) const {
    const int items =
        a_.sets * (kFilters / kLaneFilters) * static_cast<int>(a_.unit_rounds.divisor);
    const int lane = ptx::thread_in_block() % 32;
#pragma unroll 1
    for (int item = warp; item < items; item += kTogether * kWarps) {
      Moved x[kTogether][kElements];
#pragma unroll
      for (int i = 0; i < kTogether; ++i) load(place(item + i * kWarps, lane), x[i]);
#pragma unroll
      for (int i = 0; i < kTogether; ++i)
        if (item + i * kWarps < items) store(place(item + i * kWarps, lane), x[i]);
    }
    ::cuda::ptx::fence_proxy_async(::cuda::ptx::space_shared);  // by which wgmma reads
  }

 private:
  static constexpr int kFilters = T::kShape.filters;
  static constexpr int kLaneFilters = lane_filters(T::kShape), kLaneUnits = lane_units(T::kShape);
  static constexpr int kWarps = T::kShape.multiplying_threads() / 32;
  static constexpr int kElements = traits(T::kOperands).unit_elements;
  /// So many units at a time, as memory is far away.
  static constexpr int kTogether = 2;

  struct Place {
    int filter, unit;
  };
  __device__ __forceinline__ Place place(int item, int lane) const {
    const auto [filters, round] = a_.unit_rounds.divide(item);
    return {filters * kLaneFilters + lane % kLaneFilters, round * kLaneUnits + lane / kLaneFilters};
  }

  __device__ __forceinline__ void load(const Place& at, Moved (&x)[kElements]) const {
    const FilterUnit unit = unit_of(at.unit);
    const bool exists = unit.row >= 0 && before_ + at.filter < a_.filters_per_group;
    const Moved* const filter = first_ + at.filter * a_.exact.stride[0];
#pragma unroll
    for (int e = 0; e < kElements; ++e) {
      const Tap tap = tap_of(unit, e);
      const bool is_tap = tap.channel < a_.channels && tap.row < a_.r && tap.column < a_.s;
      x[e] = ptx::load_if(exists && is_tap, filter + tap.channel * a_.exact.stride[1] +
                                                tap.row * a_.exact.stride[2] +
                                                tap.column * a_.exact.stride[3]);
    }
  }

  /// Of constant memory, which gives lanes different ones in turns.
  __device__ __forceinline__ FilterUnit unit_of(int number) const {
    if constexpr (T::kShape.dense) {
      return {static_cast<int16_t>(number < a_.bands.units ? 0 : -1), 0,
              static_cast<int16_t>(number)};
    } else {
      return a_.gathered[min(number, a_.gathered_units - 1)];
    }
  }

  /// A unit is four columns of some rows, or what follows in the order of a dense filter.
  struct Tap {
    int channel, row, column;
  };
  __device__ __forceinline__ static Tap tap_of(const FilterUnit& unit, int element) {
    if constexpr (T::kShape.dense) {
      const int tap = unit.unit * kElements + element;
      return {tap / (kDenseTaps * kDenseTaps), tap / kDenseTaps % kDenseTaps, tap % kDenseTaps};
    } else {
      return {unit.unit, unit.row + element / kUnitColumns, unit.column + element % kUnitColumns};
    }
  }

  __device__ __forceinline__ void store(const Place& at, const Moved (&x)[kElements]) const {
    if (at.unit >= a_.gathered_units) return;
    const int set = at.filter / kFilters;
    const int place = (set * a_.gathered_units + at.unit) * kFilters + at.filter % kFilters;
    *reinterpret_cast<uint4*>(filters_ + place * kUnitBytes) = pack_unit(x);
  }

  const Arguments<Element>& a_;
  char* filters_;
  int before_;  // filters of the group
  const Moved* first_;
};

/// Packed ones, by one thread.
template <class T>
__device__ __forceinline__ void load_filters(const Arguments<typename T::Element>& a,
                                             Block<T> block, const TilePosition& first) {
  namespace ptx = ::cuda::ptx;
  const auto bytes = static_cast<uint32_t>(a.sets * a.packed.tile_bytes);
  const int64_t set = int64_t{first.group} * a.filter_tiles.divisor + first.filter_tile;
  uint64_t* full = &barriers().filters;
  ptx::mbarrier_arrive_expect_tx(ptx::sem_release, ptx::scope_cta, ptx::space_shared, full, bytes);
  ptx::cp_async_bulk(ptx::space_cluster, ptx::space_global, block.filter_stage(0),
                     a.filters + set * a.packed.tile_bytes, bytes, full);
}

/// By all threads that multiply, each of which is a `thread`: what is there after wait_for_filters().
template <class T>
__device__ __forceinline__ void bring_filters(const Arguments<typename T::Element>& a,
                                              Block<T> block, int thread,
                                              const TilePosition& first) {
  if constexpr (T::kOperands != Operands::kSplit)
    if (a.gathered_units > 0)
      return FilterGatherer<T>(a, block.filter_stage(0), first).gather(thread / 32);
  if (thread == 0) load_filters(a, block, first);
}

template <class T>
__device__ __forceinline__ void wait_for_filters(const Arguments<typename T::Element>& a) {
  if (T::kOperands != Operands::kSplit && a.gathered_units > 0) {
    ptx::named_barrier(kColumnsBarrier, T::kShape.multiplying_threads());
  } else {
    wait(&barriers().filters, 0);
  }
}

}  // namespace im2win::cuda::fused::stem
