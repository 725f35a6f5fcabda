#include "cuda/fused/estimate.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "checked.hpp"
#include "cuda/fused/forms.hpp"
#include "cuda/fused/pixel_words.hpp"
#include "cuda/fused/stem/shapes.hpp"
#include "cuda/fused/stem/tile.hpp"
#include "cuda/fused/tile.hpp"
#include "cuda/implicit_gemm/split_k/tile.hpp"

namespace im2win::cuda::fused {
namespace {

/// Products have so many filters at least, or of as many those of merged groups, which are mostly zeros.
constexpr int64_t kFilters = 64;

constexpr double kNanosecond = 1e-3;

bool is_split(const Problem& problem) {
  return problem.dtype == IM2WIN_FLOAT32 && problem.math != IM2WIN_MATH_TF32;
}

bool is_tf32(const Problem& problem) {
  return problem.dtype == IM2WIN_FLOAT32 && problem.math == IM2WIN_MATH_TF32;
}

bool is_pixel(const Problem& problem) { return problem.r * problem.s == 1; }

constexpr int kWord = 8;  // 16-bit operands
constexpr int kTf32Word = 4;

/// Operands that both are words of neighbours in memory, of so many elements, are read as they are: filters need no kernel
/// before.
bool reads_words_of(const Problem& problem, int elements) {
  return implicit_gemm::split_k::window_copy(problem) == elements &&
         implicit_gemm::split_k::filter_copy(problem) == elements;
}

bool reads_words(const Problem& problem) {
  return problem.dtype != IM2WIN_FLOAT32 && reads_words_of(problem, kWord);
}

/// Of one group with channels last.
bool is_tf32_of_pixels(const Problem& problem) {
  return is_tf32(problem) && problem.groups == 1 && problem.input.stride[1] == 1;
}

bool reads_tf32_words(const Problem& problem) {
  return is_tf32_of_pixels(problem) && reads_words_of(problem, kTf32Word);
}

/// How many pixels of a row are moved at a time, where their rows are operands as they are; or 0.
int pixels_of_rows(const Problem& problem) {
  if (problem.dtype == IM2WIN_FLOAT32 || problem.groups > 1 || problem.input.stride[1] == 1)
    return 0;
  return row_pixels(with_images_as_rows(problem), operands_of(problem));
}

/// Of so many.
double pixel_row_start(const Problem& problem, int pixels) {
  const double start = pixels == kWord ? 3 : pixels > 1 ? 4 : 5;
  return implicit_gemm::split_k::filter_copy(problem) == kWord ? start : start + 2.5;
}

/// Whether products read windows of TF32 from lines, which come as boxes: single pixels, of planes that are whole words,
/// some together.
bool reads_lines(const Problem& problem) {
  return is_tf32(problem) && is_pixel(problem) && problem.groups == 1 && !problem.is_padded() &&
         problem.input.is_nchw() && problem.c >= kTf32Word && problem.h * problem.w > 1 &&
         problem.c * problem.h * problem.w % kTf32Word == 0;
}

/// Of them, channels of whose planes several begin with the same bank take longer.
bool reads_odd_lines(const Problem& problem) {
  return reads_lines(problem) && problem.h * problem.w % kTf32Word != 0;
}

/// What it takes at least; packing filters that cannot be read in place is a kernel more.
double line_start(const Problem& problem) {
  const double start = reads_odd_lines(problem) ? 5.5 : 3.8;
  return problem.c % kTf32Word == 0 ? start : start + 2.5;
}

/// Whether rows of windows are words of neighbours, and channels to be: see with_planes_as_rows.
bool has_rows_of_words(const Problem& problem) {
  return problem.s % kWord == 0 && with_planes_as_rows(problem).stride_w != problem.stride_w;
}

/// Windows of few channels that have no inputs in common: most of a line that is read is none of a unit's. As channels,
/// columns are in whole words what they are.
bool is_patch(const Problem& problem) {
  constexpr int64_t kFewChannels = 8, kLongStep = 8;
  const bool has_words = problem.dtype != IM2WIN_FLOAT32 && problem.input.stride[1] == 1 &&
                         problem.c_per_group() * (problem.stride_w % kWord) % kWord == 0;
  return problem.c_per_group() < kFewChannels && !has_words &&
         std::min(problem.stride_h, problem.stride_w) >= kLongStep && !has_rows_of_words(problem);
}

/// What it takes at least, however little there is to do.
double start(const Problem& problem, const Problem& merged) {
  const bool has_pixels = problem.input.stride[1] == 1;
  const bool is_for_stem = problem.c_per_group() <= stem::kMaxChannels && stem::is_faster(problem);
  constexpr double kStemTap = 0.01;
  if (is_for_stem && is_split(stem::as_computed(problem))) return stem::has_runs(problem) ? 8 : 9;
  if (is_for_stem) return has_pixels ? 5 : 6 + kStemTap * double(problem.window_elements());
  if (is_split(problem)) return is_pixel(problem) ? 13 : 15.5;
  if (const int pixels = pixels_of_rows(problem); pixels > 0)
    return pixel_row_start(problem, pixels);
  if (reads_lines(problem)) return line_start(problem);
  if (has_rows_of_words(problem)) return 9;
  if (merged.groups == problem.groups && reads_words(problem)) return has_pixels ? 4.8 : 4.5;
  if (reads_tf32_words(problem)) return 3.9;
  return has_pixels ? 10 : 13;
}

/// Of im2win_stem: runs of pixels, of which operands are made and sums of some filters are written. (Beside 118 times of up
/// to 700 us on an H200 half of these are within 5 %.)
double run_microseconds(const Problem& problem) {
  struct Costs {
    double start, operand, filter;
  };
  const Costs costs = is_split(problem) ? Costs{7.5, 0.055, 0.0004} : Costs{5.5, 0.033, 0.0001};
  constexpr double kSingle =
      0.01;  // more, of all channels but one, for windows that do not come in pairs
  const double pixel =
      costs.operand + costs.filter * double(std::min(problem.k_per_group(), kFilters)) +
      (stem::has_pairs(problem, stem::kDenseRuns) ? 0
                                                  : kSingle * double(problem.c_per_group() - 1));
  return costs.start + kNanosecond * pixel * double(problem.output_pixels()) *
                           double(ceil_div(problem.k_per_group(), kFilters));
}

/// Of im2win_stem: bands of several narrow rows of outputs, with channels last. (Of 16 times of up to 34 us on an H200
/// 13 are within 6 %.)
double band_microseconds(const Problem& problem, int output_rows) {
  constexpr double kStart = 4.2, kBand = 1.3, kTile = 3.9;
  const auto bands = double(problem.n * ceil_div(problem.p, int64_t{output_rows}));
  return kStart +
         kNanosecond * bands * (kBand + kTile * double(ceil_div(problem.k_per_group(), kFilters)));
}

/// Of im2win_stem: its chunks of rows of pixels, which may be partly empty.
double stem_microseconds(const Problem& problem) {
  if (stem::has_runs(problem)) return run_microseconds(stem::as_computed(problem));
  if (const int rows = stem::output_rows(problem, stem::kDenseRaw); rows > 1)
    return band_microseconds(problem, rows);
  constexpr int64_t kChunk = 56;
  const bool is_float32 = problem.dtype == IM2WIN_FLOAT32;
  const bool is_dense = problem.r == stem::kDenseTaps && problem.s == stem::kDenseTaps,
             overlaps = problem.stride_h < problem.r || problem.stride_w < problem.s;
  const double pixel = is_tf32(problem) ? 0.075
                       : is_float32     ? (is_dense || !overlaps ? 0.09 : 0.14)
                                        : (is_dense ? 0.055 : 0.075);
  const double pixels = double(problem.n * problem.p) * double(round_up(problem.q, kChunk));
  return (is_split(problem) ? 9
          : is_float32      ? 6
                            : 5) +
         kNanosecond * pixel * pixels * double(ceil_div(problem.k_per_group(), kFilters));
}

/// Of im2win_fused in TF32: lines of a tile's pixels come and its outputs leave, whatever there is to multiply. (Of 40
/// times of 6 to 90 us on an H200 half are within 12 %.)
double line_microseconds(const Problem& problem) {
  const double pixel = (0.05 + 0.0006 * double(problem.c) + 0.0008 * double(problem.k)) *
                       (reads_odd_lines(problem) ? 1.6 : 1);
  return line_start(problem) + kNanosecond * pixel * double(problem.output_pixels());
}

/// Whether pixels of TF32 come and leave in whole words of neighbours.
bool has_word_pixels(const Problem& problem) {
  return is_tf32(problem) && is_pixel(problem) && problem.input.stride[1] == 1 &&
         problem.c % kTf32Word == 0 && problem.k % kTf32Word == 0;
}

/// Of im2win_fused: a window's operands take as long to make for each 64 filters, however few its taps. 16-bit pixels are
/// operands where they are.
double operand_microseconds(const Problem& problem) {
  const bool is_float32 = problem.dtype == IM2WIN_FLOAT32;
  const Problem merged = with_merged_groups(problem, kFilters);
  if (reads_lines(problem)) return line_microseconds(problem);
  if (has_word_pixels(problem))
    return 5 + kNanosecond * 0.06 * double(problem.output_pixels()) *
                   double(ceil_div(problem.k, kFilters));
  if (!is_float32 && merged.groups == 1 &&
      (implicit_gemm::split_k::window_copy(problem) > 1 || pixels_of_rows(problem) > 0))
    return 0;
  const bool is_line = problem.c_per_group() == 1 && problem.r == 1;
  const double pixel = is_line || (is_float32 && is_pixel(problem)) ? 0.13
                       : is_float32                                 ? 0.1
                                                                    : 0.08;
  return 13 + kNanosecond * pixel * double(problem.output_pixels()) * double(merged.groups) *
                  double(ceil_div(merged.k_per_group(), kFilters));
}

/// Pixels of TF32 that are no whole words are copied and rounded by threads, for each tile of filters. (Of five times of 37 to
/// 313 us on an H200 all are within 26 %; 3x3 windows of neighbours take 1.6 to 3 times as long.)
double copied_microseconds(const Problem& problem) {
  constexpr double kStart = 12, kHalves = 0.016, kElements = 0.022;
  constexpr int64_t kTileFilters = 128;
  const int64_t word = std::gcd(pixel_word(problem.input, problem.c), kTf32Word);
  if (!is_tf32_of_pixels(problem) || word == kTf32Word) return 0;
  const auto units = double(problem.n * problem.h * problem.w) *
                     double(ceil_div(problem.c, kTf32Word)) *
                     double(ceil_div(problem.k, kTileFilters));
  return kStart + kNanosecond * units * (word == kTf32Word / 2 ? kHalves : kElements);
}

/// What it takes more, for each product, and each tap of a window.
struct Slopes {
  double product, tap;
  double late_tap = tap;  // of those behind many, where clusters share the window
};

Slopes slopes_of(const Problem& problem) {
  if (pixels_of_rows(problem) > 0) return {0.28e-8, 0.004};
  if (reads_odd_lines(problem)) return {0.55e-8, 0.015};
  if (reads_lines(problem)) return {0.55e-8, 0.0115};
  if (is_split(problem)) return is_pixel(problem) ? Slopes{2.3e-8, 0.005} : Slopes{1.05e-8, 0.002};
  if (reads_words(problem)) return {0.25e-8, 0.0015, 0.0006};
  if (reads_tf32_words(problem)) return {0.6e-8, 0.0027, 0.0015};
  return {0.28e-8, has_rows_of_words(problem) ? 0.0003 : 0.0015};
}

}  // namespace

// Beside 2109 times of up to 80 us on an H200 half of the estimates are within 13 % in float32, and 16 % with 16 bits.
double microseconds(const Problem& problem) {
  constexpr double kPatch = 20, kManyTaps = 1440;
  const Slopes slopes = slopes_of(problem);
  const Problem merged = with_merged_groups(problem, kFilters);
  const double filters = double(merged.groups) * double(round_up(merged.k_per_group(), kFilters));
  const double products =
      filters * double(merged.output_pixels()) * double(merged.window_elements());
  const auto taps = double(problem.window_elements());
  const double multiplied = slopes.product * products + slopes.tap * std::min(taps, kManyTaps) +
                            slopes.late_tap * std::max(taps - kManyTaps, 0.0);
  return std::max(start(problem, merged) + (is_patch(problem) ? kPatch : 0) + multiplied,
                  copied_microseconds(problem));
}

// Beside 208 times of up to 200 us on an H200 half of these are within 13 %; not of words of pixels, which it leaves at what
// they take at least.
double microseconds_of_few_taps(const Problem& problem) {
  const bool is_for_stem =
      problem.r > 1 && problem.c_per_group() <= stem::kMaxChannels && stem::is_faster(problem);
  return std::max(microseconds(problem),
                  is_for_stem ? stem_microseconds(problem) : operand_microseconds(problem));
}

namespace {

/// Of single pixels, of one group.
struct PixelCosts {
  double start, start_of_channel, bytes;  // these of a microsecond
  double pixel, pixel_of_channel;         // of up to 64 filters
  double norm;
};

/// More, where words are halves or less.
struct NarrowCosts {
  double start = 0, input = 0, output = 0;
};

double pixel_microseconds(const Problem& problem, const PixelCosts& costs,
                          const NarrowCosts& narrow) {
  const auto pixels = double(problem.output_pixels()), c = double(problem.c);
  const double bytes = pixels * double(element_bytes(problem.dtype));
  const double memory =
      bytes * (c * (1 + narrow.input) + double(problem.k) * (1 + narrow.output)) / costs.bytes;
  const double operands = pixels * double(ceil_div(problem.k, kFilters)) *
                          (costs.pixel + costs.pixel_of_channel * c) * (1 + narrow.input);
  return costs.start + costs.start_of_channel * c + narrow.start +
         std::pow(std::pow(memory, costs.norm) + std::pow(operands, costs.norm), 1 / costs.norm);
}

}  // namespace

// Beside 94 times of up to 90 us in TF32 on an H200, 124 with 16 bits, and 260 of up to 400 us in float32, its standard
// deviation is 12, 13 and 14 %.
double microseconds_of_planes(const Problem& problem) {
  const int64_t bytes = problem.p * problem.q * element_bytes(problem.dtype);
  const bool is_half = bytes % 16 == 8, is_whole = bytes % 16 == 0;
  if (is_split(problem))
    return pixel_microseconds(problem, {10.5, 0.0136, 2.55e6, 9.25e-05, 8.93e-07, 4},
                              is_whole ? NarrowCosts{} : NarrowCosts{1.37, 0.0321, 1.45});
  if (problem.dtype == IM2WIN_FLOAT32)
    return pixel_microseconds(problem, {3.86, 0.0094, 3.9e6, 6.3e-5, 3e-7, 3.2},
                              is_whole ? NarrowCosts{} : NarrowCosts{2.5, 0.29, 0.29});
  return pixel_microseconds(problem, {2.92, 0.0035, 4.85e6, 2.2e-5, 6.9e-8, 1.73},
                            is_whole  ? NarrowCosts{}
                            : is_half ? NarrowCosts{1.1, 1.38, 1.38}
                                      : NarrowCosts{3.5, 1.31, 1.31});
}

// Beside 122 times in TF32 on an H200, 134 with 16 bits, and 259 in float32, 19, 14 and 11 %.
double microseconds_of_rows(const Problem& problem) {
  if (is_split(problem)) {
    const bool is_whole = problem.c % kTf32Word == 0;
    return pixel_microseconds(
        problem, {11.6, 0.0105, 2.82e6, 9.37e-05, 9.03e-07, 2.36},
        {is_whole ? 0 : 2.27, is_whole ? 0 : 0.703, problem.k % kTf32Word == 0 ? 0 : 0.941});
  }
  const bool has_floats = is_tf32(problem);
  const int64_t word = has_floats ? kTf32Word : kWord;
  const double output = problem.k % word == 0 ? 0 : has_floats ? 2.74 : 1.33;
  if (has_floats)
    return pixel_microseconds(problem, {1.91, 0.0106, 4.27e6, 4.9e-5, 8.4e-8, 2},
                              {problem.c % word == word / 2 ? 9.7 : 0, 0, output});
  const int64_t channels = problem.c % word;
  return pixel_microseconds(problem, {2.4, 0.0036, 4.3e6, 2.44e-5, 1.06e-7, 2.5},
                            {0,
                             channels == 0          ? 0
                             : channels == word / 2 ? 1.12
                                                    : 2.62,
                             output});
}

namespace {

/// Of im2win_stem, with channels last, which is made for three of them: a pixel for 64 filters, and for others behind these.
/// (As most of 45 times of 5 to 260 us on an H200 are, but of windows of more than 4 x 4 taps, which take longer.)
double stem_pixel_microseconds(const Problem& problem) {
  constexpr double kStart = 5, kDense = 4.6e-5, kPixel = 6e-5, kPixelOfFour = 1.2e-4;
  constexpr int64_t kDenseTaps = 9;
  const auto sets = double(ceil_div(problem.k, kFilters));
  const double pixel = problem.c > 3                         ? kPixelOfFour * (0.45 + 0.55 * sets)
                       : problem.r * problem.s == kDenseTaps ? kDense * sets
                                                             : kPixel * sets;
  return kStart + pixel * double(problem.output_pixels());
}

/// Of im2win_fused: a pixel's units are made for each 64 filters, of which a tile multiplies mostly zeros. They take longer
/// where they are no boxes of whole words, by their channels or steps, as threads copy them then. (Beside 280 times of 4 to 260
/// us on an H200 half of these are within 15 %, and the standard deviation is 25.)
double window_microseconds(const Problem& form) {
  struct Costs {
    double start, pixel, unit;
  };
  constexpr double kSets = 1.2;
  constexpr Costs kBoxes = {6, 4.2e-5, 3.7e-7}, kBoxesOfSteps = {6, 4.2e-5, 1.4e-6},
                  kSteps = {10.8, 6.5e-5, 5e-6}, kHalves = {10.8, 6.5e-5, 2e-6},
                  kQuarters = {10.8, 6.5e-5, 2.6e-6}, kElements = {10.8, 6.5e-5, 5.8e-6};
  const int64_t word = std::gcd(pixel_word(form.input, form.c), int64_t{kWord});
  const Costs& costs = word == kWord ? (form.stride_w == 1   ? kBoxes
                                        : form.stride_w == 2 ? kBoxesOfSteps
                                                             : kSteps)
                       : word == 4   ? kHalves
                       : word == 2   ? kQuarters
                                     : kElements;
  const auto units = double(form.r * form.s * ceil_div(form.c, int64_t{kWord}));
  const double sets = std::pow(double(ceil_div(form.k, kFilters)), kSets);
  return costs.start + (costs.pixel * sets + costs.unit * units) * double(form.output_pixels());
}

}  // namespace

double microseconds_of_few_channels(const Problem& problem) {
  if (problem.c <= stem::kMaxChannels && stem::is_faster(problem))
    return stem_pixel_microseconds(problem);
  return std::min(window_microseconds(problem),
                  window_microseconds(with_columns_as_channels(problem)));
}

}  // namespace im2win::cuda::fused
