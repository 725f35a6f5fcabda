// What is chosen on CUDA, asked of random problems of any sizes and strides that are legal: for sanitizers to look at.

#include <cstdint>
#include <cstdio>
#include <random>

#include "cuda/fma_strips/choice.hpp"
#include "cuda/fma_windows/choice.hpp"
#include "cuda/fused/estimate.hpp"
#include "cuda/grouped/tile.hpp"
#include "cuda/implicit_gemm/choice.hpp"
#include "cuda/implicit_gemm/split_k/tile.hpp"
#include "cuda/pointwise/tile.hpp"
#include "cuda/pointwise_mma/choice.hpp"
#include "cuda/pointwise_mma/tile.hpp"
#include "cuda/windows_mma/choice.hpp"
#include "cuda/windows_mma/tile.hpp"
#include "descriptors.hpp"
#include "expect.hpp"
#include "problem.hpp"
#include "status.hpp"

namespace {

using namespace im2win;
using namespace im2win::cuda;

class Random {
 public:
  int64_t between(int64_t first, int64_t last) {
    return std::uniform_int_distribution<int64_t>(first, last)(bits_);
  }
  bool once_in(int64_t times) { return between(1, times) == 1; }

  /// Mostly small; or a power of 2, or one less, up to 2^62.
  int64_t size() {
    if (!once_in(3)) return between(1, once_in(2) ? 9 : 300);
    return (int64_t{1} << between(0, 62)) - between(0, 1);
  }
  int64_t small_size() { return once_in(4) ? size() : once_in(2) ? 1 : between(1, 5); }
  int64_t stride() { return once_in(2) ? size() : -size(); }

  im2win_conv2d_desc desc() {
    constexpr im2win_dtype kDtypes[] = {IM2WIN_FLOAT64, IM2WIN_FLOAT32, IM2WIN_FLOAT16,
                                        IM2WIN_BFLOAT16};
    im2win_conv2d_desc d;
    write_default_desc(&d, sizeof d);
    d.dtype = kDtypes[between(0, 3)];
    if (once_in(4)) d.math = IM2WIN_MATH_TF32;
    d.n = once_in(10) ? 0 : small_size();
    d.groups = once_in(3) ? between(1, 8) : 1;
    d.c = d.groups * (small_size() >> 4 | 1);
    d.k = d.groups * (size() >> 4 | 1);
    d.h = size(), d.w = size();
    d.r = small_size(), d.s = small_size();
    d.stride_h = small_size(), d.stride_w = small_size();
    d.dilation_h = small_size(), d.dilation_w = small_size();
    for (int64_t* padding : {&d.padding_top, &d.padding_left, &d.padding_right})
      if (once_in(3)) *padding = size();
    const int64_t layout = between(0, 2);
    d.output_layout = layout == 0 ? IM2WIN_NHWC : IM2WIN_NCHW;
    d.input_layout = d.filter_layout = layout == 2 ? IM2WIN_STRIDED : d.output_layout;
    if (layout == 2)
      for (int i = 0; i < 4; ++i) d.input_strides[i] = stride(), d.filter_strides[i] = stride();
    return d;
  }

 private:
  std::mt19937_64 bits_{1};
};

void check_choices(const Problem& problem) {
  using namespace implicit_gemm;
  is_for_tiles(problem);
  fma_strips::is_faster(problem);
  fma_windows::is_faster(problem);
  if (pointwise::is_faster(problem))
    expect(pointwise::microseconds(problem) > 0, "a time of pointwise");
  pointwise_mma::is_faster(problem);
  if (pointwise_mma::refusal(problem).empty()) {
    using namespace pointwise_mma;
    expect(microseconds(problem, pointwise_mma::choose_tile(problem, kH200), kH200) > 0,
           "a time of pointwise_mma");
  }
  windows_mma::is_faster(problem);
  if (windows_mma::refusal(problem).empty()) {
    const windows_mma::Tile tile = windows_mma::choose_tile(problem, kH200);
    expect(windows_mma::microseconds(problem, tile, kH200) > 0, "a time of windows_mma");
  }
  if (grouped::refusal(problem).empty())
    expect(grouped::microseconds(problem) > 0, "a time of grouped");
  if (problem.dtype == IM2WIN_FLOAT64) return;
  expect(fused::microseconds(problem) > 0, "a time of im2win_fused");
  if (!split_k::refusal(problem).empty()) return;
  expect(implicit_gemm::microseconds(problem) > 0, "a time of implicit_gemm_tiled");
  const split_k::Tile tile = split_k::choose_tile(problem, 132, true);
  expect(tile.splits >= 1 && tile.splits <= split_k::kMostSplits, "a tile");
}

}  // namespace

int main() {
  constexpr int kProblems = 100000;
  Random random;
  int legal = 0;
  for (int i = 0; i < kProblems; ++i) {
    const im2win_conv2d_desc desc = random.desc();
    try {
      check_choices(make_problem(&desc));
      ++legal;
    } catch (const Error&) {  // most are not
    }
  }
  expect(legal > kProblems / 10, "enough that are legal");
  std::printf("%d of %d legal, %d wrong\n", legal, kProblems, failures);
  return failures == 0 ? 0 : 1;
}
