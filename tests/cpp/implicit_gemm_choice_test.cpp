// When implicit_gemm_tiled is chosen: as measured on an H200.

#include <cstdint>
#include <cstdio>

#include "cuda/implicit_gemm/choice.hpp"
#include "expect.hpp"
#include "layers.hpp"

namespace {

using namespace im2win;
using namespace im2win::cuda;

/// Square sizes, no padding.
Problem layer(int64_t n, int64_t c, int64_t size, int64_t k, int64_t kernel, int64_t groups = 1) {
  Problem problem = square_layer(n, c, size, k, kernel);
  problem.groups = groups;
  return problem;
}

bool is_chosen(const Problem& problem) { return implicit_gemm::is_for_tiles(problem); }

void check_blocks() {
  expect(implicit_gemm::blocks_of(layer(1, 8, 8, 64, 1), 64) == 1, "64 filters by 64 pixels");
  expect(implicit_gemm::blocks_of(layer(1, 8, 8, 65, 1), 64) == 2, "a filter more");
  expect(implicit_gemm::blocks_of(layer(2, 8, 8, 64, 1, 4), 64) == 8, "tiles of groups and images");
  expect(implicit_gemm::blocks_of(layer(0, 8, 8, 64, 1), 64) == 1, "no image");
}

void check_choice() {
  expect(is_chosen(layer(1, 96, 56, 24, 1)), "1x1 layers of a single image");
  expect(is_chosen(layer(64, 32, 1, 8, 1)), "images of one pixel");
  expect(is_chosen(layer(1, 888, 9, 888, 3, 37)), "groups of few channels");
  expect(is_chosen(layer(8, 1, 30, 32, 3)), "a single channel");
  expect(!is_chosen(layer(1, 960, 7, 320, 1)), "long windows");
  expect(!is_chosen(layer(1, 224, 56, 128, 1)), "much to multiply");
  expect(!is_chosen(layer(64, 32, 112, 64, 1)), "many pixels");
  Problem precise = layer(64, 512, 56, 512, 3);
  precise.dtype = IM2WIN_FLOAT64;
  expect(is_chosen(precise), "float64");
  Problem half = layer(1, 96, 56, 24, 1);
  half.dtype = IM2WIN_FLOAT16;
  expect(!is_chosen(half), "16 bits");
}

}  // namespace

int main() {
  check_blocks();
  check_choice();
  std::printf("%d wrong\n", failures);
  return failures == 0 ? 0 : 1;
}
