// The tiles of pointwise, what it refuses, and when it is chosen: as measured on an H200.

#include <cstdint>
#include <cstdio>
#include <optional>

#include "cuda/pointwise/tile.hpp"
#include "expect.hpp"
#include "layers.hpp"

namespace {

using namespace im2win;
using namespace im2win::cuda;

Tensor pixels_of(int64_t n, int64_t c, int64_t size, int64_t stride) {
  return {{n, c, size, size}, {stride * size * size, 1, stride * size, stride}};
}

Problem layer(int64_t n, int64_t c, int64_t size, int64_t k) {
  Problem problem = square_layer(n, c, size, k, 1);
  problem.dtype = IM2WIN_FLOAT16;
  problem.input = pixels_of(n, c, size, c);
  problem.output = problem.residual = pixels_of(n, k, size, k);
  problem.filter = {{k, c, 1, 1}, {c, 1, 1, 1}};
  return problem;
}

void check_tile(const Problem& problem) {
  const std::optional<pointwise::Tile> chosen = pointwise::choose_tile(problem);
  if (!chosen) return;
  const pointwise::Tile& tile = *chosen;
  const pointwise::Shape& shape = pointwise::kShapes[tile.shape];
  expect(tile.splits * shape.filters() >= problem.k, "all filters");
  expect((tile.splits - 1) * shape.filters() < problem.k, "some of each split");
  expect(tile.splits == 1 || shape.filters() % pointwise::kBoxFilters == 0,
         "boxes of a split's filters alone");
  expect(tile.chunks * tile.row_bytes() / 2 >= problem.c, "all channels");
  expect(tile.pixels % pointwise::kProductPixels == 0, "whole products");
  expect(tile.pixels * tile.row_bytes() == pointwise::kStageBytes, "whole stages");
  expect(tile.stages_begin >=
                 pointwise::kFiltersBegin + tile.chunks * shape.filters() * tile.row_bytes() &&
             tile.outputs_begin == tile.stages_begin + tile.stages * pointwise::kStageBytes,
         "room for filters, then for stages");
  expect(tile.stages_begin % pointwise::kSwizzleBytes == 0 &&
             shape.output_bytes() % pointwise::kSwizzleBytes == 0,
         "boxes where swizzles begin");
  expect(tile.stages >= 4 && tile.stages <= pointwise::kMaxStages, "stages on their way");
  expect(tile.shared_bytes == tile.outputs_begin + 4 * shape.warpgroups * shape.output_bytes() &&
             tile.shared_bytes <= 227 * 1024,
         "no more shared memory than a block has");
}

void check_tiles() {
  for (int64_t c : {1, 2, 8, 16, 17, 32, 33, 64, 65, 270, 500, 960, 2048, 100000})
    for (int64_t k : {1, 3, 48, 49, 64, 96, 128, 160, 192, 200, 256, 257, 672, 1280, 20000})
      for (int64_t size : {1, 7, 300}) check_tile(layer(2, c, size, k));
}

void check_strides() {
  using pointwise::pixel_stride;
  expect(pixel_stride(pixels_of(3, 8, 5, 8)) == 8, "pixels that follow each other");
  expect(pixel_stride(pixels_of(3, 8, 5, 20)) == 20, "with gaps");
  expect(!pixel_stride({{3, 8, 5, 5}, {200, 25, 5, 1}}), "planes");
  expect(!pixel_stride({{3, 8, 5, 5}, {240, 1, 48, 8}}), "rows with gaps");
  expect(pixel_stride({{1, 8, 5, 1}, {-7, 1, 48, 3}}) == 48, "one pixel of a row");
  expect(pixel_stride({{6, 8, 1, 1}, {9, 1, 3, 4}}) == 9, "one pixel of an image");
  expect(pixel_stride({{1, 8, 1, 1}, {9, 1, 3, 4}}) == 8, "one pixel");
  expect(pixel_stride({{2, 1, 5, 1}, {50, 7, 10, 3}}) == 10, "of one channel");
}

void check_refusals() {
  const auto refuses = [](const auto& change) {
    Problem problem = layer(2, 64, 14, 64);
    change(problem);
    return !pointwise::refusal(problem).empty();
  };
  expect(!refuses([](Problem&) {}), "1x1 of pixels is taken");
  expect(!refuses([](Problem& p) { p.input = pixels_of(2, 64, 14, 200); }),
         "some of the channels, too");
  expect(refuses([](Problem& p) { p.dtype = IM2WIN_FLOAT32; }), "float32 is not");
  expect(refuses([](Problem& p) { p.r = 3; }), "nor taps");
  expect(refuses([](Problem& p) { p.stride_w = 2; }), "steps");
  expect(refuses([](Problem& p) { p.padding_left = 1; }), "padding");
  expect(refuses([](Problem& p) { p.groups = 2; }), "groups");
  expect(refuses([](Problem& p) { p.input.stride[1] = 2; }), "channels with gaps");
  expect(refuses([](Problem& p) { p.output.stride[2] += 1; }), "rows with gaps");
  expect(refuses([](Problem& p) { p.filter.stride[1] = 64; }), "filters' channels with gaps");
  expect(refuses([](Problem& p) { p.input = pixels_of(2, 64, 14, int64_t{1} << 24); }),
         "pixels that are far apart");
  expect(refuses([](Problem& p) { p.c = 1 << 20; }), "filters that shared memory does not hold");
}

void check_choice() {
  using pointwise::is_faster;
  expect(is_faster(layer(64, 24, 56, 144)), "few channels to many");
  expect(is_faster(layer(16, 128, 80, 255)), "filters that are no whole words");
  expect(is_faster(layer(128, 116, 28, 116)), "nor channels");
  expect(!is_faster(layer(128, 13, 28, 116)), "but not an odd number");
  expect(!is_faster(layer(64, 270, 56, 18)), "nor so many");
  expect(is_faster(layer(128, 64, 14, 64)), "a small layer");
  expect(!is_faster(layer(128, 128, 56, 16)), "but not a large one of few filters");
  expect(is_faster(layer(128, 32, 1, 8)), "single pixels");
  expect(!is_faster(layer(64, 512, 28, 512)), "not what is bound by products");
  expect(!is_faster(layer(8, 640, 64, 320)), "of many channels");
  Problem sum = layer(64, 24, 56, 144);
  sum.has_residual = true;
  expect(!is_faster(sum), "nor with a residual");
}

}  // namespace

int main() {
  check_tiles();
  check_strides();
  check_refusals();
  check_choice();
  std::printf("%d wrong\n", failures);
  return failures == 0 ? 0 : 1;
}
