// Random problems for im2win_fused and im2win_stem, of the kinds that these stage each in its own way.
#pragma once

#include <cstdint>

#include "definition.hpp"
#include "descriptors.hpp"

namespace im2win {

/// The input with gaps, or with rows and columns backwards, or all images the same.
inline void stride_apart(im2win_conv2d_desc& desc) {
  const int64_t size[] = {desc.n, desc.c, desc.h, desc.w};
  const int order[2][4] = {{3, 2, 1, 0}, {1, 3, 2, 0}};
  int64_t stride = between(1, 3);
  for (const int dimension : order[desc.input_layout == IM2WIN_NHWC]) {
    desc.input_strides[dimension] = once_in(5) ? -stride : stride;
    stride = stride * size[dimension] + 8 * between(0, 2);
  }
  if (once_in(4)) desc.input_strides[0] = 0;
  desc.input_layout = IM2WIN_STRIDED;
}

/// What comes as boxes, of pixels or of lines, and leaves as such.
inline im2win_conv2d_desc random_boxes() {
  im2win_conv2d_desc desc = default_desc();
  const bool has_small_groups = once_in(5);
  desc.groups = has_small_groups ? 1 << between(2, 5) : once_in(5) ? 2 : 1;
  desc.n = between(1, 4);
  desc.c = desc.groups * (has_small_groups ? 1 << between(1, 3) : 8 * between(1, 10));
  desc.k = desc.groups * (has_small_groups ? 1 << between(1, 3)
                          : once_in(4)     ? 128
                                           : 8 * between(1, 18));
  desc.h = between(1, 14);
  desc.w = between(1, 20);
  desc.r = between(1, 3);
  desc.s = between(1, 3);
  desc.stride_h = between(1, 2);
  desc.stride_w = between(1, 2);
  desc.dilation_h = between(1, 2);
  desc.dilation_w = between(1, 2);
  if (once_in(2)) {
    desc.padding_top = desc.padding_bottom = between(0, 2);
    desc.padding_left = desc.padding_right = between(0, 2);
  }
  const int32_t dtypes[] = {IM2WIN_FLOAT32, IM2WIN_FLOAT16, IM2WIN_BFLOAT16};
  desc.dtype = dtypes[between(0, 2)];
  const bool has_lines = once_in(2);
  desc.math = desc.dtype == IM2WIN_FLOAT32 && !(has_lines && once_in(2)) ? IM2WIN_MATH_TF32
                                                                         : IM2WIN_MATH_FP32;
  desc.input_layout = desc.output_layout = has_lines ? IM2WIN_NCHW : IM2WIN_NHWC;
  if (!once_in(3)) desc.filter_layout = IM2WIN_NHWC;
  return desc;
}

/// Rows of so many words, to be transposed, that warps have registers for about as many of them.
inline im2win_conv2d_desc random_lines() {
  im2win_conv2d_desc desc = default_desc();
  desc.n = between(1, 2);
  desc.c = 64;
  desc.k = 8 * between(1, 4);
  desc.h = between(2, 4);
  desc.w = 8 * between(24, 34);
  desc.r = desc.s = 3;
  desc.stride_h = desc.stride_w = between(1, 2);
  desc.padding_top = desc.padding_bottom = desc.padding_left = desc.padding_right = 1;
  desc.dtype = once_in(2) ? IM2WIN_FLOAT16 : IM2WIN_BFLOAT16;
  desc.input_layout = desc.output_layout = IM2WIN_NCHW;
  return desc;
}

/// Windows of single pixels, whose rows are as many whole words as not.
inline im2win_conv2d_desc random_pixels() {
  im2win_conv2d_desc desc = default_desc();
  desc.groups = once_in(5) ? 2 : 1;
  desc.n = between(1, 5);
  desc.c = desc.groups * (once_in(3) ? between(1, 80) : 8 * between(1, 20));
  desc.k = desc.groups * (once_in(3) ? 128 : between(1, 150));
  desc.h = between(1, 20);
  desc.w = once_in(4) ? between(1, 40) : 8 * between(1, 5);
  desc.r = desc.s = 1;
  if (once_in(3)) {  // a few tiles of many slabs, which clusters share out
    desc.groups = desc.n = 1;
    desc.c = 8 * between(17, 50);
    desc.k = between(1, 150);
    desc.h = 8;
    desc.w = 8 * between(1, 4);
  }
  if (once_in(3)) {
    desc.stride_h = between(1, 3);
    desc.stride_w = between(1, 3);
  }
  desc.dtype = once_in(2) ? IM2WIN_FLOAT16 : IM2WIN_BFLOAT16;
  desc.input_layout = IM2WIN_NCHW;
  desc.output_layout = once_in(5) ? IM2WIN_NHWC : IM2WIN_NCHW;
  if (once_in(4)) stride_apart(desc);
  return desc;
}

/// Windows of few channels, and images with more rows than a ring has bands.
inline im2win_conv2d_desc random_stem() {
  im2win_conv2d_desc desc = default_desc();
  desc.groups = once_in(4) ? 2 : 1;
  desc.n = between(1, 3);
  desc.c = desc.groups * between(1, 4);
  desc.k = desc.groups * (once_in(8)   ? 64 * between(3, 6)  // of which blocks have some
                          : once_in(3) ? between(65, 140)
                                       : between(1, 64));
  if (once_in(2)) desc.k = (desc.k + 7) / 8 * 8;  // whole words, which may leave as boxes
  desc.h = between(1, 30);
  desc.w = between(1, once_in(4) ? 260 : 70);
  desc.r = between(1, once_in(3) ? 11 : 4);
  desc.s = between(1, once_in(3) ? 11 : 4);
  desc.stride_h = between(1, 4);
  desc.stride_w = int64_t{1} << between(0, 2);
  return desc;
}

/// Rows of several chunks of a product, and so many that warpgroups of im2win_stem have some of their own; half of them
/// of three channels, which come as they lie in NHWC. Or narrow ones, of which bands have several there.
inline im2win_conv2d_desc random_rows() {
  im2win_conv2d_desc desc = default_desc();
  desc.n = 3;
  desc.c = once_in(2) ? 3 : between(1, 2);
  desc.k = 16 + 8 * between(0, 3);
  desc.h = between(35, 38);
  desc.w = once_in(3) ? between(3, 58) : between(60, 120);
  desc.r = desc.s = 3;
  desc.padding_left = between(0, 1);
  desc.padding_top = between(0, 2);
  desc.stride_w = between(1, 2);
  const int32_t dtypes[] = {IM2WIN_FLOAT32, IM2WIN_FLOAT16, IM2WIN_BFLOAT16};
  desc.dtype = dtypes[between(0, 2)];
  desc.input_layout = once_in(2) ? IM2WIN_NCHW : IM2WIN_NHWC;
  desc.output_layout = once_in(2) ? IM2WIN_NHWC : IM2WIN_NCHW;
  const bool is_tf32 = desc.dtype == IM2WIN_FLOAT32 && once_in(3);
  desc.math = is_tf32 ? IM2WIN_MATH_TF32 : IM2WIN_MATH_FP32;
  return desc;
}

/// Windows that are their steps, of planes.
inline im2win_conv2d_desc random_patches() {
  im2win_conv2d_desc desc = default_desc();
  desc.n = between(1, 3);
  desc.c = once_in(4) ? 8 : between(1, 5);
  desc.k = once_in(2) ? 64 * between(1, 3) : between(1, 140);
  desc.r = desc.stride_h = between(1, 9);
  desc.s = desc.stride_w = once_in(3) ? between(2, 18) : 8 * between(1, 3);
  desc.h = desc.r * between(1, 5);
  desc.w = desc.s * between(1, 9);
  if (once_in(4)) {  // some of which have a tile as rows of channels only
    desc.n = 1;
    desc.k = between(1, 20);
    desc.r = desc.s = desc.stride_h = desc.stride_w = 32 * between(1, 2);
    desc.h = desc.r * between(1, 2);
    desc.w = desc.s * between(1, 3);
  }
  const int32_t dtypes[] = {IM2WIN_FLOAT32, IM2WIN_FLOAT16, IM2WIN_BFLOAT16};
  desc.dtype = dtypes[between(0, 2)];
  desc.math = desc.dtype == IM2WIN_FLOAT32 && once_in(2) ? IM2WIN_MATH_TF32 : IM2WIN_MATH_FP32;
  desc.input_layout = IM2WIN_NCHW;
  desc.output_layout = once_in(4) ? IM2WIN_NHWC : IM2WIN_NCHW;
  desc.filter_layout = once_in(8) ? IM2WIN_NHWC : IM2WIN_NCHW;
  return desc;
}

/// Planes of TF32, whose lines products read; some of channels that are no multiple of what slabs have.
inline im2win_conv2d_desc random_planes() {
  im2win_conv2d_desc desc = default_desc();
  desc.n = between(1, 4);
  desc.groups = once_in(8) ? 2 : 1;
  desc.c = desc.groups * (once_in(2) ? 8 * between(1, 5) : between(4, 40));
  desc.k = desc.groups * (once_in(3) ? between(1, 300) : 64 * between(1, 4));
  desc.h = between(1, 18);
  desc.w = once_in(2) ? 4 * between(1, 20) : between(1, 20);
  desc.r = once_in(2) ? 1 : between(1, 4);
  desc.s = once_in(2) ? 1 : between(1, 4);
  desc.stride_h = once_in(3) ? between(1, 3) : 1;
  desc.stride_w = once_in(3) ? between(1, 3) : 1;
  desc.dilation_h = once_in(4) ? 2 : 1;
  desc.dilation_w = once_in(4) ? 2 : 1;
  if (once_in(2)) {
    desc.padding_top = between(0, 2);
    desc.padding_bottom = between(0, 2);
    desc.padding_left = between(0, 2);
    desc.padding_right = between(0, 2);
  }
  desc.dtype = IM2WIN_FLOAT32;
  desc.math = IM2WIN_MATH_TF32;
  desc.input_layout = IM2WIN_NCHW;
  desc.output_layout = once_in(8) ? IM2WIN_NHWC : IM2WIN_NCHW;
  desc.filter_layout = once_in(3) ? IM2WIN_NHWC : IM2WIN_NCHW;
  if (once_in(8)) stride_apart(desc);
  return desc;
}

inline im2win_conv2d_desc random_windows() {
  im2win_conv2d_desc desc = default_desc();
  const bool has_small_groups = once_in(5);
  desc.groups = has_small_groups ? between(4, 40) : once_in(4) ? between(2, 3) : 1;
  desc.n = between(1, 3);
  desc.c = desc.groups * (once_in(3) || has_small_groups ? between(1, 7) : 8 * between(1, 5));
  desc.k = desc.groups * (has_small_groups ? between(1, 9)
                          : once_in(2)     ? 8 * between(1, 18)
                                           : between(1, 140));
  desc.h = between(1, 14);
  desc.w = between(1, 20);
  desc.r = between(1, 4);
  desc.s = between(1, 4);
  desc.stride_h = between(1, 3);
  desc.stride_w = between(1, 3);
  desc.dilation_h = between(1, 2);
  desc.dilation_w = between(1, 2);
  return desc;
}

inline void choose_epilogue(im2win_conv2d_desc& desc) {
  if (once_in(2)) desc.bias_dtype = once_in(3) ? IM2WIN_FLOAT32 : desc.dtype;
  if (once_in(4)) desc.alpha = 0.5, desc.beta = -2;
  if (once_in(2)) desc.activation = once_in(2) ? IM2WIN_RELU : IM2WIN_TANH;
  desc.has_residual = once_in(3);
  desc.residual_layout = once_in(5) ? int32_t{IM2WIN_NHWC} : desc.output_layout;
}

inline im2win_conv2d_desc random_shape(bool is_stem) {
  if (is_stem && once_in(4)) return random_rows();
  if (!is_stem && once_in(4)) return random_pixels();
  if (!is_stem && once_in(8)) return random_planes();
  if (!is_stem && once_in(8)) return random_lines();
  if (!is_stem && once_in(8)) return random_patches();
  if (!is_stem && once_in(2)) return random_boxes();

  im2win_conv2d_desc desc = is_stem ? random_stem() : random_windows();
  const int64_t most = once_in(4) ? 5 : 2;
  desc.padding_top = between(0, most);
  desc.padding_bottom = between(0, most);
  desc.padding_left = between(0, most);
  desc.padding_right = between(0, most);
  const int32_t dtypes[] = {IM2WIN_FLOAT32, IM2WIN_FLOAT32, IM2WIN_FLOAT16, IM2WIN_BFLOAT16};
  desc.dtype = dtypes[between(0, 3)];
  desc.math = desc.dtype == IM2WIN_FLOAT32 && once_in(3) ? IM2WIN_MATH_TF32 : IM2WIN_MATH_FP32;
  desc.input_layout = once_in(2) ? IM2WIN_NCHW : IM2WIN_NHWC;
  desc.output_layout = once_in(4) ? int32_t{IM2WIN_NCHW} : desc.input_layout;
  desc.filter_layout = once_in(3) ? IM2WIN_NHWC : IM2WIN_NCHW;
  if (once_in(3)) stride_apart(desc);
  return desc;
}

inline im2win_conv2d_desc random_desc(bool is_stem) {
  im2win_conv2d_desc desc = random_shape(is_stem);
  choose_epilogue(desc);
  return desc;
}

}  // namespace im2win
