#include "cuda/pointwise_mma/tile.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

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
  const int magnitudes = operands == Operands::kThirds ? kMostWarps * kMagnitudesBytes : 0;
  tile.slots_begin =
      static_cast<int>(round_up(tile.magnitudes_begin + magnitudes, int64_t{kMostWordBytes}));
  tile.shared_bytes = tile.slots_begin + tile.warps * tile.slots * kSlotBytes;
}

/// Of a block, which has a multiprocessor to itself, as others would crowd on some; false if it has no room for a warp.
bool place_warps(Tile& tile, Operands operands, const DeviceLimits& device) {
  const int64_t all = ceil_div(int64_t{tile.tiles} * tile.parts, int64_t{device.multiprocessors});
  tile.warps = static_cast<int>(std::min<int64_t>(all, most_warps(tile.sixteens, operands)));
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
  constexpr int64_t kThreadWords = 4;  // for which another warp is not worth while
  const int64_t words = bytes_of_filters(tile, operands) / kMostWordBytes;
  tile.block_warps =
      static_cast<int>(std::clamp(ceil_div(words, 32 * kThreadWords), int64_t{tile.warps},
                                  int64_t{most_warps(tile.sixteens, operands)}));
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

Tile choose_tile(const Problem& problem, const DeviceLimits& device) {
  const Operands operands = operands_of(problem);
  Tile best{};
  double least = std::numeric_limits<double>::infinity();
  for (int sixteens = 1; sixteens <= kMostSixteens; sixteens *= 2) {
    const int64_t passes = ceil_div(problem.k, int64_t{sixteens} * kProductFilters);
    for (const int64_t parts : {int64_t{1}, ceil_div(passes, int64_t{2}), passes}) {
      Tile tile = divided(problem, sixteens, static_cast<int>(parts));
      if (!place_warps(tile, operands, device)) continue;
      const double time = microseconds(problem, tile, device);
      if (time < least) best = tile, least = time;
    }
  }
  return best;
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

namespace {

struct Costs {
  double start, filter_word;  // of 16 bytes, of a thread
  // Of a warp, which waits for each; and of a multiprocessor, one of whose warps does not.
  double step, step_of_sixteen, sixteen;
  double busy_step, busy_step_of_sixteen, busy_sixteen;
  // More, for each word that a whole one would be; and of memory, for filters that are no four neighbours.
  double narrow_step, narrow_sixteen, narrow_output;
};

// Of each kind of operands. Beside 1800 to 2000 times each on an H200, of 522 layers, the standard deviation is 13, 11 and 11 %
// in planes; in rows, 13, 11 and 10 %.
constexpr Costs
    kPlanes[] = {{1.83, 0.164, 0.123, 0.0333, 0.0159, 0.0157, 0, 0.0143, 0.816, 4.3, 0.0768},
                 {1.78, 0.177, 0.0813, 0.0852, 0.0303, 0.0123, 0, 0.0174, 0.749, 3.37, 0.0928},
                 {2.03, 0.0986, 0.242, 0.175, 0.0906, 0.0215, 0.0171, 0.0149, 0.149, 4.15, 0.114}},
    kRows[] = {{1.95, 0.166, 0.108, 0.0832, 0.321, 0.0465, 0, 0.0272, 0.0842, 0.0361, 5.19},
               {1.71, 0.18, 0.166, 0.0787, 0.0957, 0.0121, 0.00552, 0.0152, 0.14, 0, 3.1},
               {1.74, 0.171, 0.219, 0.167, 0.25, 0.00404, 0.0329, 0.0266, 0, 0.138, 3.07}};

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
                              (32 * most_warps(tile.sixteens, operands));
  return costs.start + costs.filter_word * filter_words * double(waves) +
         std::pow(std::pow(memory, kNorm) + std::pow(warp, kNorm) + std::pow(busy, kNorm),
                  1 / kNorm);
}

}  // namespace im2win::cuda::pointwise_mma
