// What the kernels that pack a filter are given, and what their blocks share (see pack.cuh).
#pragma once

#include <cstdint>

#include "cuda/divisor.hpp"
#include "cuda/fused/arguments.cuh"
#include "cuda/fused/operands.cuh"
#include "cuda/fused/tile.hpp"
#include "problem.hpp"

namespace im2win::cuda::fused {

/// Filters of a block, a warp each.
constexpr int kPackFilters = 8;
constexpr int kPackThreads = 32 * kPackFilters;
/// Of a multiprocessor, at a time.
constexpr int kPackBlocks = 4;

/// And slabs, at most.
constexpr int kMaxPackSlabs = 8;

/// Where a unit's elements are among a filter's of a slab: the first one's place, and which of them exist.
struct UnitPlace {
  int32_t first;
  uint32_t exists;  // a bit for each
};

template <class Moved>
struct PackShared {
  FilterUnit order[kMaxSteps][2];
  UnitPlace places[kMaxSteps][2];
  Scale scales[kMaxPackSlabs][kPackFilters];
  alignas(kUnitBytes) Moved elements[1];  // [filter][pitch]
};

/// A slab's steps have two units of eight elements at most for each filter: there is room on any device.
static_assert(sizeof(PackShared<float>) + kPackFilters * (kMaxSteps * 2 * 8 + 4) * 4 <= 99 * 1024);

struct PackArguments {
  Tile tile;
  FilterOrder order;
  PackedFilter packed;
  // A block packs the filters of so many slabs, neighbours of a tap group, which are counted together.
  int32_t block_slabs;
  Divisor filter_blocks, slabs, chunks, tile_blocks;
  Divisor column_groups;
  Divisor slab_columns, rows[2];  // of a slab's filters; rows by the kind of its tap group
  Divisor slab_units[2];          // likewise
  Divisor block_channels;         // those that a block's slabs have units for
  int64_t blocks;
  int64_t filters_per_group, channels;
  int32_t own_channels, own_filters;  // of a filter's group: see has_merged_groups
  int32_t tile_filters, filter_tiles;
  // Of a filter's elements of a slab in shared memory, an odd number of words: filters differ in banks.
  int32_t pitch;
  bool lines;  // whether these are whole words of neighbours in memory, in the same order
  // The filter is also kept as it is: so many bytes as they lie in memory, or element by element.
  int64_t kept_bytes;
  bool keeps_elements;
  bool channels_fastest;  // of the filter's dimensions
  bool words;             // whether units are 16-byte words of the filter
  bool rehearses;         // by a kernel of its own: see FilterPacker::pack
  int64_t stride[4];

  PackArguments(const Problem& problem, const TileChoice& choice, const KernelShape& shape,
                Operands operands);

  /// Or words.
  constexpr bool loads_elements() const { return !lines && !words; }

  /// Of the filter as it is.
  void keep_nothing() {
    kept_bytes = 0;
    keeps_elements = false;
  }
};

}  // namespace im2win::cuda::fused
