// The tiles of windows_mma, what it refuses, and when it is chosen: as measured on an H200.

#include <cstdint>
#include <cstdio>
#include <initializer_list>

#include "cuda/windows_mma/choice.hpp"
#include "cuda/windows_mma/tile.hpp"
#include "expect.hpp"
#include "layers.hpp"

namespace {

using namespace im2win;
using namespace im2win::cuda;

Problem layer(int64_t n, int64_t c, int64_t size, int64_t k, int64_t kernel, int64_t stride = 1) {
  Problem problem = dense_layer(n, c, size, k, kernel, kernel / 2, stride, true);
  problem.dtype = IM2WIN_FLOAT16;
  problem.filter = dense(k, c, kernel, kernel, true);
  return problem;
}

void check_tile(const Problem& problem, const DeviceLimits& device) {
  using namespace pointwise_mma;
  const Tile tile = windows_mma::choose_tile(problem, device);
  expect(tile.parts * tile.part_filters() >= problem.k, "all filters");
  expect(tile.steps * kStepChannels >= problem.window_elements(), "all elements of a window");
  expect(int64_t{tile.tiles} * tile_pixels(2) >= problem.output_pixels(), "all pixels");
  expect(tile.warps >= 1 && tile.shared_bytes <= device.shared_bytes, "room for a warp");
}

void check_tiles() {
  constexpr DeviceLimits kSmall = {20, 99 * 1024};
  for (const DeviceLimits& device : {kH200, kSmall})
    for (const int64_t c : {1, 4, 5, 16, 71})
      for (const int64_t k : {1, 16, 33, 65, 300, 5000})
        for (const int64_t size : {1, 7, 56, 300}) check_tile(layer(3, c, size, k, 3), device);
}

void check_words() {
  const auto word = [](int64_t c, int64_t begin) {
    return windows_mma::window_word(dense(2, c, 7, 7, true), begin, 8);
  };
  expect(word(16, 0) == 8 && word(8, 0) == 8 && word(12, 0) == 4 && word(6, 0) == 2, "of channels");
  expect(word(5, 0) == 1 && word(16, 4) == 4 && word(16, 3) == 1, "of where they begin");
  Tensor some = dense(1, 8, 7, 7, true);
  some.stride[3] = 18;
  expect(windows_mma::window_word(some, 0, 8) == 2, "and of the distances of pixels");
}

void check_refusals() {
  const auto refuses = [](const auto& change) {
    Problem problem = layer(2, 16, 14, 32, 3);
    change(problem);
    return !windows_mma::refusal(problem).empty();
  };
  expect(!refuses([](Problem&) {}), "3x3 is taken");
  expect(!refuses([](Problem& p) { p.stride_w = 3, p.dilation_h = 2; }), "with any steps");
  expect(!refuses([](Problem& p) { p.input.stride[2] = -5; }), "and any strides of the input");
  expect(refuses([](Problem& p) { p.input = dense(2, 16, 14, 14, false); }), "not planes");
  expect(refuses([](Problem& p) { p.output.stride[2] += 1; }), "nor outputs of uneven pixels");
  expect(refuses([](Problem& p) { p.dtype = IM2WIN_FLOAT32; }), "nor float32");
  expect(refuses([](Problem& p) { p.groups = 2; }), "nor groups");
  expect(refuses([](Problem& p) { p.c = 72; }), "nor long windows");
  expect(refuses([](Problem& p) { p.padding_left = int64_t{1} << 29; }), "nor images past 2^29");
}

/// Where it was faster on an H200 than all others, and where not.
void check_choice() {
  using windows_mma::is_faster;
  expect(is_faster(layer(32, 4, 240, 32, 3)) && is_faster(layer(32, 4, 240, 32, 3, 2)) &&
             is_faster(layer(128, 4, 32, 32, 5)),
         "four channels");
  expect(is_faster(layer(64, 12, 112, 8, 3, 2)) && is_faster(layer(32, 18, 64, 18, 3)) &&
             is_faster(layer(128, 8, 128, 24, 3, 3)) && is_faster(layer(64, 20, 112, 16, 3, 3)),
         "channels that are no whole words, and strides");
  expect(!is_faster(layer(16, 64, 56, 64, 3)) && !is_faster(layer(32, 32, 112, 64, 3, 2)) &&
             !is_faster(layer(32, 64, 28, 32, 3)),
         "not many channels");
  expect(!is_faster(layer(1, 20, 32, 32, 3)) && !is_faster(layer(4, 24, 28, 32, 3)),
         "nor small images, for which there are tiles of implicit_gemm");
}

}  // namespace

int main() {
  check_choice();
  check_tiles();
  check_words();
  check_refusals();
  std::printf("%d wrong\n", failures);
  return failures == 0 ? 0 : 1;
}
