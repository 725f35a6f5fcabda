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
Problem layer(int64_t n, int64_t c, int64_t size, int64_t k, int64_t kernel, int64_t groups = 1,
              bool is_channels_last = false) {
  Problem problem = dense_layer(n, c, size, k, kernel, 0, 1, is_channels_last);
  problem.filter = dense(k, c / groups, kernel, kernel, is_channels_last);
  problem.groups = groups;
  return problem;
}

bool is_chosen(Problem problem, im2win_dtype dtype = IM2WIN_FLOAT32) {
  problem.dtype = dtype;
  return implicit_gemm::is_for_tiles(problem);
}

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
  expect(is_chosen(layer(1, 960, 7, 320, 1)), "long windows, which clusters share");
  expect(!is_chosen(layer(1, 512, 28, 512, 3)), "much to multiply");
  expect(!is_chosen(layer(64, 32, 112, 64, 1)), "many pixels");
  const auto patches = [](int64_t size) {
    Problem problem = dense_layer(1, 3, 224, 768, size, 0, size);
    problem.filter = dense(768, 3, size, size, false);
    return problem;
  };
  expect(is_chosen(patches(14)), "patches whose rows are no words");
  expect(!is_chosen(patches(16)), "patches whose rows are");
  expect(!is_chosen(patches(16), IM2WIN_FLOAT16), "nor those of 16 bits");
  expect(is_chosen(layer(64, 512, 56, 512, 3), IM2WIN_FLOAT64), "float64");
  Problem far = layer(1, 96, 56, 24, 1);
  far.input.stride[1] = int64_t{1} << 40;
  expect(!is_chosen(far), "windows that 32 bits do not hold");
}

/// Others take less where they read words of both operands.
void check_16_bits() {
  expect(is_chosen(layer(1, 992, 14, 128, 1), IM2WIN_FLOAT16), "pixels that are no words");
  expect(is_chosen(layer(1, 144, 9, 144, 3), IM2WIN_BFLOAT16), "3x3 windows of planes");
  expect(!is_chosen(layer(1, 64, 56, 128, 1), IM2WIN_FLOAT16), "pixels that are");
  expect(is_chosen(layer(1, 160, 7, 960, 1, 1, true), IM2WIN_FLOAT16), "before pointwise");
  expect(!is_chosen(layer(1, 64, 112, 128, 1, 1, true), IM2WIN_FLOAT16), "but not of many pixels");
  expect(!is_chosen(layer(64, 992, 14, 128, 1), IM2WIN_FLOAT16), "more images");
}

/// im2win_fused reads words of TF32's pixels as they are, with channels last, and copies others.
void check_tf32() {
  const auto is_chosen_of = [](Problem problem) {
    problem.math = IM2WIN_MATH_TF32;
    return is_chosen(problem);
  };
  expect(!is_chosen_of(layer(1, 256, 56, 128, 1, 1, true)), "words of pixels");
  expect(is_chosen_of(layer(32, 127, 28, 127, 1, 1, true)), "pixels that are copied one by one");
  expect(!is_chosen_of(layer(64, 114, 28, 256, 1, 1, true)), "and of more filters");
}

/// Which operand's words are its channels, or filters.
void check_order() {
  using implicit_gemm::are_channels_last;
  expect(!are_channels_last(layer(2, 8, 6, 5, 3)), "planes");
  expect(are_channels_last(layer(2, 8, 6, 5, 3, 1, true)), "pixels");
  expect(are_channels_last(layer(2, 8, 1, 5, 1)), "images of one pixel");
  const auto single = [](bool is_channels_last) {
    Problem problem = layer(2, 1, 6, 5, 3, 1, is_channels_last);
    problem.input.stride[1] = 0;  // is never taken
    return problem;
  };
  expect(!are_channels_last(single(false)), "a single channel and planes of outputs");
  expect(are_channels_last(single(true)), "or pixels of them");
}

}  // namespace

int main() {
  check_blocks();
  check_choice();
  check_16_bits();
  check_tf32();
  check_order();
  std::printf("%d wrong\n", failures);
  return failures == 0 ? 0 : 1;
}
