// The choice of tiles for depthwise convolutions of any window: prints it for layers of common
// networks, checks what must hold, and which windows are staged, and which read from memory.

#include <algorithm>
#include <cstdio>
#include <optional>

#include "cuda/depthwise/gather_tile.hpp"
#include "cuda/depthwise/whole_planes_tile.hpp"
#include "cuda/depthwise/windows_tile.hpp"

namespace {

using namespace im2win;
using namespace im2win::cuda;

int failures = 0;

void expect(bool condition, const char* what) {
  if (condition) return;
  ++failures;
  std::printf("not so: %s\n", what);
}

struct Axis {
  int64_t size, taps, stride, padding, dilation;

  int64_t outputs() const { return (size + 2 * padding - dilation * (taps - 1) - 1) / stride + 1; }
};

Tensor dense(bool is_nhwc, int64_t n, int64_t c, int64_t h, int64_t w) {
  if (is_nhwc) return {{n, c, h, w}, {c * h * w, 1, w * c, c}};
  return {{n, c, h, w}, {c * h * w, h * w, w, 1}};
}

Problem layer(im2win_dtype dtype, bool is_nhwc, int64_t n, int64_t c, const Axis& down,
              const Axis& along) {
  Problem problem{};
  problem.dtype = dtype;
  problem.n = n;
  problem.c = problem.k = problem.groups = c;
  problem.h = down.size, problem.w = along.size;
  problem.r = down.taps, problem.s = along.taps;
  problem.stride_h = down.stride, problem.stride_w = along.stride;
  problem.padding_top = problem.padding_bottom = down.padding;
  problem.padding_left = problem.padding_right = along.padding;
  problem.dilation_h = down.dilation, problem.dilation_w = along.dilation;
  problem.p = down.outputs(), problem.q = along.outputs();
  problem.input = dense(is_nhwc, n, c, problem.h, problem.w);
  problem.output = dense(is_nhwc, n, c, problem.p, problem.q);
  return problem;
}

constexpr int kMultiprocessors = 132;

std::optional<WindowsTile> choose(const Problem& problem) {
  return choose_windows_tile(problem, kMultiprocessors);
}

/// A tile's inputs are all staged, whichever word of a row holds the first.
void check_inputs(const Problem& problem, const WindowsTile& tile, const Comb& along) {
  const bool is_word_of_row = problem.input.stride[3] == 1;
  const int64_t bottom = (tile.rows - 1) * Comb::vertical(problem).stride +
                         (problem.r - 1) * Comb::vertical(problem).dilation;
  const int64_t right = (tile.columns - 1) * along.stride + (problem.s - 1) * along.dilation;
  expect(bottom < tile.input_rows, "rows below the tile are staged");
  expect(right + (is_word_of_row ? tile.word - 1 : 0) < tile.comb_inputs * along.inputs,
         "columns below the tile are staged");
  expect(tile.row_pitch >= tile.comb_inputs * along.inputs, "rows do not overlap");
  expect(tile.plane_pitch >= tile.row_pitch * tile.input_rows, "planes do not overlap");
}

void check_gather(const Problem& problem) {
  const GatherTile tile = choose_gather_tile(problem, true);
  expect(tile.lanes >= 1 && tile.pixels >= 1 && tile.lanes * tile.pixels <= GatherTile::kThreads,
         "a block's threads are enough");
  expect(tile.rows >= 1 && tile.rows <= problem.r && tile.columns >= 1 && tile.columns <= problem.s,
         "taps are of the window");
  expect(tile.weights() * sizeof(double) <= 48 << 10, "weights fit shared memory");
  expect(tile.word == 1 || (problem.input.stride[1] == 1 && problem.c % tile.word == 0),
         "words are whole");
  expect(tile.word == 1 || tile.tap_pitch % 4 == 0, "words of weights are aligned");
}

void check_whole_planes(const Problem& problem) {
  const auto chosen = choose_whole_planes_tile(problem, kMultiprocessors);
  const int64_t plane = problem.h * problem.w * element_bytes(problem.dtype);
  expect(chosen || plane + 32 + 4 * problem.r * problem.s > WholePlanesTile::kSharedBytes,
         "planes that fit have a tile");
  if (!chosen) return;
  const WholePlanesTile& tile = *chosen;
  expect(tile.planes >= 1 && tile.planes <= problem.c, "planes are of the image");
  expect(tile.threads() <= WholePlanesTile::kMaxThreads && tile.team_threads % 32 == 0,
         "teams are whole warps of a block");
  expect(tile.filter_bytes >= 4 * tile.planes * problem.r * problem.s, "filters fit their place");
  expect(tile.shared_bytes >= tile.filter_bytes + tile.planes * plane + 14 &&
             tile.shared_bytes <= WholePlanesTile::kSharedBytes,
         "planes fit shared memory, wherever in a word they begin");
}

void check(const Problem& problem) {
  check_gather(problem);
  if (problem.c == 1 || problem.input.stride[1] != 1) check_whole_planes(problem);
  const auto chosen = choose(problem);
  expect(chosen.has_value(), "the window has a tile");
  if (!chosen) return;
  const WindowsTile& tile = *chosen;
  const Comb along = Comb::horizontal(problem);
  const bool is_nhwc = problem.c > 1 && problem.input.stride[1] == 1;
  std::printf(
      "%s %d bytes, %lld x %lld x %lld, window %lld x %lld: %d channels of %d x %d, a thread's "
      "rows "
      "%d, %d taps, words of %d and %d, %d threads, %lld bytes\n",
      is_nhwc ? "NHWC" : "NCHW", int(element_bytes(problem.dtype)),
      static_cast<long long>(problem.c), static_cast<long long>(problem.h),
      static_cast<long long>(problem.w), static_cast<long long>(problem.r),
      static_cast<long long>(problem.s), tile.channels, tile.rows, tile.columns, tile.thread_rows,
      tile.pass_taps, tile.word, tile.output_word, tile.threads,
      static_cast<long long>(tile.shared_bytes));
  expect(tile.is_pixel_major == is_nhwc, "pixels are staged in NHWC");
  expect(tile.threads >= 1 && tile.threads <= WindowsTile::kMaxThreads, "a block has few threads");
  expect(tile.team_lanes >= 1 && tile.team_lanes <= tile.block_threads(), "a team is of a block");
  expect(tile.shared_bytes <= WindowsTile::kSharedBytes, "a tile fits shared memory");
  expect(tile.thread_rows >= 1 && tile.thread_rows <= WindowsTile::kRows, "sums fit registers");
  expect(int64_t{tile.row_passes} * tile.row_taps >= problem.r, "passes cover the filter's rows");
  expect(int64_t{tile.column_passes} * tile.pass_taps >= problem.s, "passes cover its columns");
  expect(tile.output_pitch >= tile.rows * tile.columns, "planes of outputs do not overlap");
  expect(is_nhwc || tile.channels == 1 || (tile.rows >= problem.p && tile.columns >= problem.q),
         "several planes are whole");
  const int64_t size = is_nhwc ? problem.c : problem.w, part = is_nhwc ? tile.channels : problem.w;
  expect(size % tile.word == 0 && part % tile.word == 0, "words are whole");
  expect(is_nhwc || tile.row_pitch % std::min(tile.word, 4) == 0, "words are aligned");
  check_inputs(problem, tile, along);
}

void check_layers(im2win_dtype dtype, bool is_nhwc) {
  const auto square = [&](int64_t n, int64_t c, const Axis& axis) {
    check(layer(dtype, is_nhwc, n, c, axis, axis));
  };
  for (const int64_t size : {7, 14, 28, 56, 83, 112})
    for (const int64_t taps : {1, 2, 4, 7, 9, 11, 31})
      for (const int64_t stride : {1, 2, 3}) square(64, 96, {size, taps, stride, taps / 2, 1});
  for (const int64_t dilation : {2, 3, 12}) square(8, 728, {33, 3, 1, dilation, dilation});
  square(4, 44, {65, 5, 2, 6, 3});
  square(4, 44, {65, 5, 4, 12, 6});
  square(128, 3, {512, 11, 1, 5, 1});
  square(128, 1, {512, 11, 1, 5, 1});
  square(1, 13, {9, 5, 1, 2, 1});
  const Axis one{1, 1, 1, 0, 1};
  check(layer(dtype, is_nhwc, 32, 512, one, {1000, 31, 1, 15, 1}));
  check(layer(dtype, is_nhwc, 16, 512, one, {3200, 3, 1, 128, 128}));
  check(layer(dtype, is_nhwc, 16, 512, {3200, 9, 2, 4, 1}, one));
}

/// As measured on an H200.
void check_choice() {
  const auto is_staged = [](im2win_dtype dtype, bool is_nhwc, int64_t n, int64_t c,
                            const Axis& down, const Axis& along) {
    const Problem problem = with_images_as_rows(layer(dtype, is_nhwc, n, c, down, along));
    const auto tile = choose(problem);
    return tile && windows_cost(problem, *tile, kMultiprocessors) <=
                       gather_cost(problem, choose_gather_tile(problem, true), kMultiprocessors);
  };
  const Axis one{1, 1, 1, 0, 1};
  for (const im2win_dtype dtype : {IM2WIN_FLOAT32, IM2WIN_FLOAT16}) {
    const auto is_square = [&](bool is_nhwc, int64_t n, int64_t c, const Axis& axis) {
      return is_staged(dtype, is_nhwc, n, c, axis, axis);
    };
    expect(!is_staged(dtype, true, 32, 512, one, {1000, 31, 1, 15, 1}), "long rows of pixels");
    expect(is_staged(dtype, false, 32, 512, one, {1000, 31, 1, 15, 1}), "rows of many taps");
    expect(is_staged(dtype, false, 32, 768, one, {1000, 7, 1, 3, 1}), "or of few");
    expect(is_staged(dtype, false, 16, 512, one, {3200, 3, 1, 128, 128}), "dilated rows");
    expect(!is_staged(dtype, true, 16, 512, one, {3200, 3, 1, 128, 128}), "but not in NHWC");
    expect(is_square(false, 64, 384, {27, 7, 1, 3, 1}), "windows that overlap");
    expect(is_square(true, 128, 60, {28, 9, 1, 4, 1}), "in NHWC, too");
    expect(is_square(false, 32, 728, {33, 3, 1, 2, 2}), "dilated windows in NCHW");
    expect(!is_square(false, 16, 256, {65, 3, 1, 36, 36}), "but not far dilated");
    for (const bool is_nhwc : {false, true}) {
      expect(!is_square(is_nhwc, 64, 256, {56, 3, 3, 0, 1}), "windows side by side");
      expect(!is_square(is_nhwc, 128, 128, {28, 4, 4, 0, 1}), "however large");
      expect(is_square(is_nhwc, 64, 128, {56, 31, 1, 15, 1}), "large windows that overlap");
    }
    expect(is_square(false, 32, 64, {112, 4, 2, 1, 1}), "windows that overlap by half, in NCHW");
    expect(!is_square(true, 32, 64, {112, 4, 2, 1, 1}), "but not in NHWC");
  }
}

/// Of the kernels of any window in NCHW, as measured on an H200.
void check_choice_of_planes() {
  const auto are_whole = [](int64_t n, int64_t c, const Axis& axis) {
    const Problem problem = layer(IM2WIN_FLOAT16, false, n, c, axis, axis);
    const auto planes = choose_whole_planes_tile(problem, kMultiprocessors);
    const double cost = whole_planes_cost(problem, *planes, kMultiprocessors);
    return cost < windows_cost(problem, *choose(problem), kMultiprocessors) &&
           cost < gather_cost(problem, choose_gather_tile(problem, true), kMultiprocessors);
  };
  for (const int64_t n : {1, 8}) {
    expect(are_whole(n, 2048, {33, 3, 1, 12, 12}), "planes with far dilated windows are whole");
    expect(are_whole(n, 512, {28, 3, 1, 4, 4}), "and less far");
    expect(!are_whole(n, 192, {28, 9, 1, 4, 1}), "but not with dense ones");
  }
  expect(are_whole(1, 512, {14, 27, 1, 13, 1}), "few planes that are smaller than windows are");
  expect(!are_whole(64, 512, {14, 27, 1, 13, 1}), "but not many");
}

/// A thread of few has one row, so that no multiprocessor is idle for long; of many, as many as it can have.
void check_few() {
  const auto of = [&](int64_t n, const Axis& axis) {
    return choose(layer(IM2WIN_FLOAT32, false, n, 256, axis, axis));
  };
  const Axis large{28, 29, 1, 14, 1}, small{28, 7, 1, 3, 1};
  for (const Axis& axis : {large, small}) {
    const auto few = of(1, axis), many = of(128, axis);
    expect(few->thread_rows == 1 && many->thread_rows > 1, "rows of a thread");
    expect(256 / few->channels * ((28 + few->rows - 1) / few->rows) >= kMultiprocessors,
           "a block for each multiprocessor");
  }
}

/// Images of one row in NCHW are rows of one, of which a thread has four.
void check_rows() {
  const Axis one{1, 1, 1, 0, 1}, line{1000, 31, 1, 15, 1};
  const auto of = [&](bool is_nhwc, const Axis& down) {
    return layer(IM2WIN_FLOAT16, is_nhwc, 32, 512, down, line);
  };
  const auto is_merged = [](const Problem& problem) {
    return with_images_as_rows(problem).n < problem.n;
  };
  const Problem rows = with_images_as_rows(of(false, one));
  expect(rows.n == 1 && rows.h == 32 && rows.p == 32 && rows.input.size[2] == 32 &&
             rows.input.stride[2] == 512 * 1000,
         "images of a row are rows of one");
  const auto tile = choose(rows);
  expect(tile && tile->thread_rows == WindowsTile::kRows, "a thread has rows of several images");
  check(rows);
  expect(!is_merged(of(true, one)), "pixels' rows stay apart");
  expect(!is_merged(of(false, {9, 1, 1, 0, 1})), "and images of several");
  expect(!is_merged(of(false, {1, 1, 1, 1, 1})) && !is_merged(of(false, {1, 3, 1, 1, 1})),
         "and those that are padded");
  expect(!is_merged(layer(IM2WIN_FLOAT16, false, 1 << 12, 1 << 10, one, line)),
         "and what 32 bits do not count");
}

}  // namespace

int main() {
  check_choice();
  check_choice_of_planes();
  check_few();
  check_rows();
  for (const im2win_dtype dtype : {IM2WIN_FLOAT32, IM2WIN_FLOAT16})
    for (const bool is_nhwc : {false, true}) check_layers(dtype, is_nhwc);
  const Axis wide{1 << 20, 100, 1, 0, 1}, vast{int64_t{1} << 32, 3, 1, 0, 1};
  expect(!choose(layer(IM2WIN_FLOAT32, false, 1, 1, wide, wide)), "large windows have no tile");
  const Problem wide_row = layer(IM2WIN_FLOAT32, false, 1, 1, {1, 1, 1, 0, 1}, vast);
  expect(!choose(wide_row) && !choose_whole_planes_tile(wide_row, kMultiprocessors),
         "images of 64 bits' distances have none");
  std::printf("%d failures\n", failures);
  return failures != 0;
}
