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
    return activated(added(sum, residual, bias));
  }

  /// Its two steps.
  IM2WIN_HOST_DEVICE Compute added(Compute sum, Compute residual, Compute bias) const {
    return alpha * sum + beta * residual + bias;
  }
  IM2WIN_HOST_DEVICE Compute activated(Compute x) const {
    using std::erfc;
    using std::exp;
    using std::tanh;
    switch (activation) {
      case IM2WIN_IDENTITY: return x;
      case IM2WIN_RELU: return x < 0 ? Compute(0) : x;
      case IM2WIN_RELU6: return clamp(x, 0, 6);
      case IM2WIN_LEAKY_RELU: return x < 0 ? x * params[0] : x;
      case IM2WIN_SILU: return x * reciprocal(1 + exp(-x));
      case IM2WIN_GELU: return x / 2 * erfc(x * Compute(-0.70710678118654752440));
      case IM2WIN_SIGMOID: return reciprocal(1 + exp(-x));
      case IM2WIN_TANH: return tanh(x);
      case IM2WIN_HARDSWISH: return x * (clamp(x + 3, 0, 6) * (Compute(1) / 6));
      case IM2WIN_CLAMP: return clamp(x, params[0], params[1]);
    }
    return x;
  }

 private:
  /// On a GPU, in float32, off by a unit in the last place at most, and without the branches that an exact one takes,
  /// for which many sums would wait.
  IM2WIN_HOST_DEVICE static Compute reciprocal(Compute x) {
#if defined(__CUDA_ARCH__)
    if constexpr (sizeof(Compute) == sizeof(float)) {
      float y;
      asm("rcp.approx.f32 %0, %1;" : "=f"(y) : "f"(x));
      return y;
    }
#endif
    return 1 / x;
  }

  IM2WIN_HOST_DEVICE static Compute clamp(Compute x, Compute low, Compute high) {
    return x < low ? low : x > high ? high : x;
  }
};

}  // namespace im2win
