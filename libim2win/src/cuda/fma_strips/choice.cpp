#include "cuda/fma_strips/choice.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>

#include "checked.hpp"
#include "cuda/fma_strips/tile.hpp"
#include "cuda/grouped/tile.hpp"
#include "cuda/implicit_gemm/choice.hpp"

namespace im2win::cuda::fma_strips {
namespace {

/// Few filters, or windows of few elements, however many pixels there are.
bool is_for_strips(const Problem& problem) {
  constexpr int64_t kVeryFew = 4, kFew = kMostFilters, kSome = 16, kRest = 20,
                    kMany = 128;  // filters
  constexpr int64_t kManyChannels = 64, kManyPixels = 1 << 15, kShortRow = 32;
  constexpr double kFewProducts = 1 << 26;
  const int64_t k = problem.k_per_group(), channels = problem.c_per_group();
  const int64_t window = problem.window_elements();
  const bool has_taps = window > channels, has_steps = problem.stride_h > 1 || problem.stride_w > 1;
  const bool is_float32 = problem.dtype == IM2WIN_FLOAT32 && problem.math != IM2WIN_MATH_TF32;
  if (problem.dtype == IM2WIN_FLOAT64) return false;
  // Groups im2win_fused merges, where it does not refuse their windows. Of fewer channels a sector of memory would be
  // read again for each of several groups.
  if (problem.groups > 1)
    return is_float32 && !has_steps && channels >= 4 && window < 16 && k <= kMany &&
           !problem.input.is_nchw();
  // A block goes through all channels, a chunk after another.
  if (channels > kManyChannels && problem.output_pixels() < kManyPixels) return false;
  // Few outputs of few channels, too few for the tiles of others.
  const double products = double(problem.output.elements()) * double(window);
  if (has_taps && !has_steps && k <= kRest && channels <= kFew && window <= 160 &&
      products <= kFewProducts)
    return true;
  if (!is_float32) {
    if (has_taps && k <= kFew && window <= (k <= kVeryFew ? 256 : 128)) return true;
    // Of a pixel's few channels: others have most of theirs in vain.
    if (!has_taps && !has_steps && problem.dtype != IM2WIN_FLOAT32 && channels <= kSome &&
        problem.input.stride[1] == 1 && problem.output.stride[1] == 1 && k * channels <= 48)
      return true;
    // Rows that im2win_stem's chunks are mostly too long for.
    return problem.dtype != IM2WIN_FLOAT32 && has_taps && !has_steps && k <= kSome &&
           window <= 32 && problem.q <= kShortRow;
  }
  if (!has_steps && window < 16) return k <= kMany;  // which im2win_fused refuses
  if (!has_steps && has_taps && window <= 32) return k <= kSome;
  if (!has_taps) return k <= kFew && channels <= (problem.input.is_nchw() ? 32 : kManyChannels);
  return k <= kVeryFew || (k <= kFew && window <= 400);
}

/// Little to do, for which it needs but one kernel, of little start-up; or much less than others make of it.
bool is_quick(const Problem& problem) {
  if (problem.groups == 1 && problem.window_elements() == problem.c) return false;
  return microseconds(problem) < grouped::least_microseconds(problem);
}

}  // namespace

// A chunk is waited for longer than the cost of a tile says, which is to compare tiles. Groups' filters of a pixel that
// are no whole words share sectors of memory, which are written in parts. This fits 1250 times of up to 40 us on an
// H200, half of them within 12 %.
double microseconds(const Problem& given) {
  constexpr int kMultiprocessors = 132;
  constexpr double kCycle = 0.00081, kChunk = 1, kSharedSector = 0.00002;
  constexpr double kRefused = std::numeric_limits<double>::infinity();
  if (given.dtype == IM2WIN_FLOAT64 || !refusal(given).empty()) return kRefused;
  const Problem problem = as_single_rows(given);
  std::optional<Tile> tile = choose_tile(problem, vector_of(problem), kMultiprocessors);
  if (!tile) tile = choose_tile(problem, 1, kMultiprocessors);
  const double rounds = std::ceil(double(blocks_of(problem, *tile)) / kBlocks / kMultiprocessors);
  const auto chunks = double(ceil_div(problem.c_per_group(), tile->chunk));
  const bool shares_sectors = problem.groups > 1 && problem.output.stride[1] == 1 &&
                              problem.k_per_group() % kMostFilters != 0;
  return kCycle * cost(problem, *tile, kMultiprocessors) + kChunk * rounds * chunks +
         (shares_sectors ? kSharedSector * double(problem.output.elements()) : 0);
}

bool is_faster(const Problem& problem) {
  if (implicit_gemm::is_for_tiles(problem))
    return microseconds(problem) < implicit_gemm::microseconds(problem);
  return is_for_strips(problem) || is_quick(problem);
}

bool is_faster_than_depthwise(const Problem& problem) {
  constexpr int64_t kFewPlanes = 128, kLargeWindow = 8;
  constexpr double kFewProducts = 1 << 22;
  const double products = double(problem.output.elements()) * double(problem.window_elements());
  return problem.n * problem.k <= kFewPlanes && std::min(problem.r, problem.s) >= kLargeWindow &&
         products <= kFewProducts;
}

}  // namespace im2win::cuda::fma_strips
