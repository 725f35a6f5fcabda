// A convolution of dense tensors, emulated, beside the definition. Data are integers, so that sums are exact, or not finite:
// small ones, and in float32 inputs that bfloat16 and float16 do not have.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <memory>
#include <type_traits>
#include <vector>

#include "backend.hpp"
#include "definition.hpp"
#include "descriptors.hpp"
#include "epilogue.hpp"
#include "problem.hpp"

namespace im2win {

/// A dense tensor's elements in memory, from a word of 16 bytes on, or not.
template <class Element>
class Values {
 public:
  Values(int64_t count, bool is_finite, float factor = 1) : first_(once_in(4) ? 1 : 8) {
    for (int64_t i = 0; i < first_ + count; ++i)
      memory_.push_back(
          Element(!is_finite && once_in(60) ? odd() : factor * float(between(-4, 4))));
  }

  Element* data() { return memory_.data() + first_; }
  double at(int64_t i) const { return float(memory_[static_cast<size_t>(first_ + i)]); }
  emulator::Range range() { return {memory_.data() + first_, memory_.data() + memory_.size()}; }

 private:
  static float odd() {
    const float values[] = {INFINITY, -INFINITY, NAN};
    return values[between(0, 2)];
  }

  int64_t first_;
  std::vector<Element> memory_;
};

template <class Element>
double sum(const Problem& problem, const Values<Element>& input, const Values<Element>& filter,
           int64_t n, int64_t k, int64_t p, int64_t q) {
  double sum = 0;
  for_each_product(problem, n, k, p, q,
                   [&](int64_t x, int64_t w) { sum += input.at(x) * filter.at(w); });
  return sum;
}

/// Whether integers' activations are, rounded.
inline bool is_exact(const Problem& problem) {
  return problem.activation != IM2WIN_SILU && problem.activation != IM2WIN_HARDSWISH;
}

/// Of an output, in parts of it.
template <class Element>
constexpr double rounding() {
  return sizeof(Element) >= 4 ? 0x1p-20 : std::is_same_v<Element, __half> ? 0x1p-10 : 0x1p-7;
}

using Configure = std::unique_ptr<Convolution> (*)(const Problem&, const Target&);

/// The number of wrong outputs.
template <class Element>
int64_t check(const Problem& problem, Configure configure, bool is_finite) {
  // Of which a problem leaves out what no window meets (make_problem), so that what is left may have gaps.
  const int64_t input_elements =
      byte_extent(problem.input, sizeof(Element)).end / int64_t{sizeof(Element)};
  const bool has_long = problem.dtype == IM2WIN_FLOAT32 && problem.math != IM2WIN_MATH_TF32;
  Values<Element> input(input_elements, is_finite || once_in(2), has_long ? 2049 : 1);
  Values<Element> filter(problem.filter.elements(), is_finite);
  Values<Element> bias(problem.k, true), residual(problem.output.elements(), true);
  Values<Element> output(problem.output.elements(), true);
  for (int64_t i = 0; i < problem.output.elements(); ++i) output.data()[i] = Element(NAN);
  const bool has_bias = problem.bias_dtype != IM2WIN_NONE;
  const auto convolution = configure(problem, {0, 1});
  emulator::may_read({input.range(), filter.range()});
  convolution->run({input.data(), filter.data(), has_bias ? bias.data() : nullptr,
                    problem.has_residual ? residual.data() : nullptr, output.data(), nullptr},
                   nullptr);
  emulator::may_read({});

  const Epilogue<double> epilogue(problem);
  int64_t wrong = 0;
  for (int64_t n = 0; n < problem.n; ++n)
    for (int64_t k = 0; k < problem.k; ++k)
      for (int64_t p = 0; p < problem.p; ++p)
        for (int64_t q = 0; q < problem.q; ++q) {
          const int64_t at = offset(problem.output, n, k, p, q);
          const double exact =
              epilogue(sum(problem, input, filter, n, k, p, q),
                       problem.has_residual ? residual.at(at) : 0, has_bias ? bias.at(k) : 0);
          const double expected = float(Element(float(exact)));
          if (output.at(at) == expected || (std::isnan(expected) && std::isnan(output.at(at))))
            continue;
          constexpr double kTiny = 0x1p-100;  // exponentials overflow sooner in float32
          const double error = std::abs(output.at(at) - expected);
          if (!is_exact(problem) && error <= rounding<Element>() * std::abs(expected) + kTiny)
            continue;
          if (wrong++ == 0)
            std::printf("[%d, %d, %d, %d] is %g, not %g\n", int(n), int(k), int(p), int(q),
                        output.at(at), expected);
        }
  return wrong;
}

inline int32_t random_dtype() {
  const int32_t dtypes[] = {IM2WIN_FLOAT32, IM2WIN_FLOAT16, IM2WIN_BFLOAT16};
  return dtypes[between(0, 2)];
}

/// A layout for all tensors, and an epilogue.
inline void choose_ends(im2win_conv2d_desc& desc) {
  desc.input_layout = desc.output_layout = desc.residual_layout =
      once_in(2) ? IM2WIN_NCHW : IM2WIN_NHWC;
  if (once_in(2)) desc.bias_dtype = desc.dtype;
  desc.has_residual = once_in(4);
  if (once_in(4)) desc.alpha = 0.5, desc.beta = -2;
  if (once_in(2)) desc.activation = once_in(2) ? IM2WIN_RELU6 : IM2WIN_RELU;
}

inline bool has_outputs(const im2win_conv2d_desc& desc) {
  return desc.h + desc.padding_top + desc.padding_bottom > desc.dilation_h * (desc.r - 1) &&
         desc.w + desc.padding_left + desc.padding_right > desc.dilation_w * (desc.s - 1);
}

inline int64_t check(const im2win_conv2d_desc& desc, Configure configure) {
  const Problem problem = make_problem(&desc);
  const bool is_finite = !once_in(3);
  switch (problem.dtype) {
    case IM2WIN_FLOAT64: return check<double>(problem, configure, is_finite);
    case IM2WIN_FLOAT16: return check<__half>(problem, configure, is_finite);
    case IM2WIN_BFLOAT16: return check<__nv_bfloat16>(problem, configure, is_finite);
    default: return check<float>(problem, configure, is_finite);
  }
}

/// Checks so many random problems; whether all are right.
inline bool check_all(int count, im2win_conv2d_desc (*random_desc)(), Configure configure) {
  int failures = 0;
  for (int checked = 0; checked < count;) {
    const im2win_conv2d_desc d = random_desc();
    if (!has_outputs(d)) continue;
    ++checked;
    if (check(d, configure) == 0) continue;
    ++failures;
    std::printf(
        "  %d x %d x %d x %d, %d filters, %d x %d, stride %d %d, dilation %d %d, padding %d %d %d "
        "%d, "
        "%d groups, dtype %d, layout %d\n",
        int(d.n), int(d.c), int(d.h), int(d.w), int(d.k), int(d.r), int(d.s), int(d.stride_h),
        int(d.stride_w), int(d.dilation_h), int(d.dilation_w), int(d.padding_top),
        int(d.padding_bottom), int(d.padding_left), int(d.padding_right), int(d.groups), d.dtype,
        d.input_layout);
  }
  std::printf("%d problems, %d wrong\n", count, failures);
  return failures == 0;
}

}  // namespace im2win
