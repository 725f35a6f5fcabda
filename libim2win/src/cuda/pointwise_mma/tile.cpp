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

int filter_bytes(const Tile& tile, int element_bytes) {
  return tile.part_filters() * tile.filter_pitch() * element_bytes;
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

void place(Tile& tile, int element_bytes) {
  constexpr int kFloatBytes = 4;
  tile.biases_begin = filter_bytes(tile, element_bytes);
  tile.slots_begin = static_cast<int>(
      round_up(tile.biases_begin + tile.part_filters() * kFloatBytes, int64_t{kMostWordBytes}));
  tile.shared_bytes = tile.slots_begin + tile.warps * tile.slots * kSlotBytes;
}

/// Of a block, which has a multiprocessor to itself, as others would crowd on some; false if it has no room for a warp.
bool place_warps(Tile& tile, int element_bytes, const DeviceLimits& device) {
  const int64_t all = ceil_div(int64_t{tile.tiles} * tile.parts, int64_t{device.multiprocessors});
  tile.warps = static_cast<int>(std::min<int64_t>(all, most_warps(tile.sixteens, element_bytes)));
  for (; tile.warps > 0; --tile.warps) {
    place(tile, element_bytes);
    if (tile.shared_bytes <= device.shared_bytes) break;
  }
  if (tile.warps == 0) return false;
  tile.shared_bytes = std::max(tile.shared_bytes, device.shared_bytes / 2 + 1);
  tile.blocks =
      static_cast<int>(std::min(ceil_div(int64_t{tile.tiles}, int64_t{tile.warps}),
                                int64_t{std::max(device.multiprocessors / tile.parts, 1)}));
  return true;
}

}  // namespace

bool are_rows(const Problem& problem) {
  if (problem.h * problem.w > 1 && are_planes(problem)) return false;
  return pointwise::pixel_stride(problem.input) && pointwise::pixel_stride(problem.output) &&
         (!problem.has_residual || pointwise::pixel_stride(problem.residual));
}

std::string refusal(const Problem& problem) {
  const bool is_tf32 = problem.dtype == IM2WIN_FLOAT32 && problem.math == IM2WIN_MATH_TF32;
  if (problem.dtype != IM2WIN_FLOAT16 && problem.dtype != IM2WIN_BFLOAT16 && !is_tf32)
    return text("takes float16, bfloat16 and TF32, not ", dtype_name(problem.dtype));
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
  const int bytes = static_cast<int>(element_bytes(problem.dtype));
  Tile best{};
  double least = std::numeric_limits<double>::infinity();
  for (int sixteens = 1; sixteens <= kMostSixteens; sixteens *= 2) {
    const int64_t passes = ceil_div(problem.k, int64_t{sixteens} * kProductFilters);
    for (const int64_t parts : {int64_t{1}, ceil_div(passes, int64_t{2}), passes}) {
      Tile tile = divided(problem, sixteens, static_cast<int>(parts));
      if (!place_warps(tile, bytes, device)) continue;
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
  double busy_step, busy_sixteen;
  // More, for each word that a whole one would be; and of memory, for filters that are no four neighbours.
  double narrow_step, narrow_sixteen, narrow_output;
};

// Beside 630 times in TF32 on an H200, and 779 with 16 bits, in planes the standard deviation is 11 and 14 %; in rows,
// beside 585 and 823, 12 and 16 %.
constexpr Costs kPlanesTf32 = {1.96, 0.146, 0.0883, 0.0813, 0.0322, 0.0175, 0.0267, 0.49, 2.36, 0},
                kPlanesHalf = {1.92, 0.082, 0.116, 0.0342, 0.0221, 0.0183, 0.0192, 0.77, 3.54, 0},
                kRowsTf32 = {1.95, 0.144, 0.102, 0.0943, 0.102, 0.0199, 0.0323, 0, 0, 3.76},
                kRowsHalf = {1.87, 0.1, 0.105, 0.0524, 0.438, 0.0497, 0.0387, 0.16, 0, 5.28};

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
  const bool is_tf32 = element == 4;
  const Costs& costs =
      are_rows(problem) ? (is_tf32 ? kRowsTf32 : kRowsHalf) : (is_tf32 ? kPlanesTf32 : kPlanesHalf);
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
      (tile.steps * costs.busy_step * narrow_step + costs.busy_sixteen * narrow_sixteen);
  const double filter_words =
      double(filter_bytes(tile, element)) / kMostWordBytes / (32 * tile.warps);
  return costs.start + costs.filter_word * filter_words * double(waves) +
         std::pow(std::pow(memory, kNorm) + std::pow(warp, kNorm) + std::pow(busy, kNorm),
                  1 / kNorm);
}

}  // namespace im2win::cuda::pointwise_mma
