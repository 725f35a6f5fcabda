#include "cuda/fma_windows/tile.hpp"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <initializer_list>
#include <iterator>
#include <limits>
#include <optional>

#include "checked.hpp"
#include "cuda/implicit_gemm/choice.hpp"
#include "cuda/implicit_gemm/split_k/tile.hpp"
#include "status.hpp"

namespace im2win::cuda::fma_windows {
namespace {

int depth_of(int64_t taps) {
  return *std::find_if(std::begin(kDepths), std::end(kDepths),
                       [&](int depth) { return depth >= taps; });
}

bool are_words(const Tensor& tensor, std::initializer_list<int> dimensions) {
  return std::all_of(dimensions.begin(), dimensions.end(), [&](int dimension) {
    return tensor.size[dimension] <= 1 || tensor.stride[dimension] % kHeld == 0;
  });
}

/// In microseconds, and instructions of a thread.
struct Costs {
  double start, filter;  // of a block; of sixteen taps of a filter
  double instruction;    // of a warp beside others on its multiprocessor
  double gather, row;    // of an element of a window; of a row of taps beside its products
  double alone;          // warps' worth of what nothing hides
  double latency;        // of a tile
  double bytes;          // of a microsecond
};
constexpr Costs kHeldFloats = {1.9, 0.0056, 0.00048, 18.6, 60, 0.65, 0.44, 2.65e6};
constexpr Costs kHeldHalves = {2.3, 0.0064, 0.0004, 22, 92, 0.7, 0, 4e6};
constexpr Costs kHeldFilters = {2.6, 0.0081, 0.00046, 46, 113, 0, 0.44, 3.9e6};
constexpr double kFma = 4.25;   // instructions of a tap of a row, its share of a load among them
constexpr double kParts = 1.3;  // times a row, where neighbours of a pixel are no words

}  // namespace

std::string refusal(const Problem& problem) {
  constexpr int64_t kMostPixelsOfAll = INT32_MAX - kTilePixels;  // the last tile may end past them
  if (problem.dtype == IM2WIN_FLOAT64) return "does not take float64";
  if (problem.window_elements() > kMostTaps)
    return text("takes windows of up to ", kMostTaps, " elements");
  if (problem.dtype != IM2WIN_FLOAT32 && are_filters_neighbours(problem))
    return "takes outputs of 16 bits whose pixels are neighbours";
  const std::string reason = implicit_gemm::split_k::refusal(problem);
  if (!reason.empty() || problem.output_pixels() <= kMostPixelsOfAll) return reason;
  return "takes 2^31 pixels but for a tile, at most";
}

bool are_filters_neighbours(const Problem& problem) {
  return implicit_gemm::are_channels_last(problem.output);
}

bool has_words(const Problem& problem) {
  const Tensor& y = problem.output;
  if (are_filters_neighbours(problem))
    return y.stride[1] == 1 && problem.k_per_group() % kHeld == 0 && are_words(y, {0, 2, 3});
  if (y.stride[3] != 1 || !are_words(y, {0, 1})) return false;
  const bool are_planes = problem.p == 1 || y.stride[2] == problem.q;
  return are_planes ? problem.p % kHeld * (problem.q % kHeld) % kHeld == 0
                    : problem.q % kHeld == 0 && are_words(y, {2});
}

int64_t filter_tiles(const Problem& problem, const Tile& tile) {
  return problem.groups * ceil_div(problem.k_per_group(), tile.filters);
}

int64_t pixel_tiles(const Problem& problem, const Tile& tile) {
  return ceil_div(problem.output_pixels(), tile.pixels);
}

// Fitted to 1716 times of up to 600 us on an H200: half of them are within 5 %, and tiles chosen so took 2 % longer than
// the best.
double microseconds(const Problem& problem, const Tile& tile, int multiprocessors) {
  const bool holds_filters = are_filters_neighbours(problem);
  const Costs& costs = holds_filters                     ? kHeldFilters
                       : problem.dtype == IM2WIN_FLOAT32 ? kHeldFloats
                                                         : kHeldHalves;
  const int filters = static_cast<int>(std::min<int64_t>(tile.filters, problem.k_per_group()));
  const double row = kFma * tile.depth + costs.row, turns = double(ceil_div(tile.depth, 16));
  const double rows_at_once = double(kThreads / ceil_div(filters, kHeld));
  const double parts = holds_filters && !has_words(problem) ? kParts : 1;
  const double of_tile = holds_filters ? tile.pixels / 8.0 * turns * costs.gather +
                                             tile.pixels / rows_at_once * row * parts
                                       : kHeld * tile.depth * costs.gather + filters * row;
  const double blocks = double(filter_tiles(problem, tile)) * tile.workers;
  const double together =
      std::min(std::ceil(blocks / multiprocessors), double(blocks_of_multiprocessor(tile.depth)));
  const double rounds = std::ceil(blocks / multiprocessors / together);
  const auto tiles = double(ceil_div(pixel_tiles(problem, tile), int64_t{tile.workers}));
  const double bytes = double(element_bytes(problem.dtype)) *
                       (double(problem.input.elements()) + double(problem.output.elements()));
  const double work =
      costs.filter * filters * turns +
      rounds * tiles * ((together + costs.alone) * of_tile * costs.instruction + costs.latency);
  return costs.start + std::max(work, bytes / costs.bytes);
}

double microseconds(const Problem& problem) {
  constexpr int kMultiprocessors = 132;
  if (!refusal(problem).empty()) return std::numeric_limits<double>::infinity();
  return microseconds(problem, choose_tile(problem, kMultiprocessors), kMultiprocessors);
}

Tile choose_tile(const Problem& problem, int multiprocessors) {
  const int depth = depth_of(problem.window_elements());
  const int slots = multiprocessors * blocks_of_multiprocessor(depth);
  std::optional<Tile> best;
  double least = 0;
  const auto consider = [&](int filters, int pixels) {
    Tile tile = {depth, filters, pixels, 1};
    tile.workers = static_cast<int>(std::clamp<int64_t>(
        slots / filter_tiles(problem, tile), 1, std::max<int64_t>(pixel_tiles(problem, tile), 1)));
    const double time = microseconds(problem, tile, multiprocessors);
    if (best && time >= least) return;
    best = tile;
    least = time;
  };
  for (int most = kMostFilters; most >= 8; most /= 2) {
    const int64_t tiles = ceil_div(problem.k_per_group(), most);
    const auto filters = static_cast<int>(round_up(ceil_div(problem.k_per_group(), tiles), kHeld));
    if (are_filters_neighbours(problem))
      for (int pixels = kMostPixels; pixels >= 16; pixels /= 2) consider(filters, pixels);
    else
      consider(filters, kTilePixels);
  }
  return *best;
}

}  // namespace im2win::cuda::fma_windows
