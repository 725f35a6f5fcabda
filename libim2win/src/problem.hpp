// One convolution, checked: what every algorithm and backend works from.
#pragma once

#include <cstdint>

#include "im2win/im2win.h"
#include "tensor.hpp"

namespace im2win {

/// A descriptor whose every field has been checked, with the sizes that follow from it. The padded
/// sizes, and the counts and byte extents of its tensors, are at most kMaxExtent. Plain data.
struct Problem {
  im2win_dtype dtype;
  im2win_math math;

  int64_t n, c, h, w;
  int64_t k, r, s;
  int64_t p, q;
  int64_t stride_h, stride_w;
  int64_t padding_top, padding_bottom, padding_left, padding_right;
  int64_t dilation_h, dilation_w;
  int64_t groups;

  Tensor input;     // N C H W
  Tensor filter;    // K C/groups R S
  Tensor output;    // N K P Q
  Tensor residual;  // like the output; meaningless without has_residual

  im2win_dtype bias_dtype;  // IM2WIN_NONE: no bias
  int64_t bias_stride;
  bool has_residual;
  double alpha, beta;
  im2win_activation activation;
  double activation_params[2];

  int64_t c_per_group() const { return c / groups; }
  int64_t k_per_group() const { return k / groups; }
  /// Products that make one output.
  int64_t window_elements() const { return c_per_group() * r * s; }
  /// Output positions of one filter, over all images.
  int64_t output_pixels() const { return n * p * q; }
  int64_t padded_w() const { return padding_left + w + padding_right; }
  bool is_padded() const {
    return (padding_top | padding_bottom | padding_left | padding_right) != 0;
  }
};

int64_t element_bytes(im2win_dtype dtype);
const char* dtype_name(im2win_dtype dtype);

/// Throws INVALID_ARGUMENT, naming the field, its value and what was expected, or UNSUPPORTED for
/// an operation of a later version.
Problem make_problem(const im2win_conv2d_desc* desc);

/// The same for the transform, which reads only the input's and the window's fields.
Problem make_transform_problem(const im2win_conv2d_desc* desc);

/// The sizes N, C, P, Wp, R of the im2win tensor (see im2win_transform) and its bytes.
int64_t transform_bytes(const Problem& problem);

}  // namespace im2win
