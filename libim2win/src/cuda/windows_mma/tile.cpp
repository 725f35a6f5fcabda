#include "cuda/windows_mma/tile.hpp"

#include <algorithm>
#include <cmath>
#include <vector>

#include "checked.hpp"
#include "cuda/fused/pixel_words.hpp"
#include "cuda/pointwise/tile.hpp"
#include "cuda/words.hpp"
#include "status.hpp"

namespace im2win::cuda::windows_mma {

using namespace pointwise_mma;

namespace {

/// Of a window, whose filters leave room for slots on any device.
constexpr int64_t kMostElements = 640;
// Whose numbers fit 32 bits, and sums of whose positions do: see WindowStream.
constexpr int64_t kMostFilters = 1 << 16, kMostPixels = 1 << 30, kMostExtent = 1 << 29;
constexpr double kMostSpan = 1 << 30;

/// With the elements of windows as channels of pixels.
Problem as_pixels(const Problem& problem) {
  Problem pixels = problem;
  pixels.c = problem.window_elements();
  pixels.h = problem.p;
  pixels.w = problem.q;
  pixels.r = pixels.s = pixels.stride_h = pixels.stride_w = 1;
  pixels.dilation_h = pixels.dilation_w = 1;
  pixels.padding_top = pixels.padding_bottom = pixels.padding_left = pixels.padding_right = 0;
  pixels.input = {{pixels.n, pixels.c, pixels.h, pixels.w},
                  {pixels.c * pixels.w * pixels.h, 1, pixels.c * pixels.w, pixels.c}};
  return pixels;
}

}  // namespace

std::string refusal(const Problem& problem) {
  if (problem.dtype != IM2WIN_FLOAT16 && problem.dtype != IM2WIN_BFLOAT16)
    return text("takes float16 and bfloat16, not ", dtype_name(problem.dtype));
  if (problem.groups != 1) return text("takes one group, not ", problem.groups);
  if ((problem.c > 1 && problem.input.stride[1] != 1) || !pointwise::pixel_stride(problem.output) ||
      (problem.has_residual && !pointwise::pixel_stride(problem.residual)))
    return "takes tensors whose channels are neighbours, of evenly spaced pixels in outputs";
  if (problem.window_elements() > kMostElements)
    return text("takes windows of at most ", kMostElements, " elements, not ",
                problem.window_elements());
  if (problem.k > kMostFilters)
    return text("takes at most ", kMostFilters, " filters, not ", problem.k);
  if (problem.output_pixels() > kMostPixels)
    return text("takes at most 2^30 pixels, not ", problem.output_pixels());
  const int64_t extent =
      std::max({problem.h + problem.padding_top + problem.padding_bottom, problem.padded_w(),
                problem.r * problem.dilation_h, problem.s * problem.dilation_w});
  if (extent > kMostExtent)
    return text("takes padded images of at most 2^29 rows and columns, not ", extent);
  const double span =
      double((problem.r - 1) * problem.dilation_h) * std::abs(double(problem.input.stride[2])) +
      double((problem.s - 1) * problem.dilation_w) * std::abs(double(problem.input.stride[3]));
  if (span > kMostSpan) return text("takes windows that span at most 2^30 elements, not ", span);
  return "";
}

int window_word(const Tensor& input, int64_t begin, int word) {
  return static_cast<int>(word_of({begin, fused::pixel_word(input, input.size[1])}, word));
}

Tile choose_tile(const Problem& problem, const DeviceLimits& device) {
  const std::vector<Tile> tiles = tiles_of(as_pixels(problem), device, kMostSixteens);
  return *std::ranges::min_element(tiles, {}, [&](const Tile& tile) {
    return windows_mma::microseconds(problem, tile, device);
  });
}

// Beside 493 times of up to 230 us on an H200, of 150 layers, half of these are within 5 %, and the standard deviation is 11.
double microseconds(const Problem& problem, const Tile& tile, const DeviceLimits& device) {
  constexpr double kStart = 2.25, kFilterWord = 0.665, kBytes = 4.9e6, kNorm = 1.69;
  // Of a warp, which waits for each; and of a multiprocessor, one of whose warps does not.
  constexpr double kStep = 0.0709, kStepOfSixteen = 0.0921, kSixteen = 0.55, kCopy = 0.0411;
  constexpr double kBusyStep = 0.00663, kBusyStepOfSixteen = 0.0217, kBusySixteen = 0.0257,
                   kBusyCopy = 0.00384;
  // More, for what is loaded element by element; and of memory, for filters that are no four neighbours.
  constexpr double kElements = 4.35, kNarrow = 5;
  constexpr int kElementBytes = 2, kWhole = kMostWordBytes / kElementBytes, kLaneFilters = 4;

  const int word = window_word(problem.input, 0, kWhole);
  const double copies = tile.steps * (double(kStepChannels) / word + (word == 1 ? kElements : 0));
  const double output =
      double(problem.output.elements()) * (problem.k % kLaneFilters == 0 ? 1 : 1 + kNarrow);
  const double memory =
      kElementBytes * (double(problem.input.elements()) * tile.parts + output) / kBytes;
  const int64_t waves =
      ceil_div(int64_t{tile.blocks} * tile.parts, int64_t{device.multiprocessors});
  const int64_t turns = ceil_div(int64_t{tile.tiles}, int64_t{tile.blocks} * tile.warps) * waves;
  const int sixteens = tile.sixteens;
  const double warp =
      double(turns) *
      (kCopy * copies +
       tile.passes * (tile.steps * (kStep + kStepOfSixteen * sixteens) + kSixteen * sixteens));
  const double busy = double(tile.tiles) * tile.parts / device.multiprocessors *
                      (kBusyCopy * copies +
                       tile.passes * (tile.steps * (kBusyStep + kBusyStepOfSixteen * sixteens) +
                                      kBusySixteen * sixteens));
  const double filter_words = double(tile.part_filters()) * tile.steps * kStepChannels / kWhole /
                              (32 * block_warps(sixteens, Operands::kSixteenBits));
  return kStart + kFilterWord * filter_words * double(waves) +
         std::pow(std::pow(memory, kNorm) + std::pow(warp, kNorm) + std::pow(busy, kNorm),
                  1 / kNorm);
}

}  // namespace im2win::cuda::windows_mma
