// In place of the cost model: any tile is the cheapest now and then. Boxes and clusters, of which a problem
// has few, are more often, most of all clusters over rows of pixels, and lines that are transposed to slabs of as many
// units as there are.
#include <random>

#include "cuda/fused/cost.hpp"

namespace im2win::cuda::fused {

double CostModel::cycles(const Tile& tile, const KernelShape&) const {
  static std::mt19937 random(2023);
  const bool boxed = tile.boxed() || tile.raw.boxed;
  const bool transposed = tile.raw.transposed() && tile.units == 8;
  const double least = tile.cluster_bits > 0 && tile.pixel_rows     ? 0.5
                       : tile.launched_together() > 1 || transposed ? 0.8
                       : tile.stored                                ? 0.9
                       : boxed                                      ? 0.95
                                                                    : 1;
  return std::uniform_real_distribution<double>(least, 2)(random);
}

}  // namespace im2win::cuda::fused
