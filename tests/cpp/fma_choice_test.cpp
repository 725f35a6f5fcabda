// When im2win_fma is chosen: as measured on an H200.

#include <cmath>
#include <cstdint>
#include <cstdio>

#include "cuda/fma_strips/choice.hpp"
#include "expect.hpp"
#include "layers.hpp"

namespace {

using namespace im2win;
using namespace im2win::cuda;

Problem in_groups(Problem problem, int64_t groups) {
  problem.groups = groups;
  return problem;
}

bool is_chosen(Problem problem, im2win_dtype dtype = IM2WIN_FLOAT32) {
  problem.dtype = dtype;
  return fma_strips::is_faster(problem);
}

/// Estimates beside measured microseconds of single images.
void check_estimates() {
  const auto is_near = [](double estimated, double measured) {
    std::printf("%.1f us, measured %.1f\n", estimated, measured);
    return estimated < 1.25 * measured && measured < 1.25 * estimated;
  };
  const auto strips = fma_strips::microseconds;
  expect(is_near(strips(dense_layer(1, 3, 96, 64, 3, 1)), 6.1), "few channels");
  expect(is_near(strips(in_groups(dense_layer(1, 256, 28, 256, 3, 1), 32)), 7.1), "groups");
  expect(is_near(strips(dense_layer(1, 18, 56, 18, 3, 1)), 9.5), "a few more channels");
  expect(is_near(strips(dense_layer(1, 20, 12, 50, 5)), 12.3), "larger windows");
  expect(is_near(strips(dense_layer(1, 36, 28, 36, 3, 1)), 13.7), "more channels");
  Problem precise = dense_layer(1, 3, 96, 64, 3, 1);
  precise.dtype = IM2WIN_FLOAT64;
  expect(std::isinf(strips(precise)), "float64 is refused");
}

/// Few products, of few images.
void check_quick() {
  expect(is_chosen(dense_layer(1, 3, 96, 64, 3, 1)), "few products");
  expect(!is_chosen(dense_layer(1, 16, 55, 64, 3, 1)), "but not of as many channels");
  expect(!is_chosen(dense_layer(1, 64, 56, 64, 3, 1)), "but not many");
  expect(is_chosen(dense_layer(4, 7, 50, 7, 7, 3)), "a few images");
  expect(!is_chosen(dense_layer(128, 32, 16, 32, 3, 1)), "but not many");
  expect(is_chosen(in_groups(dense_layer(1, 128, 56, 128, 3, 1), 32)), "groups");
  expect(is_chosen(in_groups(dense_layer(4, 32, 112, 16, 5, 2), 4)),
         "which merged are mostly zeros");
  expect(!is_chosen(in_groups(dense_layer(64, 128, 56, 128, 3, 1), 32)), "but not of many images");
  expect(!is_chosen(in_groups(dense_layer(4, 24, 56, 96, 3, 1, 1, true), 8)),
         "nor of parts of sectors");
  expect(is_chosen(in_groups(dense_layer(1, 24, 56, 54, 1), 3)), "of single pixels");
  expect(!is_chosen(dense_layer(1, 24, 56, 144, 1)), "but not one group of them");
  expect(!is_chosen(dense_layer(1, 18, 56, 18, 3, 1)), "nor where implicit_gemm_tiled is faster");
  expect(!is_chosen(dense_layer(1, 1, 28, 20, 5)), "nor with little of anything");
  expect(is_chosen(dense_layer(1, 3, 96, 64, 3, 1)), "before im2win_stem");
  expect(!is_chosen(dense_layer(4, 3, 96, 64, 3, 1)), "but not of more images");
  expect(is_chosen(in_groups(dense_layer(1, 160, 28, 160, 3, 1), 32), IM2WIN_FLOAT16), "16 bits");
  expect(!is_chosen(in_groups(dense_layer(1, 256, 28, 256, 3, 1), 32), IM2WIN_FLOAT16),
         "but not what `grouped` takes");
  expect(!is_chosen(dense_layer(1, 16, 55, 64, 3, 1), IM2WIN_BFLOAT16), "and less than in float32");
  Problem rounded = in_groups(dense_layer(1, 128, 56, 128, 3, 1), 32);
  rounded.math = IM2WIN_MATH_TF32;
  expect(is_chosen(rounded), "and in TF32");
}

/// Few filters, or windows of few elements.
void check_strips() {
  expect(is_chosen(dense_layer(8, 3, 1080, 3, 3, 1)), "filters of images");
  expect(is_chosen(dense_layer(8, 3, 1080, 3, 3, 1), IM2WIN_FLOAT16), "in any dtype");
  expect(is_chosen(dense_layer(16, 64, 192, 3, 9, 4)), "images from many channels");
  expect(!is_chosen(dense_layer(16, 64, 192, 3, 9, 4), IM2WIN_FLOAT16), "but not with 16 bits");
  expect(!is_chosen(dense_layer(64, 64, 96, 8, 3, 1)), "eight filters of many channels");
  expect(is_chosen(dense_layer(128, 7, 50, 7, 7, 3)), "but of few ones");
  expect(!is_chosen(dense_layer(64, 64, 96, 12, 3, 1)), "more filters");
  expect(is_chosen(dense_layer(64, 3, 224, 16, 3, 1)), "more filters of images");
  expect(!is_chosen(dense_layer(64, 3, 224, 32, 3, 1)), "but not any number");
  expect(!is_chosen(dense_layer(64, 3, 640, 16, 3, 1, 2)), "nor with a stride");
  expect(is_chosen(dense_layer(2, 1, 572, 64, 3)), "windows that im2win_fused refuses");
  expect(!is_chosen(dense_layer(2, 1, 572, 64, 3), IM2WIN_FLOAT16), "but not with 16 bits");
  expect(is_chosen(dense_layer(128, 3, 32, 16, 3, 1), IM2WIN_FLOAT16), "short rows");
  expect(!is_chosen(dense_layer(64, 3, 224, 16, 3, 1), IM2WIN_FLOAT16), "but not long ones");
  expect(is_chosen(dense_layer(128, 1, 28, 20, 5), IM2WIN_FLOAT16), "few outputs of digits");
  expect(!is_chosen(dense_layer(128, 1, 28, 32, 3), IM2WIN_FLOAT16), "but not of more filters");
  expect(!is_chosen(dense_layer(128, 16, 32, 16, 3, 1)), "nor of more channels");
  expect(!is_chosen(dense_layer(64, 3, 224, 3, 3, 1), IM2WIN_FLOAT64), "nor float64");
  Problem groups = dense_layer(128, 24, 56, 54, 1, 0, 1, true);
  groups.groups = 3;
  expect(is_chosen(groups), "groups of pixels");
  groups.input = dense(128, 24, 56, 56, false);
  expect(!is_chosen(groups), "but not of planes");
  expect(!is_chosen(dense_layer(1, 512, 31, 1, 4, 1)), "few pixels of many channels");
  expect(!is_chosen(dense_layer(4, 64, 388, 2, 1)), "1x1 of planes");
  expect(is_chosen(dense_layer(4, 64, 388, 2, 1, 0, 1, true)), "but of pixels");
  expect(is_chosen(dense_layer(16, 8, 512, 4, 1, 0, 1, true), IM2WIN_FLOAT16),
         "few channels of a pixel");
  expect(!is_chosen(dense_layer(16, 8, 512, 8, 1, 0, 1, true), IM2WIN_FLOAT16), "but not for more");
  expect(!is_chosen(dense_layer(16, 8, 512, 4, 1), IM2WIN_FLOAT16), "nor of planes");
}

/// A filter a channel.
void check_depthwise() {
  const auto is_for_fma = [](int64_t n, int64_t channels, int64_t size, int64_t kernel) {
    const Problem problem = dense_layer(n, channels, size, channels, kernel, kernel / 2);
    return fma_strips::is_faster_than_depthwise(in_groups(problem, channels));
  };
  expect(is_for_fma(1, 100, 14, 11), "large windows of few small planes");
  expect(is_for_fma(1, 60, 28, 9), "less large ones");
  expect(!is_for_fma(1, 60, 28, 7), "but not small ones");
  expect(!is_for_fma(2, 100, 14, 11) && !is_for_fma(1, 768, 7, 9), "nor of many planes");
  expect(!is_for_fma(1, 128, 56, 31) && !is_for_fma(1, 3, 512, 11), "nor of large planes");
}

}  // namespace

int main() {
  check_estimates();
  check_quick();
  check_strips();
  check_depthwise();
  std::printf("%d wrong\n", failures);
  return failures == 0 ? 0 : 1;
}
