// The activations that take more than a few operations. On a GPU, in float32, without branches, for which many sums would
// wait, and off by at most 2^-22 of their argument, or of one.
#pragma once

#include <cmath>

#if defined(__CUDACC__)
#define IM2WIN_ACTIVATION __host__ __device__ __forceinline__
#else
#define IM2WIN_ACTIVATION inline
#endif

namespace im2win::activations {

#if defined(__CUDA_ARCH__)
/// Of at least 1: of those that are so large that the result is subnormal, zero, which takes fewer instructions.
__device__ __forceinline__ float reciprocal(float x) {
  float y;
  asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}
__device__ __forceinline__ float power_of_two(float x) {
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}

__device__ __forceinline__ float sigmoid(float x) {
  constexpr float kExponent = -1.4426950409f;  // -log2(e)
  return reciprocal(1 + power_of_two(x * kExponent));
}

/// Of degree kDegree, the highest coefficient first.
template <int kDegree>
__device__ __forceinline__ float polynomial(const float (&coefficients)[kDegree + 1], float x) {
  float y = coefficients[0];
#pragma unroll
  for (int i = 1; i <= kDegree; ++i) y = fmaf(y, x, coefficients[i]);
  return y;
}

/// erfc(z) is t 2^(p(t)) exp(-z^2), with t = 1 / (1 + z / 2), for z >= 0; here z is |x| / sqrt(2). p is the polynomial that
/// minimizes the largest relative error, 6e-8, for t from 1/8 on, behind which the exponential is zero.
__device__ __forceinline__ float gelu(float x) {
  constexpr float kHalfZ = 0.35355339059f, kExponent = -0.72134752044f;  // log2(e) / 2
  constexpr float kCoefficients[] = {
      0.23227122670f,  -1.1080479405f, 1.9636461680f,  -1.3947469041f, 0.20468159799f,
      -0.16687437625f, 0.10660355262f, 0.54613278434f, 1.4420532948f,  -1.8257193169f};
  const float far = fabsf(x), t = reciprocal(fmaf(far, kHalfZ, 1.0f));
  const float tail =
      t / 2 * power_of_two(fmaf(far * far, kExponent, polynomial<9>(kCoefficients, t)));
  return x * (x < 0 ? tail : 1 - tail);
}

/// By exponentials, but for small x, where these would cancel: there, x times the polynomial of x^2 with the least largest
/// error, 7e-8.
__device__ __forceinline__ float tanh(float x) {
  constexpr float kExponent = -2.8853900818f, kSmall = 0.6f;  // -2 log2(e)
  constexpr float kCoefficients[] = {0.015504612146f, -0.052122528278f, 0.13310648361f,
                                     -0.33332344376f, 0.99999993075f};
  const float far = fabsf(x), power = power_of_two(far * kExponent);
  const float large = copysignf((1 - power) * reciprocal(1 + power), x);
  return far < kSmall ? x * polynomial<4>(kCoefficients, x * x) : large;
}
#endif

template <class Compute>
IM2WIN_ACTIVATION Compute sigmoid(Compute x) {
#if defined(__CUDA_ARCH__)
  if constexpr (sizeof(Compute) == sizeof(float)) return sigmoid(float{x});
#endif
  return 1 / (1 + std::exp(-x));
}

template <class Compute>
IM2WIN_ACTIVATION Compute gelu(Compute x) {
#if defined(__CUDA_ARCH__)
  if constexpr (sizeof(Compute) == sizeof(float)) return gelu(float{x});
#endif
  return x / 2 * std::erfc(x * Compute(-0.70710678118654752440));
}

template <class Compute>
IM2WIN_ACTIVATION Compute tanh(Compute x) {
#if defined(__CUDA_ARCH__)
  if constexpr (sizeof(Compute) == sizeof(float)) return tanh(float{x});
#endif
  return std::tanh(x);
}

}  // namespace im2win::activations

#undef IM2WIN_ACTIVATION
