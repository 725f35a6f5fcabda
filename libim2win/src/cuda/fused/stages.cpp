#include "cuda/fused/stages.hpp"

#include <algorithm>

#include "checked.hpp"
#include "cuda/fused/shared.hpp"

namespace im2win::cuda::fused {
namespace {

/// Whether all tiles of a block have the same filters, and the block all of them: filters are the fastest of
/// tiles, and a block has every so manyth.
bool keeps_filters(const Problem& problem, const KernelShape& shape, const Chip& chip,
                   const Tile& tile) {
  return problem.groups == 1 && tile.cluster_bits == 0 &&
         chip.multiprocessors % filter_tiles(problem, tile, shape) == 0;
}

}  // namespace

bool fit_stages(const Problem& problem, const KernelShape& shape, Operands operands,
                const Chip& chip, Tile& tile) {
  const auto fits = [&] {
    if (tile.raw_lines() * tile.raw.pitch > chip.shared_bytes) return false;
    const SharedLayout layout = shared_layout(tile, shape, operands);
    return layout.total <= chip.shared_bytes &&
           (tile.cluster_bits == 0 ||
            layout.patches - layout.filters >= cluster_sum_bytes(tile, shape));
  };
  const int64_t batches = batch_count(tile, traits(operands));
  const bool keeps = keeps_filters(problem, shape, chip, tile) && batches <= kMaxFilterStages;
  // Slabs of a batch each, such as those of windows of single pixels, are used as fast as filters, and the more
  // of both are on their way, the less products wait. Others last for several batches: filters have the room.
  const bool of_a_batch = (tile.boxed() || tile.from_lines) && batches == tile.slabs();
  const bool pairs = of_a_batch && tile.boxed() && tile.pixel_word == 0 &&
                     has_filter_boxes(problem, operands, tile);
  for (tile.slab_stages = of_a_batch ? kMaxSlabStages : 3; tile.slab_stages >= 2;
       --tile.slab_stages) {
    tile.resident = keeps;
    tile.filter_stages = static_cast<int>(batches);
    if (keeps && fits()) return true;
    tile.resident = 0;
    if (shape.takes_turns) continue;
    if (pairs) {
      tile.filter_stages = tile.slab_stages;
      if (fits()) return true;
      continue;
    }
    tile.filter_stages = kMaxFilterStages;
    if (fits()) return true;
    const int least = tile.held ? 2 : of_a_batch ? tile.slab_stages : tile.slab_stages + 1;
    for (tile.filter_stages = 8; tile.filter_stages >= least; --tile.filter_stages)
      if (fits()) return true;
  }
  return false;
}

/// Half a tile, as far as what the first warpgroup uses need not be handed back by the second. None where blocks
/// have a tile each, and no other's writing to do meanwhile; nor where inputs are boxes and filters come by a
/// ring: a stage that waits for the second warpgroup cannot be filled again.
int lead(const Problem& problem, const KernelShape& shape, OperandTraits traits, const Chip& chip,
         const Tile& tile) {
  const bool has_one_tile =
      tile.cluster_bits > 0 || tile_count(problem, tile, shape) <= chip.multiprocessors;
  if (has_one_tile || (tile.boxed() && !tile.resident)) return 0;
  const int64_t batches = batch_count(tile, traits);
  const int64_t ahead_in_slabs =
      (tile.slab_stages - 1) * std::max<int64_t>(batches / tile.slabs(), 1);
  const int64_t ahead_in_filters = tile.resident ? batches : tile.filter_stages - 1;
  return static_cast<int>(std::min({batches / 2, ahead_in_slabs, ahead_in_filters}));
}

bool has_line_warp(const KernelShape& shape, OperandTraits traits, const Tile& tile) {
  // Batches of a slab, in whose time fewer warps can bring the next.
  constexpr int64_t kMany = 6;
  return tile.raw.stages > 0 && shape.staging_warpgroups > 1 && !tile.held &&
         (tile.raw.transposed() || batch_count(tile, traits) >= kMany * tile.slabs());
}

}  // namespace im2win::cuda::fused
