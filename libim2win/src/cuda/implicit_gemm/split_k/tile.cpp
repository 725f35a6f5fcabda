#include "cuda/implicit_gemm/split_k/tile.hpp"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <initializer_list>
#include <utility>

#include "checked.hpp"

namespace im2win::cuda::implicit_gemm::split_k {
namespace {

constexpr int64_t kWordBytes = 16;

int word_of(int64_t element_bytes) { return static_cast<int>(kWordBytes / element_bytes); }

/// The longest copy that all of these are multiples of.
int copy_of(int word, std::initializer_list<int64_t> elements) {
  for (const int copy : {word, word / 2})
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
int64_t elements_at(const void* data, int64_t element_bytes) {
  return static_cast<int64_t>(reinterpret_cast<uintptr_t>(data)) % kWordBytes / element_bytes;
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

int64_t stages_of(const Problem& problem, int edge) {
  return ceil_div(problem.window_elements(), stage_taps(edge, element_bytes(problem.dtype)));
}

/// In microseconds, of a small tile and of a large one.
struct Times {
  double start[2];
  /// Of a stage, by what is copied at a time: words, half words, those of filters alone, elements.
  double words, half_words, filter_words, elements;
  double large_stage;  // times those
  double exchange[2];  // of a cluster
  double shared[2];    // times all, of two blocks of a multiprocessor
  double whole;        // part of a round that takes as long if it is not whole
};

constexpr Times kFloats = {{1.55, 2.23}, 0.84,         0.95,        1.02, 1.1,
                           1.45,         {0.56, 0.86}, {1.5, 1.54}, 0.58};
constexpr Times kTf32 = {{1.85, 2.7}, 0.53,         0.63,         0.78, 0.83,
                         1.04,        {0.72, 0.83}, {1.35, 1.41}, 0.67};
constexpr Times kHalves = {{2.09, 2.93}, 0.46,        0.4,          0.95, 1.1,
                           1.06,         {0.57, 0.8}, {1.34, 1.34}, 0.69};

const Times& times_of(const Problem& problem) {
  if (problem.dtype != IM2WIN_FLOAT32) return kHalves;
  return problem.math == IM2WIN_MATH_TF32 ? kTf32 : kFloats;
}

/// Whether elements that are read together, of neighbouring pixels, are in sectors of their own, as of patches.
bool are_far_apart(const Problem& problem) {
  constexpr int64_t kSectorBytes = 32;
  const int64_t column = std::abs(step(problem.input, 3));
  return !are_channels_last(problem) && column > 0 &&
         exceeds(kSectorBytes - 1, {column, problem.stride_w, element_bytes(problem.dtype)});
}

double stage_microseconds(const Problem& problem, const Times& times) {
  constexpr double kApart = 1.2;  // at least
  const int64_t bytes = element_bytes(problem.dtype);
  const double by_elements = are_far_apart(problem) ? kApart : 1;
  switch (copies_at(bytes, window_copy(problem), nullptr, filter_copy(problem), nullptr)) {
    case Copies::kWords: return times.words;
    case Copies::kHalfWords: return times.half_words;
    case Copies::kFilterWords:
    case Copies::kFilterHalfWords: return by_elements * times.filter_words;
    case Copies::kElements: return by_elements * times.elements;
  }
  return 0;
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

// Fitted to 1842 times of up to 60 us on an H200, nearly all of inputs that are not in its L2 cache: half of them are within
// 6 %, and tiles chosen so took 0.5 % longer than the best. Clusters of four and more find no place on a few
// multiprocessors.
double microseconds(const Problem& problem, const Tile& tile, int multiprocessors) {
  constexpr int kBlocks = 2;  // of a multiprocessor
  constexpr double kPlaces = 10.0 / 11;
  const Times& times = times_of(problem);
  const int large = tile.edge == kLargeEdge;
  const double stage = stage_microseconds(problem, times) * (large ? times.large_stage : 1);
  const int64_t stages = ceil_div(stages_of(problem, tile.edge), int64_t{tile.splits});
  const double exchange = tile.splits > 1 ? times.exchange[large] : 0;
  const double blocks = double(blocks_of(problem, tile.edge)) * tile.splits;
  const double places = kBlocks * multiprocessors * (tile.splits >= 4 ? kPlaces : 1);
  // A round that is not whole takes less, as blocks do not end together.
  const double rounds = std::max(blocks / places, 1.0);
  return (times.start[large] + stage * double(stages) + exchange) *
         (blocks > places / kBlocks ? times.shared[large] : 1) *
         (times.whole * std::ceil(rounds) + (1 - times.whole) * rounds);
}

Tile choose_tile(const Problem& problem, int multiprocessors, bool has_clusters) {
  Tile best = {kSmallEdge, 1};
  double least = microseconds(problem, best, multiprocessors);
  for (const int edge : {kSmallEdge, kLargeEdge})
    for (int splits = 1; splits <= (has_clusters ? kMostSplits : 1); splits *= 2) {
      if (splits > stages_of(problem, edge)) break;
      const Tile tile = {edge, splits};
      const double time = microseconds(problem, tile, multiprocessors);
      if (time < least) best = tile, least = time;
    }
  return best;
}

int window_copy(const Problem& problem) {
  const Tensor& x = problem.input;
  const int word = word_of(element_bytes(problem.dtype));
  if (are_channels_last(problem)) {
    if (!is_step(x, 1, 1)) return 1;
    return copy_of(word, {problem.c_per_group(), step(x, 0), step(x, 2), step(x, 3)});
  }
  // A step of windows that is never taken may be 1, whatever the sizes.
  const bool are_pixels =
      std::max({problem.r, problem.s, problem.stride_h, problem.stride_w}) == 1 &&
      problem.p == problem.h && problem.q == problem.w && is_step(x, 3, 1) &&
      is_step(x, 2, problem.w);
  // Modulo a word, as of no image there may be more pixels than 64 bits count.
  const int64_t pixels = (problem.h % word) * (problem.w % word);
  return are_pixels ? copy_of(word, {pixels, step(x, 0), step(x, 1)}) : 1;
}

int filter_copy(const Problem& problem) {
  const Tensor& f = problem.filter;
  const int64_t c = problem.c_per_group(), r = problem.r, s = problem.s;
  const bool are_taps = are_channels_last(problem)
                            ? is_step(f, 1, 1) && is_step(f, 3, c) && is_step(f, 2, c * s)
                            : is_step(f, 3, 1) && is_step(f, 2, s) && is_step(f, 1, r * s);
  const int word = word_of(element_bytes(problem.dtype));
  return are_taps ? copy_of(word, {problem.window_elements(), step(f, 0)}) : 1;
}

bool has_output_words(const Problem& problem) {
  const Tensor& y = problem.output;
  const auto are_words = [](std::initializer_list<int64_t> elements) {
    return copy_of(kOutputWord, elements) == kOutputWord;
  };
  if (are_channels_last(problem))
    return is_step(y, 1, 1) &&
           are_words({problem.k_per_group(), step(y, 0), step(y, 2), step(y, 3)});
  // Modulo a word, as of no image there may be more pixels than 64 bits count.
  const int64_t pixels = (problem.p % kOutputWord) * (problem.q % kOutputWord);
  return is_step(y, 3, 1) && is_step(y, 2, problem.q) &&
         are_words({pixels, step(y, 0), step(y, 1)});
}

Copies copies_at(int64_t element_bytes, int window_copy, const void* input, int filter_copy,
                 const void* filter) {
  const int word = word_of(element_bytes);
  const int windows = std::min(window_copy, copy_of(word, {elements_at(input, element_bytes)}));
  const int filters = std::min(filter_copy, copy_of(word, {elements_at(filter, element_bytes)}));
  const int both = std::min(windows, filters);
  if (both > 1) return both == word ? Copies::kWords : Copies::kHalfWords;
  if (filters > 1) return filters == word ? Copies::kFilterWords : Copies::kFilterHalfWords;
  return Copies::kElements;
}

}  // namespace im2win::cuda::implicit_gemm::split_k
