#include "reference.hpp"

#include <algorithm>
#include <cmath>

namespace fuzz {
namespace {

/// A convolution's value and the sum of its products' magnitudes.
struct Sum {
  double value = 0;
  double magnitude = 0;
};

Sum convolve(const im2win_conv2d_desc& d, const Tensors& t, int64_t n, int64_t k, int64_t p,
             int64_t q) {
  const int64_t channels = d.c / d.groups;
  const int64_t first = k / (d.k / d.groups) * channels;
  Sum sum;
  for (int64_t c = 0; c < channels; ++c) {
    for (int64_t r = 0; r < d.r; ++r) {
      const int64_t y = p * d.stride_h + r * d.dilation_h - d.padding_top;
      if (y < 0 || y >= d.h) continue;
      for (int64_t s = 0; s < d.s; ++s) {
        const int64_t x = q * d.stride_w + s * d.dilation_w - d.padding_left;
        if (x < 0 || x >= d.w) continue;
        const double product = t.input->get(n, first + c, y, x) * t.filter->get(k, c, r, s);
        sum.value += product;
        sum.magnitude += std::abs(product);
      }
    }
  }
  return sum;
}

double clamp(double x, double low, double high) { return x < low ? low : x > high ? high : x; }

double activate(const im2win_conv2d_desc& d, double x) {
  switch (d.activation) {
    case IM2WIN_RELU: return x < 0 ? 0 : x;
    case IM2WIN_RELU6: return clamp(x, 0, 6);
    case IM2WIN_LEAKY_RELU: return x < 0 ? x * d.activation_params[0] : x;
    case IM2WIN_SILU: return x / (1 + std::exp(-x));
    case IM2WIN_GELU: return x / 2 * std::erfc(-x / std::sqrt(2.0));
    case IM2WIN_SIGMOID: return 1 / (1 + std::exp(-x));
    case IM2WIN_TANH: return std::tanh(x);
    case IM2WIN_HARDSWISH: return x * clamp(x + 3, 0, 6) / 6;
    case IM2WIN_CLAMP: return clamp(x, d.activation_params[0], d.activation_params[1]);
    default: return x;
  }
}

double roundoff(int32_t dtype) {
  switch (dtype) {
    case IM2WIN_FLOAT64: return 0x1p-53;
    case IM2WIN_FLOAT32: return 0x1p-24;
    case IM2WIN_FLOAT16: return 0x1p-11;
    default: return 0x1p-8;
  }
}

bool is_near(const im2win_conv2d_desc& d, double y, double x, double magnitude) {
  const double exact = activate(d, x);
  if (std::isnan(exact) || std::isnan(y)) return std::isnan(exact) && std::isnan(y);
  if (y == exact) return true;
  // Sums of small integers are exact; scaling, bias, residual and activation round a few times.
  const double compute = 16 * (d.dtype == IM2WIN_FLOAT64 ? 0x1p-53 : 0x1p-24);
  const double slope = std::max(2.0, std::abs(d.activation_params[0]));
  const double rounding = 1.01 * roundoff(d.dtype) * std::abs(exact);
  const double underflow = d.dtype == IM2WIN_FLOAT16 ? 0x1p-24 : 0;
  const double allowed = rounding + underflow + compute * (slope * magnitude + std::abs(exact) + 1);
  if (d.dtype == IM2WIN_FLOAT16 && std::isinf(y))
    return std::abs(exact) + allowed >= 65504 && (y > 0) == (exact > 0);
  return std::abs(y - exact) <= allowed;
}

bool is_moderate(double value) {
  return value == 0 || (std::abs(value) >= 0x1p-6 && std::abs(value) <= 64);
}

}  // namespace

bool is_checkable(const im2win_conv2d_desc& d) {
  return is_moderate(d.alpha) && is_moderate(d.beta) && is_moderate(d.activation_params[0]) &&
         is_moderate(d.activation_params[1]);
}

bool is_right(const im2win_conv2d_desc& d, const Tensors& t) {
  bool is_right = true;
  t.output->shape().each([&](int64_t n, int64_t k, int64_t p, int64_t q) {
    const Sum sum = convolve(d, t, n, k, p, q);
    const double bias = t.bias == nullptr ? 0 : t.bias->get(0, 0, 0, k);
    const double residual = t.residual == nullptr ? 0 : d.beta * t.residual->get(n, k, p, q);
    const double x = d.alpha * sum.value + residual + bias;
    const double magnitude =
        std::abs(d.alpha) * sum.magnitude + std::abs(residual) + std::abs(bias);
    is_right = is_right && is_near(d, t.output->get(n, k, p, q), x, magnitude);
  });
  return is_right;
}

bool is_transformed(const im2win_conv2d_desc& d, const Tensor& input, const Tensor& output) {
  bool is_right = true;
  output.shape().each([&](int64_t n, int64_t c, int64_t p, int64_t column) {
    const int64_t y = p * d.stride_h + column % d.r * d.dilation_h - d.padding_top;
    const int64_t x = column / d.r - d.padding_left;
    const bool is_inside = y >= 0 && y < d.h && x >= 0 && x < d.w;
    const double expected = is_inside ? input.get(n, c, y, x) : 0;
    const double value = output.get(n, c, p, column);
    is_right = is_right && (value == expected || (std::isnan(value) && std::isnan(expected)));
  });
  return is_right;
}

}  // namespace fuzz
