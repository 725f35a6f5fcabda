// Problems of square sizes.
#pragma once

#include <cstdint>

#include "problem.hpp"

/// In float32; the tensors' layouts are left open.
inline im2win::Problem square_layer(int64_t n, int64_t c, int64_t size, int64_t k, int64_t kernel,
                                    int64_t padding = 0, int64_t stride = 1) {
  im2win::Problem problem{};
  problem.dtype = IM2WIN_FLOAT32;
  problem.n = n;
  problem.c = c;
  problem.h = problem.w = size;
  problem.k = k;
  problem.r = problem.s = kernel;
  problem.stride_h = problem.stride_w = stride;
  problem.dilation_h = problem.dilation_w = problem.groups = 1;
  problem.padding_top = problem.padding_bottom = padding;
  problem.padding_left = problem.padding_right = padding;
  problem.p = problem.q = (size + 2 * padding - kernel) / stride + 1;
  return problem;
}

inline im2win::Tensor dense(int64_t n, int64_t c, int64_t h, int64_t w, bool is_channels_last) {
  if (is_channels_last) return {{n, c, h, w}, {c * h * w, 1, w * c, c}};
  return {{n, c, h, w}, {c * h * w, h * w, w, 1}};
}

/// Of dense tensors.
inline im2win::Problem dense_layer(int64_t n, int64_t c, int64_t size, int64_t k, int64_t kernel,
                                   int64_t padding = 0, int64_t stride = 1,
                                   bool is_channels_last = false) {
  im2win::Problem problem = square_layer(n, c, size, k, kernel, padding, stride);
  problem.alpha = 1;
  problem.input = dense(n, c, size, size, is_channels_last);
  problem.output = dense(n, k, problem.p, problem.q, is_channels_last);
  return problem;
}
