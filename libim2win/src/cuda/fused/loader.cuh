// The warp that brings packed filters and raw lines to shared memory, or two.
#pragma once

#include <cstdint>

#include "cuda/fused/arguments.cuh"
#include "cuda/fused/block.cuh"
#include "cuda/fused/filters.cuh"
#include "cuda/fused/raw.cuh"
#include "cuda/ptx.cuh"

namespace im2win::cuda::fused {

/// Whichever has room: to wait for the one would hold up the other, for which those that make room may
/// be waiting.
template <class T, class Lines>
__device__ __forceinline__ void load_in_turn(const Arguments<typename T::Element>& a,
                                             Block<T> block, Lines lines) {
  constexpr unsigned kNanoseconds = 40;
  if (a.follows_packing)
    for (int i = 0; i < a.tile.raw.stages && !lines.ended(); ++i) lines.bring();
  BulkFilters<T> filters(a, block);
  ptx::wait_for_kernel_before();  // which packs the filter, perhaps
  while (!filters.ended() || !lines.ended()) {
    // All lanes have seen it, then, or none goes on.
    const bool filters_come = !filters.ended() && __all_sync(~0u, filters.has_room());
    const bool lines_come = !lines.ended() && __all_sync(~0u, lines.has_room());
    if (filters_come) {
      if (ptx::elect()) filters.copy();
      filters.advance();
    }
    if (lines_come) lines.bring();
    if (!filters_come && !lines_come) __nanosleep(kNanoseconds);
  }
}

template <class T, class Lines>
__device__ __forceinline__ void load_lines(const Arguments<typename T::Element>& a, Lines lines) {
  wait_for_inputs(a);
  for (; !lines.ended(); lines.bring()) lines.wait_for_room();
}

template <class T>
__device__ __forceinline__ void load_filters(const Arguments<typename T::Element>& a,
                                             Block<T> block) {
  if constexpr (kHasBoxes<T>) {
    if (a.filters_boxed) {
      BoxedFilters<T> filters(a, block);
      ptx::wait_for_kernel_before();
      if (ptx::elect()) filters.run();
      return;
    }
  }
  ptx::wait_for_kernel_before();  // which packs the filter, perhaps
  if constexpr (T::kInstructions == Instructions::kMma) {
    CopiedFilters<T>(a, block).run();
  } else if (a.tile.filters_in_place) {
    if constexpr (kHasBoxes<T>) GatheredFilters<T>(a, block).run();
  } else {
    BulkFilters<T> filters(a, block);
    if (!ptx::elect()) return;
    for (; !filters.ended(); filters.advance()) {
      filters.wait_for_room();
      filters.copy();
    }
  }
}

/// `is_last`: whether the warp is the block's last of those that stage, which filters have.
template <class T>
__device__ __forceinline__ void load(const Arguments<typename T::Element>& a, Block<T> block,
                                     bool is_last) {
  const bool in_turn = !lines_have_warp<T>(a.tile) && a.tile.raw.stages > 0;
  if (is_last && !in_turn) return load_filters<T>(a, block);
  if constexpr (T::kInstructions == Instructions::kWgmma) {
    const auto load_with = [&](auto lines) {
      if (in_turn) return load_in_turn<T>(a, block, lines);
      if constexpr (T::kMayHaveLineWarp) load_lines<T>(a, lines);
    };
    if (a.tile.raw.boxed) {
      load_with(LineBoxes<T>(a, block));
    } else if (a.tile.raw.stages > 0) {
      load_with(RawStaging<T>(a, block));
    }
  }
}

}  // namespace im2win::cuda::fused
