#include "cuda/fused/stages.hpp"

#include <algorithm>

#include "cuda/fused/shared.hpp"

namespace im2win::cuda::fused {

bool fit_stages(const Problem& problem, const KernelShape& shape, Operands operands,
                const Chip& chip, Tile& tile) {
  const auto fits = [&] {
    return tile.raw_lines() * tile.raw.pitch <= chip.shared_bytes &&
           shared_layout(tile, shape, operands).total <= chip.shared_bytes;
  };
  const int64_t batches = batch_count(tile, traits(operands));
  const bool one_filter_tile = problem.groups == 1 && problem.k <= shape.filters;
  for (tile.slab_stages = kMaxSlabStages; tile.slab_stages >= 2; --tile.slab_stages) {
    tile.resident = one_filter_tile && batches <= kMaxFilterStages;
    tile.filter_stages = tile.resident ? static_cast<int>(batches) : kMaxFilterStages;
    if (fits()) return true;
    tile.resident = 0;
    for (tile.filter_stages = 8; tile.filter_stages > tile.slab_stages; --tile.filter_stages)
      if (fits()) return true;
  }
  return false;
}

/// Half a tile, as far as what the first warpgroup uses need not be handed back by the second;
/// always less than a tile, so that a block with one tile gets that far.
int lead(const Tile& tile, OperandTraits traits) {
  const int64_t batches = batch_count(tile, traits);
  const int64_t ahead_in_slabs =
      (tile.slab_stages - 1) * std::max<int64_t>(batches / tile.slabs(), 1);
  const int64_t ahead_in_filters = tile.resident ? batches : tile.filter_stages - 1;
  return static_cast<int>(std::min({batches / 2, ahead_in_slabs, ahead_in_filters}));
}

}  // namespace im2win::cuda::fused
