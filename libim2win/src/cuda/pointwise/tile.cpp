#include "cuda/pointwise/tile.hpp"

#include <algorithm>
#include <iterator>

#include "checked.hpp"
#include "status.hpp"

namespace im2win::cuda::pointwise {
namespace {

constexpr int64_t kMaxSplits = 64;
/// Of a block, with compute capability 9.0.
constexpr int kSharedBytes = 227 * 1024;

/// The narrowest for so many filters of a split. Boxes of outputs, of 64 filters, must not reach into those of the
/// next one.
int shape_for(int64_t filters, bool is_split) {
  for (int i = 0; i < int{std::size(kShapes)}; ++i) {
    const int own = kShapes[i].filters();
    if (own >= filters && (!is_split || own % kBoxFilters == 0)) return i;
  }
  return -1;
}

/// Of a tile, in elements: its offsets fit 32 bits.
constexpr int64_t kMaxStride = int64_t{1} << 24;

bool has_pixels(const Tensor& tensor) {
  const auto stride = pixel_stride(tensor);
  return stride && *stride >= 0 && *stride < kMaxStride;
}

/// As many as there is room for, of so many channels; none if these are too few.
std::optional<Tile> fit_stages(Tile tile, int64_t channels, int64_t pixels) {
  constexpr int64_t kFewStages = 4;
  // Stages of more pixels save a warpgroup's turns, where all multiprocessors have several.
  constexpr int64_t kManyPixels = 1 << 16;
  const Shape& shape = kShapes[tile.shape];
  const int64_t chunks = ceil_div(channels, int64_t{kStageChannels});
  tile.row_units = pixels < kManyPixels || channels > 32 ? 8 : channels > 16 ? 4 : 2;
  tile.pixels = kStageBytes / tile.row_bytes();
  const int64_t before =
      kFiltersBegin + round_up(chunks * shape.filters() * tile.row_bytes(), kSwizzleBytes);
  const int after = 4 * shape.warpgroups * shape.output_bytes();
  const int64_t stages = (kSharedBytes - before - after) / kStageBytes;
  if (stages < kFewStages) return std::nullopt;
  tile.chunks = static_cast<int>(chunks);
  tile.stages = static_cast<int>(std::min(stages, int64_t{kMaxStages}));
  tile.stages_begin = static_cast<int>(before);
  tile.outputs_begin = tile.stages_begin + tile.stages * kStageBytes;
  tile.shared_bytes = tile.outputs_begin + after;
  return tile;
}

}  // namespace

std::optional<int64_t> pixel_stride(const Tensor& tensor) {
  if (tensor.size[1] > 1 && tensor.stride[1] != 1) return std::nullopt;
  std::optional<int64_t> stride;
  int64_t pixels = 1;  // of the dimensions so far
  for (const int dimension : {3, 2, 0}) {
    if (tensor.size[dimension] == 1) continue;
    if (!stride) stride = tensor.stride[dimension];
    if (tensor.stride[dimension] != pixels * *stride) return std::nullopt;
    pixels *= tensor.size[dimension];
  }
  return stride.value_or(tensor.size[1]);
}

std::string refusal_of_windows(const Problem& problem) {
  if (problem.r != 1 || problem.s != 1 || problem.is_padded() || problem.stride_h != 1 ||
      problem.stride_w != 1)
    return "takes windows of single pixels, one next to the other, without padding";
  return problem.groups == 1 ? "" : text("takes one group, not ", problem.groups);
}

std::string refusal(const Problem& problem) {
  if (problem.dtype != IM2WIN_FLOAT16 && problem.dtype != IM2WIN_BFLOAT16)
    return text("takes float16 and bfloat16, not ", dtype_name(problem.dtype));
  const std::string windows = refusal_of_windows(problem);
  if (!windows.empty()) return windows;
  if (!has_pixels(problem.input) || !has_pixels(problem.output) ||
      (problem.has_residual && !has_pixels(problem.residual)))
    return "takes tensors whose channels are neighbours, and whose pixels are evenly spaced";
  if (problem.c > 1 && problem.filter.stride[1] != 1)
    return "takes filters whose channels are neighbours";
  if (problem.output_pixels() > INT32_MAX)
    return text("takes fewer than 2^31 pixels, not ", problem.output_pixels());
  if (!choose_tile(problem)) return text("has no room for the filters of ", problem.c, " channels");
  return "";
}

std::optional<Tile> choose_tile(const Problem& problem) {
  if (problem.c > INT32_MAX || problem.k > INT32_MAX) return std::nullopt;
  for (int64_t splits = 1; splits <= kMaxSplits; ++splits) {
    const int shape = shape_for(ceil_div(problem.k, splits), splits > 1);
    if (shape < 0) continue;
    const Tile split = {shape, static_cast<int>(splits), 0, 0, 0, 0, 0, 0, 0};
    const auto tile = fit_stages(split, problem.c, problem.output_pixels());
    if (tile) return tile;
  }
  return std::nullopt;
}

bool is_faster(const Problem& problem) {
  constexpr int64_t kWord = 8;  // elements of 16 bytes
  constexpr int64_t kFewChannels = 40, kSomeChannels = 128, kManyChannels = 384,
                    kMostChannels = 512;
  constexpr int64_t kFewFilters = 64, kSomeFilters = 128, kManyFilters = 256;
  constexpr int64_t kMiB = 1 << 20, kVeryFewBytes = 2 * kMiB, kFewBytes = 16 * kMiB,
                    kSomeBytes = 40 * kMiB;
  constexpr int64_t kManyPixels = 1 << 15;
  const int64_t c = problem.c, k = problem.k, pixels = problem.output_pixels();
  // Of an odd number of channels all elements come by themselves.
  if (c % 2 != 0 || (c < kWord && k < kWord) || !refusal(problem).empty()) return false;
  const bool has_word_channels = c % kWord == 0, has_word_filters = k % kWord == 0;
  // A residual comes only when sums wait for it.
  if (problem.has_residual && has_word_filters) return false;
  const int64_t bytes = 2 * (pixels * (c + k) + c * k);
  if (bytes <= kVeryFewBytes) return true;
  if (!has_word_channels && c > 8 * k) return false;
  if (!has_word_filters) return c <= kMostChannels;
  if (!has_word_channels) return c <= kManyChannels;
  if (c > kManyChannels) return c <= kMostChannels && k <= kSomeFilters && bytes <= kFewBytes;
  if (k > kManyFilters) return c <= kSomeChannels && pixels >= kManyPixels;
  // Both are as fast as memory, and im2win_fused has fewer barriers.
  if (k <= kFewFilters && c > kFewChannels) return bytes <= kSomeBytes;
  return true;
}

// Beside 133 times of up to 20 us on an H200 its standard deviation is 16 %.
double microseconds(const Problem& problem) {
  constexpr int64_t kWord = 8;  // elements of 16 bytes
  constexpr double kStart = 2.1, kChannel = 0.00265, kFilters = 1.7, kManyFilters = 200,
                   kByte = 0.2e-6, kCopied = 2.9;
  const auto c = double(problem.c), k = double(problem.k);
  const double bytes = 2 * (double(problem.output_pixels()) * (c + k) + c * k);
  return kStart + kChannel * c + kFilters * std::min(k / kManyFilters, 1.0) + kByte * bytes +
         (problem.c % kWord == 0 ? 0 : kCopied);
}

}  // namespace im2win::cuda::pointwise
