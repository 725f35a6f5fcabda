// What happens to a finished sum on its way to the output, the same on host and device.
#pragma once

#include "activations.hpp"
#include "problem.hpp"

#if defined(__CUDACC__)
#define IM2WIN_HOST_DEVICE __host__ __device__
#else
#define IM2WIN_HOST_DEVICE
#endif

namespace im2win {

/// Whether an activation takes few enough operations for unrolled code to have it once for each of many sums.
constexpr bool is_short(im2win_activation activation) {
  return activation != IM2WIN_GELU && activation != IM2WIN_SIGMOID && activation != IM2WIN_TANH;
}

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
    return activated(added(sum, residual, bias));
  }

  /// Its two steps.
  IM2WIN_HOST_DEVICE Compute added(Compute sum, Compute residual, Compute bias) const {
    return alpha * sum + beta * residual + bias;
  }
  IM2WIN_HOST_DEVICE Compute activated(Compute x) const {
    switch (activation) {
      case IM2WIN_IDENTITY: return x;
      case IM2WIN_RELU: return x < 0 ? Compute(0) : x;
      case IM2WIN_RELU6: return clamp(x, 0, 6);
      case IM2WIN_LEAKY_RELU: return x < 0 ? x * params[0] : x;
      case IM2WIN_SILU: return x * activations::sigmoid(x);
      case IM2WIN_GELU: return activations::gelu(x);
      case IM2WIN_SIGMOID: return activations::sigmoid(x);
      case IM2WIN_TANH: return activations::tanh(x);
      case IM2WIN_HARDSWISH: return x * (clamp(x + 3, 0, 6) * (Compute(1) / 6));
      case IM2WIN_CLAMP: return clamp(x, params[0], params[1]);
    }
    return x;
  }

 private:
  IM2WIN_HOST_DEVICE static Compute clamp(Compute x, Compute low, Compute high) {
    return x < low ? low : x > high ? high : x;
  }
};

}  // namespace im2win
