// The tiles of im2win_fma, and when it is chosen: as measured on an H200.

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <initializer_list>
#include <iterator>
#include <optional>
#include <random>

#include "cuda/fma_strips/tile.hpp"
#include "descriptors.hpp"
#include "expect.hpp"
#include "layers.hpp"
#include "status.hpp"

namespace {

using namespace im2win;
using namespace im2win::cuda;

constexpr int kMultiprocessors = 132;

Tensor dense(int64_t n, int64_t c, int64_t h, int64_t w, bool is_channels_last) {
  if (is_channels_last) return {{n, c, h, w}, {c * h * w, 1, w * c, c}};
  return {{n, c, h, w}, {c * h * w, h * w, w, 1}};
}

/// Square sizes.
Problem layer(int64_t n, int64_t c, int64_t size, int64_t k, int64_t kernel, int64_t padding = 0,
              int64_t stride = 1, bool is_channels_last = false) {
  Problem problem = square_layer(n, c, size, k, kernel, padding, stride);
  problem.input = dense(n, c, size, size, is_channels_last);
  problem.output = dense(n, k, problem.p, problem.q, is_channels_last);
  return problem;
}

/// Whether all that a block's windows have is where its threads read.
void check_tile(const Problem& problem, int vector) {
  using namespace fma_strips;
  const std::optional<Tile> chosen = choose_tile(problem, vector, kMultiprocessors);
  expect(chosen || vector > 1, "a tile for channels one by one");
  if (!chosen) return;
  const Tile& tile = *chosen;
  expect(tile.splits * tile.threads_of_split() <= kThreads, "no more threads than a block has");
  expect(tile.shared_bytes(problem) <= kMostSharedBytes,
         "no more shared memory than any device has");
  expect(tile.chunk % vector == 0 && tile.chunk <= problem.c_per_group(), "whole vectors");
  expect(tile.splits <= tile.chunk, "channels for all threads");
  expect(tile.input_rows >=
             (tile.rows - 1) * problem.stride_h + (problem.r - 1) * problem.dilation_h + 1,
         "all rows of the windows");
  const int words = tile.columns() / kWord + tile.tap_words;
  expect(word_offset(static_cast<unsigned>(words)) <= tile.phase_pitch, "all words of a phase");
  expect(tile.phases * tile.phase_pitch <= tile.row_pitch, "all phases of a row");
  expect(tile.positions() <= tile.plane_pitch, "all rows of a plane");
  expect(tile.phases * tile.tap_words * kWord >= problem.s, "all taps of a row");
  expect(tile.strips * tile.rows * strip_columns(tile.filters) * blocks_of(problem, tile) >=
             problem.output_pixels(),
         "all outputs");
}

void check_tiles() {
  for (int64_t kernel : {1, 2, 3, 5, 9, 17})
    for (int64_t stride : {1, 2, 3})
      for (int64_t channels : {1, 3, 8, 20, 64})
        for (int64_t size : {17, 40, 191})
          for (int64_t filters : {1, 2, 3, 4, 5, 21})
            for (int vector : {1, 4})
              if (channels % vector == 0)
                check_tile(layer(2, channels, size, filters, kernel, kernel / 2, stride), vector);
}

/// Lanes of a quarter of a warp read every word, or every other one, of a row.
void check_banks() {
  for (unsigned step : {1U, 2U})
    for (unsigned first = 0; first < 64; first += step) {
      int banks[8] = {};
      for (unsigned lane = 0; lane < 8; ++lane)
        ++banks[fma_strips::word_offset(first + lane * step) / fma_strips::kWord % 8];
      expect(*std::max_element(std::begin(banks), std::end(banks)) <= 2, "few conflicts");
    }
}

void check_single_rows() {
  const Problem row = fma_strips::as_single_rows(layer(2, 64, 20, 3, 1));
  expect(row.h == 1 && row.w == 400 && row.p == 1 && row.q == 400, "1x1 windows have one row");
  expect(row.input.size[3] == 400 && row.output.size[3] == 400, "and so have their tensors");
  expect(fma_strips::as_single_rows(layer(2, 64, 20, 3, 1, 0, 2)).h == 20, "but not with steps");
  expect(fma_strips::as_single_rows(layer(2, 64, 20, 3, 3, 1)).h == 20, "nor do larger ones");
}

void check_refusals() {
  const auto is_refused = [](const Problem& problem) {
    return *fma_strips::refusal_of_sizes(problem) != 0;
  };
  expect(!is_refused(layer(1, 3, 4000, 3, 11)), "large images are taken");
  expect(is_refused(layer(1, 3, int64_t{1} << 20, 3, 3)), "images beyond 2^20 are not");
  expect(is_refused(layer(1, 3, 400, 3, 3, 0, 17)), "nor strides beyond 16");
  expect(is_refused(layer(1, 3, 400, 3, 201)), "nor windows that shared memory does not hold");
}

/// Sizes of any magnitude, of which few are legal and fewer fit: they are refused, or have tiles.
void check_extremes() {
  std::mt19937 random(2023);
  const auto magnitude = [&](int bits) {
    return std::uniform_int_distribution<int64_t>(
        1, int64_t{1} << std::uniform_int_distribution<int>(0, bits)(random))(random);
  };
  int planned = 0;
  for (int i = 0; i < 30000; ++i) {
    im2win_conv2d_desc desc = default_desc();
    const int most = i % 2 != 0 ? 12 : i % 4 != 0 ? 20 : 34;
    for (int64_t* size : {&desc.n, &desc.c, &desc.h, &desc.w, &desc.k}) *size = magnitude(most);
    for (int64_t* size : {&desc.r, &desc.s}) *size = magnitude(i % 3 != 0 ? 3 : most);
    for (int64_t* step : {&desc.stride_h, &desc.stride_w, &desc.dilation_h})
      *step = magnitude(i % 5 != 0 ? 1 : most);
    for (int64_t* padding : {&desc.padding_top, &desc.padding_left})
      *padding = magnitude(i % 7 != 0 ? 2 : most) - 1;
    desc.input_layout = desc.output_layout = i % 8 < 4 ? IM2WIN_NCHW : IM2WIN_NHWC;
    try {
      const Problem problem = make_problem(&desc);
      fma_strips::is_faster(problem);  // is asked before what is refused
      if (*fma_strips::refusal_of_sizes(problem) != 0) continue;
      check_tile(fma_strips::as_single_rows(problem), 1);
      ++planned;
    } catch (const Error&) {  // no legal problem
    }
  }
  expect(planned > 1000, "some fit");
}

void check_choice() {
  const auto is_chosen = [](Problem problem, im2win_dtype dtype = IM2WIN_FLOAT32) {
    problem.dtype = dtype;
    return fma_strips::is_faster(problem);
  };
  expect(is_chosen(layer(8, 3, 1080, 3, 3, 1)), "filters of images");
  expect(is_chosen(layer(8, 3, 1080, 3, 3, 1), IM2WIN_FLOAT16), "in any dtype");
  expect(is_chosen(layer(16, 64, 192, 3, 9, 4)), "images from many channels");
  expect(!is_chosen(layer(16, 64, 192, 3, 9, 4), IM2WIN_FLOAT16), "but not with 16 bits");
  expect(!is_chosen(layer(64, 64, 96, 8, 3, 1)), "eight filters of many channels");
  expect(is_chosen(layer(128, 7, 50, 7, 7, 3)), "but of few ones");
  expect(!is_chosen(layer(64, 64, 96, 12, 3, 1)), "more filters");
  expect(is_chosen(layer(64, 3, 224, 16, 3, 1)), "more filters of images");
  expect(!is_chosen(layer(64, 3, 224, 32, 3, 1)), "but not any number");
  expect(!is_chosen(layer(64, 3, 640, 16, 3, 1, 2)), "nor with a stride");
  expect(is_chosen(layer(2, 1, 572, 64, 3)), "windows that im2win_fused refuses");
  expect(!is_chosen(layer(2, 1, 572, 64, 3), IM2WIN_FLOAT16), "but not with 16 bits");
  expect(is_chosen(layer(128, 3, 32, 16, 3, 1), IM2WIN_FLOAT16), "short rows");
  expect(!is_chosen(layer(64, 3, 224, 16, 3, 1), IM2WIN_FLOAT16), "but not long ones");
  expect(is_chosen(layer(128, 1, 28, 20, 5), IM2WIN_FLOAT16), "few outputs of digits");
  expect(is_chosen(layer(128, 6, 14, 16, 5)), "and of what is made of them");
  expect(!is_chosen(layer(128, 1, 28, 32, 3), IM2WIN_FLOAT16), "but not of more filters");
  expect(!is_chosen(layer(128, 16, 32, 16, 3, 1)), "nor of more channels");
  expect(!is_chosen(layer(64, 3, 224, 3, 3, 1), IM2WIN_FLOAT64), "nor float64");
  Problem groups = layer(128, 24, 56, 54, 1, 0, 1, true);
  groups.groups = 3;
  expect(is_chosen(groups), "groups of pixels");
  groups.input = dense(128, 24, 56, 56, false);
  expect(!is_chosen(groups), "but not of planes");
  expect(!is_chosen(layer(1, 512, 31, 1, 4, 1)), "few pixels of many channels");
  expect(!is_chosen(layer(4, 64, 388, 2, 1)), "1x1 of planes");
  expect(is_chosen(layer(4, 64, 388, 2, 1, 0, 1, true)), "but of pixels");
  expect(is_chosen(layer(16, 8, 512, 4, 1, 0, 1, true), IM2WIN_FLOAT16), "few channels of a pixel");
  expect(!is_chosen(layer(16, 8, 512, 8, 1, 0, 1, true), IM2WIN_FLOAT16), "but not for more");
  expect(!is_chosen(layer(16, 8, 512, 4, 1), IM2WIN_FLOAT16), "nor of planes");
}

}  // namespace

int main() {
  check_tiles();
  check_banks();
  check_single_rows();
  check_refusals();
  check_extremes();
  check_choice();
  std::printf("%d wrong\n", failures);
  return failures == 0 ? 0 : 1;
}
