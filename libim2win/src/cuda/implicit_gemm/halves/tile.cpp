#include "cuda/implicit_gemm/halves/tile.hpp"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <initializer_list>
#include <utility>

#include "checked.hpp"

namespace im2win::cuda::implicit_gemm::halves {
namespace {

constexpr int kWord = 8, kHalfWord = 4;  // elements of 16 and of 8 bytes

/// The longest copy that all of these are multiples of.
int copy_of(std::initializer_list<int64_t> elements) {
  for (const int copy : {kWord, kHalfWord})
    if (std::all_of(elements.begin(), elements.end(), [&](int64_t x) { return x % copy == 0; }))
      return copy;
  return 1;
}

/// From an element of a dimension to the next; 0 where there is none.
int64_t step(const Tensor& tensor, int dimension) {
  return tensor.size[dimension] > 1 ? tensor.stride[dimension] : 0;
}

bool is_step(const Tensor& tensor, int dimension, int64_t stride) {
  return tensor.size[dimension] <= 1 || tensor.stride[dimension] == stride;
}

/// Of an address, modulo a word.
int64_t elements_at(const void* data) {
  return static_cast<int64_t>(reinterpret_cast<uintptr_t>(data) / 2 % kWord);
}

/// Whether so many such steps, and those of the other dimensions, add up to less than 2^31 elements.
bool is_narrow(std::initializer_list<std::pair<int64_t, int64_t>> counts_and_steps) {
  constexpr int64_t kMost = (int64_t{1} << 31) - 1;
  int64_t reach = 0;
  for (const auto& [count, step] : counts_and_steps) {
    if (count == 0 || step == 0) continue;
    if (exceeds(kMost, {count, std::abs(step)})) return false;
    reach += count * std::abs(step);
  }
  return reach <= kMost;
}

}  // namespace

std::string refusal(const Problem& problem) {
  constexpr int64_t kMostSize = 1 << 28, kMostBlocks = int64_t{1} << 30, kMostCount = INT32_MAX;
  const int64_t padded_h = problem.padding_top + problem.h + problem.padding_bottom;
  if (std::max(padded_h, problem.padded_w()) >= kMostSize) return "takes padded sizes below 2^28";
  const Tensor &x = problem.input, &f = problem.filter;
  const int64_t rows = (problem.r - 1) * problem.dilation_h,
                columns = (problem.s - 1) * problem.dilation_w;
  if (!is_narrow(
          {{problem.c_per_group() - 1, step(x, 1)}, {rows, step(x, 2)}, {columns, step(x, 3)}}) ||
      !is_narrow({{problem.c_per_group() - 1, step(f, 1)},
                  {problem.r - 1, step(f, 2)},
                  {problem.s - 1, step(f, 3)}}))
    return "takes windows and filters that span fewer than 2^31 elements";
  if (problem.output_pixels() > kMostCount || problem.k > kMostCount ||
      blocks_of(problem, kSmallEdge) * kMostSplits >= kMostBlocks)
    return "takes fewer than 2^31 pixels and filters, and 2^27 tiles";
  return "";
}

// Fitted to times of up to 40 us on an H200, 14 % (a standard deviation), of a form that let the next kernel start at
// once, and that found the length of each copy when it was due; of its tiles, those named took 0.6 % longer than the best.
double microseconds(const Problem& problem, const Tile& tile, int multiprocessors) {
  struct Times {
    double start, stage, exchange, shared;
  };
  constexpr Times kSmall = {1.95, 1.55, 0.59, 0.12}, kLarge = {4.33, 1.49, 0.35, 0.18};
  constexpr double kExchangedWith = 0.1;
  constexpr int kBlocks = 2;  // of a multiprocessor
  const Times& times = tile.edge == kSmallEdge ? kSmall : kLarge;
  const int64_t stages = ceil_div(problem.window_elements(), stage_taps(tile.edge));
  const auto blocks = double(blocks_of(problem, tile.edge) * tile.splits);
  const double alone = times.start + times.stage * double(ceil_div(stages, tile.splits)) +
                       (tile.splits > 1 ? times.exchange * (1 + kExchangedWith * tile.splits) : 0);
  return std::ceil(blocks / kBlocks / multiprocessors) * alone *
         (blocks > multiprocessors ? 1 + times.shared : 1);
}

Tile choose_tile(const Problem& problem, int multiprocessors, bool has_clusters) {
  const auto time = [&](const Tile& tile) { return microseconds(problem, tile, multiprocessors); };
  Tile best = {kSmallEdge, 1};
  for (const int edge : {kSmallEdge, kLargeEdge})
    for (int splits = 1; splits <= (has_clusters ? kMostSplits : 1); splits *= 2) {
      const bool has_stages = splits <= ceil_div(problem.window_elements(), stage_taps(edge));
      if (has_stages && time({edge, splits}) < time(best)) best = {edge, splits};
    }
  return best;
}

int window_copy(const Problem& problem) {
  const Tensor& x = problem.input;
  if (are_channels_last(problem)) {
    if (!is_step(x, 1, 1)) return 1;
    return copy_of({problem.c_per_group(), step(x, 0), step(x, 2), step(x, 3)});
  }
  // A step of windows that is never taken may be 1, whatever the sizes.
  const bool are_pixels = problem.r * problem.s * problem.stride_h * problem.stride_w == 1 &&
                          problem.p == problem.h && problem.q == problem.w && is_step(x, 3, 1) &&
                          is_step(x, 2, problem.w);
  return are_pixels ? copy_of({problem.h * problem.w, step(x, 0), step(x, 1)}) : 1;
}

int filter_copy(const Problem& problem) {
  const Tensor& f = problem.filter;
  const int64_t c = problem.c_per_group(), r = problem.r, s = problem.s;
  const bool are_taps = are_channels_last(problem)
                            ? is_step(f, 1, 1) && is_step(f, 3, c) && is_step(f, 2, c * s)
                            : is_step(f, 3, 1) && is_step(f, 2, s) && is_step(f, 1, r * s);
  return are_taps ? copy_of({problem.window_elements(), step(f, 0)}) : 1;
}

Copies copies_at(int window_copy, const void* input, int filter_copy, const void* filter) {
  const int windows = std::min(window_copy, copy_of({elements_at(input)}));
  const int filters = std::min(filter_copy, copy_of({elements_at(filter)}));
  const int both = std::min(windows, filters);
  if (both > 1) return both == kWord ? Copies::kWords : Copies::kHalfWords;
  if (filters > 1) return filters == kWord ? Copies::kFilterWords : Copies::kFilterHalfWords;
  return Copies::kElements;
}

}  // namespace im2win::cuda::implicit_gemm::halves
