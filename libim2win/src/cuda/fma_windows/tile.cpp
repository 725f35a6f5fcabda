#include "cuda/fma_windows/tile.hpp"

#include <algorithm>
#include <cmath>
#include <initializer_list>
#include <iterator>
#include <optional>

#include "checked.hpp"
#include "cuda/implicit_gemm/choice.hpp"
#include "cuda/implicit_gemm/split_k/tile.hpp"

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

}  // namespace

std::string refusal(const Problem& problem) {
  if (problem.window_elements() > kMostTaps) return "takes windows of up to 48 elements";
  if (problem.dtype != IM2WIN_FLOAT32 && are_filters_neighbours(problem))
    return "takes outputs of 16 bits whose pixels are neighbours";
  return implicit_gemm::split_k::refusal(problem);
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

double microseconds(const Problem& problem, const Tile& tile, int multiprocessors) {
  constexpr double kCycle = 1 / 1700.0, kStart = 2.5, kLatency = 1500, kBytesPerMicrosecond = 3.8e6;
  const double depth = tile.depth, row = 4.25 * depth + 30;
  const double lanes = double(ceil_div(tile.filters, kHeld));
  const double turns = double(ceil_div(tile.depth, 16));
  const double of_tile =
      are_filters_neighbours(problem)
          ? tile.pixels / 8.0 * (9 * turns + 4) + tile.pixels / std::floor(kThreads / lanes) * row
          : 34 * depth + tile.filters * row;
  const double tiles = double(pixel_tiles(problem, tile));
  const double blocks = double(filter_tiles(problem, tile)) * tile.workers;
  const double resident =
      std::min(std::ceil(blocks / multiprocessors), double(blocks_of_multiprocessor(tile.depth)));
  const double rounds = std::ceil(blocks / multiprocessors / resident);
  const double bytes = double(element_bytes(problem.dtype)) *
                       (double(problem.input.elements()) + double(problem.output.elements()));
  const double cycles =
      rounds * std::ceil(tiles / tile.workers) * std::max(resident * of_tile, of_tile + kLatency);
  return kStart + std::max(kCycle * cycles, bytes / kBytesPerMicrosecond);
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
