#include "cuda/fused/cost.hpp"

#include <algorithm>
#include <cmath>

namespace im2win::cuda::fused {

// The constants fit the times of tiles of the paper's layers on an H200.
double CostModel::cycles(const Tile& tile, const KernelShape& shape) const {
  const double steps = static_cast<double>(tile.total_steps());
  const double products = steps * shape.columns * (split_ ? 3 : 1);  // of both warpgroups
  const double slab_ends = split_ ? 500 : tile.boxed() ? 250 : 30;
  const double warpgroup = products / 2 +
                           (split_ ? 1300.0 : 450.0) * double(batch_count(tile, traits_)) +
                           slab_ends * tile.slabs() + write_cycles(tile, shape);
  const double filter_bytes = steps * 2 * traits_.parts * shape.filters * kUnitBytes;
  const double filters = tile.resident ? 0 : filter_bytes / (split_ ? 39 : 22);
  const double slab = slab_cycles(tile, shape);
  // What is under way at the same time hinders each other, the more the closer they are.
  constexpr double kNorm = 8;
  const double cycles =
      std::pow(std::pow(products, kNorm) + std::pow(warpgroup, kNorm) +
                   std::pow(tile.slabs() * slab + place_cycles(tile, shape), kNorm) +
                   std::pow(filters, kNorm),
               1 / kNorm);
  return std::max(1.0, std::ceil(tile_count(problem_, tile, shape) / chip_.multiprocessors)) *
             cycles +
         slab;
}

double CostModel::write_cycles(const Tile& tile, const KernelShape& shape) const {
  if (tile.stored) return 800 + 4.0 * shape.columns;
  const double each = (split_ ? 38.0 : 25.0) * shape.columns;
  if (problem_.output.stride[1] == 1) return each;
  // Where pixels of a filter are neighbours: the pieces of rows that warps write.
  return each + 300.0 * shape.block_columns() / (tile.run > 0 ? 32 : std::min(tile.columns, 32));
}

double CostModel::slab_cycles(const Tile& tile, const KernelShape& shape) const {
  const bool few_threads = shape.staging_warpgroups < 2;
  const double units = double(tile.positions) * tile.units;
  if (tile.boxed()) return 200 + 0.5 * units;
  if (copies_) return 450 + 1.5 * units * (few_threads ? 1.3 : 1);
  const double rounds = units * (few_threads ? 1.6 : 1);
  if (tile.raw.stages == 0) return split_ ? 1600 + 15.4 * rounds : 3100 + 6.8 * rounds;
  const double lines = tile.raw.boxed ? 0 : double(tile.raw_lines());
  return split_ ? 2500 + 7.0 * rounds + 90 * lines
                : std::max(2400 + 2.0 * rounds, 1700 + 210 * lines);
}

double CostModel::place_cycles(const Tile& tile, const KernelShape& shape) const {
  if (tile.boxed()) return 0;
  return (shape.staging_warpgroups < 2 ? 4.0 : 1.8) * tile.positions;
}

}  // namespace im2win::cuda::fused
