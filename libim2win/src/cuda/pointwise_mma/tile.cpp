#include "cuda/pointwise_mma/tile.hpp"

#include <algorithm>
#include <cmath>

#include "checked.hpp"
#include "cuda/pointwise/tile.hpp"
#include "cuda/words.hpp"
#include "status.hpp"

namespace im2win::cuda::pointwise_mma {
namespace {

/// Whose filters leave room for slots, on any device.
constexpr int64_t kMostChannels = 512;
// Whose numbers, and bytes of filters, fit 32 bits.
constexpr int64_t kMostFilters = 1 << 16, kMostPixels = 1 << 30;

bool is_plane(const Tensor& tensor) {
  return (tensor.size[3] == 1 || tensor.stride[3] == 1) &&
         (tensor.size[2] == 1 || tensor.stride[2] == tensor.size[3]);
}

bool are_planes(const Problem& problem) {
  return is_plane(problem.input) && is_plane(problem.output) &&
         (!problem.has_residual || is_plane(problem.residual));
}

int bytes_of_filters(const Tile& tile, Operands operands) {
  return tile.part_filters() * tile.steps * kStepChannels * filter_bytes(operands);
}

/// Of several passes all steps of a tile stay until the last one, while those of the next come.
int slots_of(const Tile& tile) { return (tile.passes == 1 ? 1 : tile.steps) + kStepsAhead; }

/// With passes of so many sixteens, and so many parts.
Tile divided(const Problem& problem, int sixteens, int parts) {
  const int bytes = static_cast<int>(element_bytes(problem.dtype));
  const int64_t passes = ceil_div(problem.k, int64_t{sixteens} * kProductFilters);
  Tile tile{};
  tile.sixteens = sixteens;
  tile.passes = static_cast<int>(ceil_div(passes, int64_t{parts}));
  tile.parts = static_cast<int>(ceil_div(passes, int64_t{tile.passes}));
  tile.steps = static_cast<int>(ceil_div(problem.c, int64_t{kStepChannels}));
  tile.slots = slots_of(tile);
  const int64_t tiles = ceil_div(problem.output_pixels(), int64_t{tile_pixels(bytes)});
  tile.tiles = static_cast<int>(std::max<int64_t>(tiles, 1));
  return tile;
}

void place(Tile& tile, Operands operands) {
  constexpr int kFloatBytes = 4;
  tile.biases_begin = bytes_of_filters(tile, operands);
  tile.magnitudes_begin = tile.biases_begin + tile.part_filters() * kFloatBytes;
  const int magnitudes =
      operands == Operands::kThirds ? block_warps(tile.sixteens, operands) * kMagnitudesBytes : 0;
  tile.slots_begin =
      static_cast<int>(round_up(tile.magnitudes_begin + magnitudes, int64_t{kMostWordBytes}));
  tile.shared_bytes = tile.slots_begin + tile.warps * tile.slots * kSlotBytes;
}

/// Of a block, which has a multiprocessor to itself, as others would crowd on some; false if it has no room for a warp.
bool place_warps(Tile& tile, Operands operands, const DeviceLimits& device) {
  const int64_t all = ceil_div(int64_t{tile.tiles} * tile.parts, int64_t{device.multiprocessors});
  tile.warps = static_cast<int>(std::min<int64_t>(all, block_warps(tile.sixteens, operands)));
  for (; tile.warps > 0; --tile.warps) {
    place(tile, operands);
    if (tile.shared_bytes <= device.shared_bytes) break;
  }
  if (tile.warps == 0) return false;
  const int64_t tiles = tile.tiles, blocks = std::max(device.multiprocessors / tile.parts, 1);
  tile.blocks = static_cast<int>(std::min(ceil_div(tiles, int64_t{tile.warps}), blocks));
  // As many as all have the same number of turns.
  const int64_t of_block = ceil_div(tiles, int64_t{tile.blocks});
  tile.warps = static_cast<int>(ceil_div(of_block, ceil_div(of_block, int64_t{tile.warps})));
  place(tile, operands);
  tile.shared_bytes = std::max(tile.shared_bytes, device.shared_bytes / 2 + 1);
  return true;
}

}  // namespace

Operands operands_of(const Problem& problem) {
  if (problem.dtype != IM2WIN_FLOAT32) return Operands::kSixteenBits;
  return problem.math == IM2WIN_MATH_TF32 ? Operands::kTf32 : Operands::kThirds;
}

bool are_rows(const Problem& problem) {
  if (problem.h * problem.w > 1 && are_planes(problem)) return false;
  return pointwise::pixel_stride(problem.input) && pointwise::pixel_stride(problem.output) &&
         (!problem.has_residual || pointwise::pixel_stride(problem.residual));
}

std::string refusal(const Problem& problem) {
  if (problem.dtype == IM2WIN_FLOAT64) return "takes float32, float16 and bfloat16, not float64";
  if (problem.dtype == IM2WIN_FLOAT32 && problem.math == IM2WIN_MATH_IEEE)
    return "does not take math mode ieee";
  const std::string windows = pointwise::refusal_of_windows(problem);
  if (!windows.empty()) return windows;
  if (!are_rows(problem) && !are_planes(problem))
    return "takes tensors whose pixels of a channel are neighbours, or channels of evenly spaced "
           "pixels";
  if (problem.c > kMostChannels)
    return text("takes at most ", kMostChannels, " channels, not ", problem.c);
  if (problem.k > kMostFilters)
    return text("takes at most ", kMostFilters, " filters, not ", problem.k);
  if (problem.output_pixels() > kMostPixels)
    return text("takes at most 2^30 pixels, not ", problem.output_pixels());
  return "";
}

std::vector<Tile> tiles_of(const Problem& problem, const DeviceLimits& device, int most_sixteens) {
  const Operands operands = operands_of(problem);
  std::vector<Tile> tiles;
  for (int sixteens = 1; sixteens <= most_sixteens; sixteens *= 2) {
    const int64_t passes = ceil_div(problem.k, int64_t{sixteens} * kProductFilters);
    for (const int64_t parts : {int64_t{1}, ceil_div(passes, int64_t{2}), passes}) {
      Tile tile = divided(problem, sixteens, static_cast<int>(parts));
      if (place_warps(tile, operands, device)) tiles.push_back(tile);
    }
  }
  return tiles;
}

Tile choose_tile(const Problem& problem, const DeviceLimits& device) {
  const std::vector<Tile> tiles = tiles_of(problem, device, kMostSixteens);
  return *std::ranges::min_element(
      tiles, {}, [&](const Tile& tile) { return microseconds(problem, tile, device); });
}

int plane_word(const Tensor& tensor, int64_t begin, int word) {
  return static_cast<int>(
      word_of({begin, tensor.size[2] * tensor.size[3], tensor.size[0] > 1 ? tensor.stride[0] : 0,
               tensor.size[1] > 1 ? tensor.stride[1] : 0},
              word));
}

int row_word(const Tensor& tensor, int64_t begin, int word) {
  return static_cast<int>(word_of({begin, tensor.size[1], *pointwise::pixel_stride(tensor)}, word));
}

int filter_word(const Problem& problem, int64_t begin, int word) {
  const int64_t(&stride)[4] = problem.filter.stride;
  const bool are_neighbours = (problem.c == 1 || stride[1] == 1) &&
                              (problem.s == 1 || stride[3] == problem.c) &&
                              (problem.r == 1 || stride[2] == problem.s * problem.c);
  if (!are_neighbours) return 1;
  return static_cast<int>(word_of({begin, problem.window_elements(), stride[0]}, word));
}

namespace {

struct Costs {
  double start, filter_word;  // of 16 bytes, of a thread
  // Of a warp, which waits for each; and of a multiprocessor, one of whose warps does not.
  double step, step_of_sixteen, sixteen;
  double busy_step, busy_step_of_sixteen, busy_sixteen;
  // More, for each word that a whole one would be; and of memory, for filters that are no four neighbours.
  double narrow_step, narrow_sixteen, narrow_output;
};

// Of each kind of operands. Beside 1800 to 2000 times each on an H200, of 522 layers, the standard deviation is 13, 11
// and 11 % in planes; in rows, 13, 10 and 10 %.
constexpr Costs
    kPlanes[] = {{2.14, 0.155, 0.129, 0.0306, 0.0117, 0.015, 0, 0.0118, 0.791, 5.41, 0.0683},
                 {2.06, 0.307, 0.0824, 0.067, 0.0385, 0.0128, 0, 0.0159, 0.691, 3.48, 0.0763},
                 {2.12, 0.241, 0.25, 0.147, 0.0981, 0.0213, 0.0177, 0.015, 0.136, 4.01, 0.102}},
    kRows[] = {{2.18, 0.277, 0.134, 0.0601, 0.361, 0.0448, 0.00129, 0.0203, 0.088, 0.0402, 5.14},
               {1.86, 0.399, 0.18, 0.0418, 0.17, 0.0108, 0.00723, 0.00829, 0.188, 0, 3.03},
               {1.88, 0.341, 0.23, 0.126, 0.313, 0.00401, 0.0342, 0.0204, 0, 0.18, 3.06}};

/// How many words there are for a whole one, but for the first.
int more_words(const Problem& problem, int element_bytes) {
  const int whole = kMostWordBytes / element_bytes;
  if (are_rows(problem)) return whole / row_word(problem.input, 0, whole) - 1;
  const int word = plane_word(problem.output, 0, plane_word(problem.input, 0, whole));
  return (word >= kLeastWordBytes / element_bytes ? whole / word : whole) - 1;
}

}  // namespace

double microseconds(const Problem& problem, const Tile& tile, const DeviceLimits& device) {
  constexpr double kBytes = 4.9e6, kCacheBytes = 14e6, kNorm = 1.57;  // of a microsecond
  constexpr int kFewFilters = 4;
  const int element = static_cast<int>(element_bytes(problem.dtype));
  const Operands operands = operands_of(problem);
  const Costs& costs = (are_rows(problem) ? kRows : kPlanes)[static_cast<int>(operands)];
  const int more = more_words(problem, element);
  const double narrow_step = 1 + costs.narrow_step * more,
               narrow_sixteen = (1 + costs.narrow_sixteen * more) * tile.sixteens;
  const bool is_narrow = problem.k > kFewFilters && problem.k % kFewFilters != 0;

  const double pixels = double(problem.output_pixels()) * element;
  const double input = pixels * double(problem.c),
               output = pixels * double(problem.k) * (1 + (is_narrow ? costs.narrow_output : 0));
  const double memory = (input + output) / kBytes + (tile.parts - 1) * input / kCacheBytes;
  const int64_t waves =
      ceil_div(int64_t{tile.blocks} * tile.parts, int64_t{device.multiprocessors});
  const int64_t turns = ceil_div(int64_t{tile.tiles}, int64_t{tile.blocks} * tile.warps) * waves;
  const double warp =
      double(turns) * tile.passes *
      (tile.steps * (costs.step * narrow_step + costs.step_of_sixteen * tile.sixteens) +
       costs.sixteen * narrow_sixteen);
  const double busy =
      double(tile.tiles) * tile.parts / device.multiprocessors * tile.passes *
      (tile.steps * (costs.busy_step * narrow_step + costs.busy_step_of_sixteen * tile.sixteens) +
       costs.busy_sixteen * narrow_sixteen);
  const double filter_words = double(bytes_of_filters(tile, operands)) / kMostWordBytes /
                              (32 * block_warps(tile.sixteens, operands));
  return costs.start + costs.filter_word * filter_words * double(waves) +
         std::pow(std::pow(memory, kNorm) + std::pow(warp, kNorm) + std::pow(busy, kNorm),
                  1 / kNorm);
}

}  // namespace im2win::cuda::pointwise_mma
