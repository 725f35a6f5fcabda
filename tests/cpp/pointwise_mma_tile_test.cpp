// The tiles of pointwise_mma, what it refuses, and when it is chosen: as measured on an H200.

#include <cstdint>
#include <cstdio>
#include <initializer_list>

#include "cuda/pointwise_mma/choice.hpp"
#include "cuda/pointwise_mma/tile.hpp"
#include "expect.hpp"
#include "layers.hpp"

namespace {

using namespace im2win;
using namespace im2win::cuda;
using pointwise_mma::Tile;

constexpr DeviceLimits kSmall = {20, 99 * 1024};

Problem layer(int64_t n, int64_t c, int64_t size, int64_t k, im2win_dtype dtype = IM2WIN_FLOAT16,
              bool are_rows = false, im2win_math math = IM2WIN_MATH_TF32) {
  Problem problem = dense_layer(n, c, size, k, 1, 0, 1, are_rows);
  problem.dtype = dtype;
  problem.math = math;
  problem.filter = dense(k, c, 1, 1, false);
  return problem;
}

void check_tile(const Problem& problem, const DeviceLimits& device) {
  using namespace pointwise_mma;
  const Operands operands = operands_of(problem);
  const int pixel_bytes = static_cast<int>(element_bytes(problem.dtype));
  const Tile tile = choose_tile(problem, device);
  expect(tile.parts * tile.part_filters() >= problem.k, "all filters");
  expect((tile.parts - 1) * tile.part_filters() < problem.k, "some of each part");
  expect(tile.steps * kStepChannels >= problem.c, "all channels");
  expect(int64_t{tile.tiles} * tile_pixels(pixel_bytes) >= problem.output_pixels(), "all pixels");
  expect(int64_t{tile.blocks - 1} * tile.warps < tile.tiles, "some of each block");
  expect(tile.warps >= 1 && tile.warps <= block_warps(tile.sixteens, operands), "warps of a block");
  expect(tile.slots >= (tile.passes == 1 ? 1 : tile.steps) + kStepsAhead,
         "slots for what is multiplied again, and for what is asked for");
  const int filters = tile.part_filters() * tile.steps * kStepChannels * filter_bytes(operands);
  expect(tile.biases_begin >= filters &&
             tile.magnitudes_begin >= tile.biases_begin + tile.part_filters() * 4 &&
             tile.slots_begin >= tile.magnitudes_begin && tile.slots_begin % 16 == 0,
         "room for filters, then for biases");
  expect(operands != Operands::kThirds ||
             tile.slots_begin >=
                 tile.magnitudes_begin + block_warps(tile.sixteens, operands) * kMagnitudesBytes,
         "and for magnitudes");
  expect(tile.slots_begin + tile.warps * tile.slots * kSlotBytes <= tile.shared_bytes &&
             tile.shared_bytes <= device.shared_bytes,
         "no more shared memory than a block has");
}

void check_tiles() {
  for (const DeviceLimits& device : {kH200, kSmall})
    for (const im2win_dtype dtype : {IM2WIN_FLOAT16, IM2WIN_FLOAT32})
      for (const int64_t c : {1, 16, 17, 64, 130, 512})
        for (const int64_t k : {1, 16, 17, 33, 64, 65, 300, 5000})
          for (const int64_t size : {1, 7, 56, 300})
            for (const im2win_math math : {IM2WIN_MATH_TF32, IM2WIN_MATH_FP32})
              check_tile(layer(3, c, size, k, dtype, false, math), device);
}

void check_refusals() {
  const auto refuses = [](const auto& change) {
    Problem problem = layer(2, 64, 14, 64);
    change(problem);
    return !pointwise_mma::refusal(problem).empty();
  };
  expect(!refuses([](Problem&) {}), "1x1 of planes is taken");
  expect(!refuses([](Problem& p) { p.input.stride[0] = 5 * p.input.stride[1]; }),
         "with any strides of images and channels, too");
  expect(!refuses([](Problem& p) { p.input = p.output = dense(2, 64, 14, 14, true); }),
         "and where channels are neighbours");
  expect(refuses([](Problem& p) { p.input = dense(2, 64, 14, 14, true); }), "not in one of both");
  expect(refuses([](Problem& p) { p.output.stride[2] = 20; }), "nor of rows with gaps");
  expect(refuses([](Problem& p) { p.stride_w = 2; }), "nor with a stride");
  expect(!refuses([](Problem& p) { p.dtype = IM2WIN_FLOAT32, p.math = IM2WIN_MATH_FP32; }) &&
             refuses([](Problem& p) { p.dtype = IM2WIN_FLOAT32, p.math = IM2WIN_MATH_IEEE; }) &&
             refuses([](Problem& p) { p.dtype = IM2WIN_FLOAT64; }),
         "float32, but by tensor cores alone; nor float64");
  expect(refuses([](Problem& p) { p.groups = 2; }), "nor groups");
}

/// Where it was faster on an H200 than all others, and where not.
void check_choice() {
  using pointwise_mma::is_faster;
  const im2win_dtype half = IM2WIN_FLOAT16, tf32 = IM2WIN_FLOAT32;
  for (const im2win_dtype dtype : {half, tf32}) {
    expect(is_faster(layer(32, 32, 112, 16, dtype)) && is_faster(layer(32, 16, 112, 96, dtype)) &&
               is_faster(layer(16, 32, 256, 1, dtype)) && is_faster(layer(16, 40, 190, 24, dtype)),
           "few channels and filters");
    expect(!is_faster(layer(32, 256, 56, 128, dtype)) && !is_faster(layer(64, 384, 40, 128, dtype)),
           "many");
    expect(!is_faster(layer(32, 24, 95, 144, dtype)), "planes that are no words");
    expect(!is_faster(layer(128, 32, 1, 8, dtype)), "planes of a pixel");
  }
  expect(
      is_faster(layer(1, 32, 1024, 3, tf32, true)) && is_faster(layer(32, 16, 112, 8, half, true)),
      "where channels are neighbours, too");
  expect(!is_faster(layer(32, 256, 56, 128, tf32, true)) &&
             !is_faster(layer(16, 24, 160, 54, tf32, true)) &&
             !is_faster(layer(64, 64, 80, 64, half, true)),
         "not of many there, nor of filters that are no words");
  for (const bool are_rows : {false, true}) {
    const auto thirds = [&](int64_t n, int64_t c, int64_t size, int64_t k) {
      return layer(n, c, size, k, IM2WIN_FLOAT32, are_rows, IM2WIN_MATH_FP32);
    };
    expect(is_faster(thirds(16, 64, 180, 32)) && is_faster(thirds(32, 72, 56, 20)) &&
               is_faster(thirds(1, 80, 80, 80)),
           "in float32, few channels and filters");
    expect(!is_faster(thirds(32, 512, 14, 512)) && !is_faster(thirds(32, 256, 56, 128)),
           "not many");
  }
  expect(is_faster(layer(1, 24, 56, 36, half)), "a single image");
  expect(!is_faster(layer(1, 256, 28, 80, half)), "for which there are tiles of implicit_gemm");
}

}  // namespace

int main() {
  check_choice();
  check_tiles();
  check_refusals();
  std::printf("%d wrong\n", failures);
  return failures == 0 ? 0 : 1;
}
