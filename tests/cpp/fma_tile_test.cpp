// The tiles of im2win_fma.

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <initializer_list>
#include <iterator>
#include <optional>
#include <random>

#include "cuda/fma_strips/choice.hpp"
#include "cuda/fma_strips/tile.hpp"
#include "descriptors.hpp"
#include "expect.hpp"
#include "layers.hpp"
#include "status.hpp"

namespace {

using namespace im2win;
using namespace im2win::cuda;

constexpr int kMultiprocessors = 132;

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
                check_tile(dense_layer(2, channels, size, filters, kernel, kernel / 2, stride),
                           vector);
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
  const Problem row = fma_strips::as_single_rows(dense_layer(2, 64, 20, 3, 1));
  expect(row.h == 1 && row.w == 400 && row.p == 1 && row.q == 400, "1x1 windows have one row");
  expect(row.input.size[3] == 400 && row.output.size[3] == 400, "and so have their tensors");
  expect(fma_strips::as_single_rows(dense_layer(2, 64, 20, 3, 1, 0, 2)).h == 20,
         "but not with steps");
  expect(fma_strips::as_single_rows(dense_layer(2, 64, 20, 3, 3, 1)).h == 20, "nor do larger ones");
}

void check_refusals() {
  const auto is_refused = [](const Problem& problem) {
    return !fma_strips::refusal(problem).empty();
  };
  expect(!is_refused(dense_layer(1, 3, 4000, 3, 11)), "large images are taken");
  expect(is_refused(dense_layer(1, 3, int64_t{1} << 20, 3, 3)), "images beyond 2^20 are not");
  expect(is_refused(dense_layer(1, 3, 400, 3, 3, 0, 17)), "nor strides beyond 16");
  expect(is_refused(dense_layer(1, 3, 400, 3, 201)),
         "nor windows that shared memory does not hold");
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
      if (!fma_strips::refusal(problem).empty()) continue;
      check_tile(fma_strips::as_single_rows(problem), 1);
      ++planned;
    } catch (const Error&) {  // no legal problem
    }
  }
  expect(planned > 1000, "some fit");
}

}  // namespace

int main() {
  check_tiles();
  check_banks();
  check_single_rows();
  check_refusals();
  check_extremes();
  std::printf("%d wrong\n", failures);
  return failures == 0 ? 0 : 1;
}
