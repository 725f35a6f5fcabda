// The forms that im2win_fused gives problems: each output is where it was, and so is the pixel under it.

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdio>
#include <random>
#include <vector>

#include "cuda/fused/forms.hpp"
#include "expect.hpp"

namespace {

using namespace im2win;
using namespace im2win::cuda::fused;

/// How pixels of a tensor of 8 channels lie.
enum class Layout { kNhwc, kNchw, kGaps, kFlipped };

Tensor tensor_of(int64_t n, int64_t h, int64_t w, Layout layout) {
  const int64_t c = 8;
  switch (layout) {
    case Layout::kNhwc: return {{n, c, h, w}, {h * w * c, 1, w * c, c}};
    case Layout::kNchw: return {{n, c, h, w}, {c * h * w, h * w, w, 1}};
    case Layout::kGaps: return {{n, c, h, w}, {(h * w + 3) * c, 1, w * c, c}};
    default: return {{n, c, h, w}, {-h * w * c, 1, -w * c, -c}};
  }
}

struct Windows {
  int64_t r = 1, s = 1, stride = 1, padding = 0;
};

Problem make_problem(int64_t n, int64_t h, int64_t w, const Windows& windows, Layout layout) {
  Problem problem{};
  problem.n = n;
  problem.c = problem.k = 8;
  problem.h = h;
  problem.w = w;
  problem.r = windows.r;
  problem.s = windows.s;
  problem.stride_h = problem.stride_w = windows.stride;
  problem.dilation_h = problem.dilation_w = 1;
  problem.padding_top = problem.padding_left = windows.padding;
  problem.groups = 1;
  problem.p = (h + windows.padding - windows.r) / windows.stride + 1;
  problem.q = (w + windows.padding - windows.s) / windows.stride + 1;
  problem.input = tensor_of(n, h, w, layout);
  problem.filter = tensor_of(problem.k, windows.r, windows.s, layout);
  problem.output = problem.residual = tensor_of(n, problem.p, problem.q, layout);
  problem.has_residual = true;
  return problem;
}

/// Of each output: where it is, what is added to it, and where its window begins.
std::vector<std::array<int64_t, 3>> places(const Problem& problem) {
  std::vector<std::array<int64_t, 3>> all;
  const auto at = [](const Tensor& tensor, int64_t n, int64_t y, int64_t x) {
    return n * tensor.stride[0] + y * tensor.stride[2] + x * tensor.stride[3];
  };
  for (int64_t n = 0; n < problem.n; ++n)
    for (int64_t p = 0; p < problem.p; ++p)
      for (int64_t q = 0; q < problem.q; ++q)
        all.push_back({at(problem.output, n, p, q), at(problem.residual, n, p, q),
                       at(problem.input, n, p * problem.stride_h - problem.padding_top,
                          q * problem.stride_w - problem.padding_left)});
  std::sort(all.begin(), all.end());
  return all;
}

/// Of each output: the inputs and the elements of the first filter that it is the sum of, by their places.
std::vector<std::array<int64_t, 3>> products(const Problem& problem) {
  std::vector<std::array<int64_t, 3>> all;
  const Tensor &input = problem.input, &filter = problem.filter, &output = problem.output;
  for (int64_t p = 0; p < problem.p; ++p)
    for (int64_t q = 0; q < problem.q; ++q)
      for (int64_t r = 0; r < problem.r; ++r)
        for (int64_t s = 0; s < problem.s; ++s) {
          const int64_t y = p * problem.stride_h + r * problem.dilation_h - problem.padding_top;
          const int64_t x = q * problem.stride_w + s * problem.dilation_w - problem.padding_left;
          if (y < 0 || y >= problem.h || x < 0 || x >= problem.w) continue;
          for (int64_t c = 0; c < problem.c; ++c)
            all.push_back({p * output.stride[2] + q * output.stride[3],
                           c * input.stride[1] + y * input.stride[2] + x * input.stride[3],
                           c * filter.stride[1] + r * filter.stride[2] + s * filter.stride[3]});
        }
  std::sort(all.begin(), all.end());
  return all;
}

/// What im2win_fused asks for, one after another.
std::array<Problem, 3> forms_of(const Problem& problem) {
  const Problem merged = with_merged_images(problem);
  return {merged, with_merged_rows(merged), with_images_as_rows(problem)};
}
Problem patches_of(const Problem& problem) {
  return with_rows_as_columns(with_columns_as_channels(problem));
}

void check_places() {
  std::mt19937 random(2023);
  const auto between = [&](int64_t low, int64_t high) {
    return std::uniform_int_distribution<int64_t>(low, high)(random);
  };
  for (int i = 0; i < 2000; ++i) {
    const auto layout = static_cast<Layout>(i % 4);
    const Windows windows =
        i % 8 < 4 ? Windows{} : Windows{between(1, 3), between(1, 3), between(1, 2), between(0, 1)};
    const Problem problem =
        make_problem(between(1, 4), between(3, 7), between(3, 7), windows, layout);
    for (const Problem& form : forms_of(problem))
      expect(places(form) == places(problem), "outputs and their windows are where they were");
  }
}

void check_products() {
  std::mt19937 random(2023);
  const auto between = [&](int64_t low, int64_t high) {
    return std::uniform_int_distribution<int64_t>(low, high)(random);
  };
  for (int i = 0; i < 2000; ++i) {
    const int64_t stride = between(1, 3), r = between(1, 3);
    const Windows windows = {i % 3 == 0 ? stride : r, stride * between(1, 2), stride,
                             i % 2 == 0 ? 0 : between(0, 3)};
    const Problem problem =
        make_problem(1, between(6, 9), between(6, 9), windows, static_cast<Layout>(i % 4));
    const Problem columns = with_columns_as_channels(problem);
    for (const Problem& form :
         {columns, with_rows_as_columns(columns), with_planes_as_rows(problem)}) {
      expect(places(form) == places(problem), "outputs of patches are where they were");
      expect(products(form) == products(problem), "and the same sums");
    }
  }
}

void check_patches() {
  const auto form_of = [](int64_t n, int64_t h, int64_t w, Windows windows, Layout layout) {
    const Problem form = with_merged_images(patches_of(make_problem(n, h, w, windows, layout)));
    return std::array<int64_t, 5>{form.c, form.h, form.w, form.r, form.s};
  };
  using Sizes = std::array<int64_t, 5>;
  expect(form_of(3, 8, 12, {4, 4, 4}, Layout::kNhwc) == Sizes{32, 6, 12, 1, 4},
         "patches: rows of their rows, of all images");
  expect(form_of(3, 9, 13, {4, 4, 4}, Layout::kNhwc) == Sizes{32, 9, 3, 4, 1},
         "rows and columns that no patch has");
  expect(form_of(3, 12, 12, {8, 8, 4}, Layout::kNhwc) == Sizes{32, 12, 3, 8, 2},
         "windows of two steps");
  expect(form_of(3, 12, 12, {8, 8, 4, 2}, Layout::kNhwc) == Sizes{8, 12, 12, 8, 8},
         "half a step of padding");
  expect(form_of(3, 8, 12, {4, 4, 4}, Layout::kNchw) == Sizes{8, 8, 12, 4, 4},
         "columns with channels between");
  expect(form_of(3, 8, 12, {4, 3, 4}, Layout::kNhwc) == Sizes{8, 8, 12, 4, 3},
         "windows of less than a step");
}

void check_planes() {
  const auto form_of = [](int64_t h, int64_t w, Windows windows, Layout layout) {
    const Problem form = with_planes_as_rows(make_problem(3, h, w, windows, layout));
    return std::array<int64_t, 7>{form.c, form.h,          form.w,         form.r,
                                  form.s, form.dilation_h, form.dilation_w};
  };
  using Sizes = std::array<int64_t, 7>;
  expect(form_of(8, 12, {4, 4, 4}, Layout::kNchw) == Sizes{4, 16, 12, 8, 4, 2, 3},
         "planes: a channel's rows below the last one's");
  expect(form_of(6, 6, {3, 2, 3}, Layout::kNchw) == Sizes{8, 6, 6, 3, 2, 1, 1},
         "windows that are no step's");
  expect(form_of(9, 12, {4, 4, 4}, Layout::kNchw) == Sizes{8, 9, 12, 4, 4, 1, 1},
         "rows that no patch has between channels");
  expect(form_of(8, 13, {4, 4, 4}, Layout::kNchw) == Sizes{8, 8, 13, 4, 4, 1, 1},
         "and columns between rows");
  expect(form_of(8, 12, {4, 4, 4, 4}, Layout::kNchw) == Sizes{8, 8, 12, 4, 4, 1, 1}, "padding");
  expect(form_of(8, 12, {4, 4, 4}, Layout::kNhwc) == Sizes{8, 8, 12, 4, 4, 1, 1},
         "columns with channels between");
}

void check_sizes() {
  const auto rows_of = [](int64_t n, int64_t h, int64_t w, Windows windows, Layout layout) {
    const Problem form =
        with_merged_rows(with_merged_images(make_problem(n, h, w, windows, layout)));
    return std::array<int64_t, 3>{form.n, form.p, form.q};
  };
  using Sizes = std::array<int64_t, 3>;
  expect(rows_of(3, 4, 5, {}, Layout::kNhwc) == Sizes{1, 2, 30}, "two rows of all images");
  expect(rows_of(3, 7, 5, {}, Layout::kNhwc) == Sizes{1, 1, 105}, "an odd number of pixels");
  expect(rows_of(3, 4, 1, {}, Layout::kNhwc) == Sizes{1, 2, 6}, "rows of a pixel");
  expect(rows_of(3, 4, 5, {}, Layout::kNchw) == Sizes{3, 4, 5}, "images with channels between");
  expect(rows_of(1, 4, 5, {}, Layout::kNchw) == Sizes{1, 2, 10}, "an image");
  expect(rows_of(3, 4, 5, {}, Layout::kGaps) == Sizes{3, 4, 5}, "images with gaps between");
  expect(rows_of(3, 4, 6, {1, 1, 2}, Layout::kNhwc) == Sizes{1, 6, 3}, "pixels with gaps between");
  expect(rows_of(3, 4, 5, {3, 3}, Layout::kNhwc) == Sizes{3, 2, 3}, "windows of nine");
  constexpr int64_t kLong = int64_t{1} << 21;
  expect(rows_of(1, 1, kLong, {}, Layout::kNhwc) == Sizes{1, 1, kLong}, "too many pixels");
}

void check_groups() {
  Problem problem = make_problem(1, 4, 4, {}, Layout::kNhwc);
  problem.k = 96;
  problem.groups = 24;
  expect(with_merged_groups(problem, 64).groups == 2, "twelve groups of four filters");
  expect(with_merged_groups(problem, 3).groups == 24, "groups of more filters than fit");
}

}  // namespace

int main() {
  check_places();
  check_products();
  check_patches();
  check_planes();
  check_sizes();
  check_groups();
  return failures == 0 ? 0 : 1;
}
