// How im2win_fma shares problems of short windows out, what it refuses, and when it is chosen: as measured on an H200.

#include <cmath>
#include <cstdint>
#include <cstdio>
#include <initializer_list>

#include "cuda/fma_windows/choice.hpp"
#include "cuda/fma_windows/tile.hpp"
#include "expect.hpp"
#include "layers.hpp"

namespace {

using namespace im2win;
using namespace im2win::cuda;
using fma_windows::Tile;

Problem layer(int64_t n, int64_t c, int64_t size, int64_t k, int64_t kernel, int64_t padding = 0,
              int64_t stride = 1, bool is_channels_last = false) {
  Problem problem = dense_layer(n, c, size, k, kernel, padding, stride, is_channels_last && c > 1);
  problem.filter = dense(k, c, kernel, kernel, is_channels_last);
  return problem;
}

Problem with(im2win_dtype dtype, Problem problem) {
  problem.dtype = dtype;
  return problem;
}

/// All outputs are some block's, and windows are no longer than their room.
void check_tile(const Problem& problem) {
  const Tile tile = fma_windows::choose_tile(problem, 132);
  expect(tile.depth >= problem.window_elements(), "all taps");
  expect(tile.filters >= 1 && tile.filters <= fma_windows::kMostFilters,
         "no more filters than shared memory has");
  expect(fma_windows::filter_tiles(problem, tile) * tile.filters >= problem.k, "all filters");
  const int64_t tiles = fma_windows::pixel_tiles(problem, tile);
  expect(tiles * tile.pixels >= problem.output_pixels(), "all pixels");
  expect(tile.workers >= 1 && tile.workers <= tiles, "a tile for each worker");
  if (fma_windows::are_filters_neighbours(problem))
    expect(tile.pixels <= fma_windows::kMostPixels && tile.filters % fma_windows::kHeld == 0,
           "held filters");
  else
    expect(tile.pixels == fma_windows::kTilePixels, "held windows");
}

void check_tiles() {
  for (const int64_t n : {1, 3, 128})
    for (const int64_t c : {1, 3, 5})
      for (const int64_t k : {1, 3, 16, 130, 768})
        for (const int64_t size : {3, 28, 113})
          for (const bool is_channels_last : {false, true})
            check_tile(layer(n, c, size, k, 3, 1, 1, is_channels_last));
}

void check_refusals() {
  const auto refuses = [](const Problem& problem) {
    return !fma_windows::refusal(problem).empty();
  };
  expect(!refuses(layer(1, 48, 14, 64, 1)) && refuses(layer(1, 49, 14, 64, 1)), "long windows");
  expect(refuses(with(IM2WIN_FLOAT64, layer(1, 3, 14, 64, 3))), "float64");
  expect(!refuses(layer(INT32_MAX - 512, 1, 1, 4, 1)) && refuses(layer(INT32_MAX, 1, 1, 4, 1)),
         "a tile past 2^31 pixels");
  expect(!refuses(with(IM2WIN_FLOAT16, layer(1, 3, 14, 64, 3))) &&
             refuses(with(IM2WIN_FLOAT16, layer(1, 3, 14, 64, 3, 1, 1, true))),
         "filters that are neighbours, with 16 bits");
}

void check_words() {
  using fma_windows::has_words;
  expect(has_words(layer(1, 1, 28, 5, 3, 1)) && !has_words(layer(1, 1, 29, 8, 3, 1)), "of planes");
  expect(has_words(layer(1, 1, 6, 5, 3, 1)), "whose rows are none");
  Problem rows = layer(1, 1, 6, 5, 3, 1);
  rows.output.stride[2] = 8, rows.output.stride[1] = 48, rows.output.stride[0] = 240;
  expect(!has_words(rows), "but not of such rows with gaps");
  expect(
      has_words(layer(1, 3, 29, 8, 3, 1, 1, true)) && !has_words(layer(1, 3, 28, 6, 3, 1, 1, true)),
      "of pixels");
}

/// Estimates beside measured microseconds.
void check_estimates() {
  const auto is_near = [](const Problem& problem, double measured) {
    const double estimated = fma_windows::microseconds(problem);
    std::printf("%.1f us, measured %.1f\n", estimated, measured);
    return estimated < 1.2 * measured && measured < 1.2 * estimated;
  };
  expect(is_near(layer(2, 1, 572, 64, 3), 62.6), "one channel");
  expect(is_near(layer(32, 3, 299, 32, 3, 0, 2), 60.2), "three");
  expect(is_near(layer(32, 3, 299, 32, 3, 0, 2, true), 77.9), "of pixels");
  expect(is_near(layer(64, 24, 56, 144, 1), 57.7), "single pixels");
  expect(is_near(layer(1, 16, 112, 96, 1), 6.9), "of one image");
  expect(is_near(with(IM2WIN_FLOAT16, layer(16, 3, 640, 16, 3, 1, 2)), 75.2), "16 bits");
  expect(std::isinf(fma_windows::microseconds(layer(1, 64, 14, 64, 3))), "what is refused");
}

void check_choice() {
  using fma_windows::is_faster;
  expect(is_faster(layer(2, 1, 572, 64, 3)), "windows that im2win_fused refuses");
  expect(is_faster(layer(32, 3, 299, 32, 3, 0, 2)), "few filters of images");
  expect(!is_faster(layer(16, 3, 224, 64, 3, 1)), "but not many");
  expect(is_faster(layer(64, 24, 56, 144, 1)), "single pixels of few channels");
  expect(!is_faster(layer(128, 40, 28, 240, 1)), "but not of more");
  expect(is_faster(layer(1, 24, 56, 144, 1)) && !is_faster(layer(1, 40, 28, 120, 1)),
         "single images, where implicit_gemm_tiled is not");
  expect(!is_faster(layer(1, 1, 28, 20, 5)), "which it is of what is small");
  expect(is_faster(with(IM2WIN_FLOAT16, layer(1, 3, 224, 32, 3, 1, 2))), "16 bits");
  expect(!is_faster(with(IM2WIN_FLOAT16, layer(16, 3, 640, 16, 3, 1, 2))), "but not many pixels");
  expect(!is_faster(with(IM2WIN_FLOAT16, layer(64, 24, 56, 144, 1))), "but not words of pixels");
  expect(!is_faster(with(IM2WIN_BFLOAT16, layer(2, 1, 572, 64, 3))), "nor many filters");
  Problem rounded = layer(2, 1, 572, 64, 3);
  rounded.math = IM2WIN_MATH_TF32;
  expect(is_faster(rounded), "but of TF32");
  Problem precise = layer(16, 3, 224, 64, 3, 1);
  precise.math = IM2WIN_MATH_IEEE;
  expect(is_faster(precise), "ieee, which tensor cores do not know");
  expect(fma_windows::is_faster_than_strips(layer(8, 1, 512, 16, 3)) &&
             !fma_windows::is_faster_than_strips(layer(8, 3, 1080, 3, 3, 1)),
         "more filters than strips have");
}

}  // namespace

int main() {
  check_tiles();
  check_refusals();
  check_words();
  check_estimates();
  check_choice();
  return failures;
}
