#include "cuda/im2win/tile.hpp"

#include <algorithm>
#include <cmath>
#include <iterator>

#include "checked.hpp"
#include "status.hpp"

namespace im2win::cuda {
namespace {

/// Of a warp and tap, estimated from the compiled kernels: the instructions that it issues, and
/// part of the cycles that its accesses take in the load-store unit, which four schedulers share.
double slots_per_tap(const Im2winTile& tile) {
  const double threads = tile.threads();
  const double products = tile.micro_filters * tile.micro_pixels;
  const double fragments = double(tile.micro_filters + tile.micro_pixels) / tile.vector;
  const double windows = tile.pixels / threads;       // elements staged by a thread
  const double filters = tile.filters / 4 / threads;  // 16-byte words, likewise
  const double issued = products + fragments + 4 * windows + 2 * filters + 3;
  const double load_store = 2 * fragments + 4 * windows + 8 * filters;
  return issued + 1.2 * load_store;
}

/// The share of slots that are used with so many outputs under way in a multiprocessor: independent
/// products and other warps hide latencies.
double use(double outputs) { return outputs / (outputs + 4096); }

}  // namespace

double im2win_tile_cost(const Im2winTile& tile, const Problem& problem, int multiprocessors) {
  constexpr double kEnds = 24;  // a block's beginning and end, in taps
  const double blocks = double(problem.groups) *
                        double(ceil_div(problem.k_per_group(), tile.filters)) *
                        double(ceil_div(problem.output_pixels(), tile.pixels));
  const double busiest = std::ceil(blocks / multiprocessors);
  const double slots =
      tile.threads() / 32.0 * slots_per_tap(tile) * (double(problem.window_elements()) + kEnds);
  const double outputs = std::min<double>(busiest, tile.blocks) * tile.filters * tile.pixels;
  return busiest * slots / use(outputs);
}

int choose_im2win_tile(const Problem& problem, int multiprocessors) {
  const auto cheaper = [&](const Im2winTile& a, const Im2winTile& b) {
    return im2win_tile_cost(a, problem, multiprocessors) <
           im2win_tile_cost(b, problem, multiprocessors);
  };
  const Im2winTile* best =
      std::min_element(std::begin(kIm2winTiles), std::end(kIm2winTiles), cheaper);
  return static_cast<int>(best - kIm2winTiles);
}

bool is_for_fmas(const Problem& problem) {
  constexpr int64_t kFewFilters = 32, kManyChannels = 4, kManyPixels = 1 << 16;
  // More channels im2win_fused is faster at, of which a slab has 64; and those of whole slabs, of more filters.
  constexpr int64_t kMostChannels = 256, kSlabChannels = 64, kFewestFilters = 16;
  if (problem.dtype != IM2WIN_FLOAT32 || problem.math != IM2WIN_MATH_FP32) return false;
  if (problem.r != 1 || problem.s != 1 || problem.is_padded() || !problem.input.is_nchw())
    return false;
  if (problem.stride_h > 1 || problem.stride_w > 1) return false;
  const int64_t channels = problem.c_per_group(), filters = problem.k_per_group();
  if (channels >= kMostChannels || (channels % kSlabChannels == 0 && filters > kFewestFilters))
    return false;
  return filters <= kFewFilters && problem.n * problem.p * problem.q >= kManyPixels &&
         channels >= kManyChannels * filters;
}

std::string im2win_tile_text(const Im2winTile& tile) {
  return text(tile.filters, 'x', tile.pixels, 'x', tile.taps, ", ", tile.micro_filters, 'x',
              tile.micro_pixels, " a thread");
}

}  // namespace im2win::cuda
