// What happens to a finished sum on its way to the output, the same on host and device.
#pragma once

#include <cmath>

#include "problem.hpp"

#if defined(__CUDACC__)
#define IM2WIN_HOST_DEVICE __host__ __device__
#else
#define IM2WIN_HOST_DEVICE
#endif

namespace im2win {

/// activation(alpha * sum + beta * residual + bias) in Compute, which is float or double. Plain
/// data: it is passed to kernels as it is. Comparisons are written so that NaN stays NaN.
template <class Compute>
struct Epilogue {
  Compute alpha;
  Compute beta;
  im2win_activation activation;
  Compute params[2];

  explicit Epilogue(const Problem& problem)
      : alpha(static_cast<Compute>(problem.alpha)),
        beta(static_cast<Compute>(problem.beta)),
        activation(problem.activation),
        params{static_cast<Compute>(problem.activation_params[0]),
               static_cast<Compute>(problem.activation_params[1])} {}

  /// Whether it only adds the bias.
  bool is_sum_plus_bias() const { return alpha == 1 && beta == 0 && activation == IM2WIN_IDENTITY; }

  /// Without a residual, or without a bias, pass 0 for it.
  IM2WIN_HOST_DEVICE Compute operator()(Compute sum, Compute residual, Compute bias) const {
    return activate(alpha * sum + beta * residual + bias);
  }

 private:
  IM2WIN_HOST_DEVICE static Compute clamp(Compute x, Compute low, Compute high) {
    return x < low ? low : x > high ? high : x;
  }

  IM2WIN_HOST_DEVICE Compute activate(Compute x) const {
    using std::erfc;
    using std::exp;
    using std::tanh;
    switch (activation) {
      case IM2WIN_IDENTITY: return x;
      case IM2WIN_RELU: return x < 0 ? Compute(0) : x;
      case IM2WIN_RELU6: return clamp(x, 0, 6);
      case IM2WIN_LEAKY_RELU: return x < 0 ? x * params[0] : x;
      case IM2WIN_SILU: return x / (1 + exp(-x));
      case IM2WIN_GELU: return x / 2 * erfc(x * Compute(-0.70710678118654752440));
      case IM2WIN_SIGMOID: return 1 / (1 + exp(-x));
      case IM2WIN_TANH: return tanh(x);
      case IM2WIN_HARDSWISH: return x * clamp(x + 3, 0, 6) / 6;
      case IM2WIN_CLAMP: return clamp(x, params[0], params[1]);
    }
    return x;
  }
};

}  // namespace im2win
