#include "problem.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "checked.hpp"
#include "descriptors.hpp"

namespace im2win {
namespace {

void require_at_least(int64_t least, int64_t value, const char* field) {
  require(value >= least, field, " is ", value, ": expected at least ", least);
}

void require_enum(int32_t first, int32_t last, int32_t value, const char* field, const char* type) {
  require(value >= first && value <= last, field, " is ", value, ": expected an ", type, ", ",
          first, " to ", last);
}

void check_sizes(const im2win_conv2d_desc& d) {
  require_at_least(0, d.n, "n");
  require_at_least(1, d.c, "c");
  require_at_least(1, d.h, "h");
  require_at_least(1, d.w, "w");
  require_at_least(1, d.k, "k");
  require_at_least(1, d.r, "r");
  require_at_least(1, d.s, "s");
  require_at_least(1, d.stride_h, "stride_h");
  require_at_least(1, d.stride_w, "stride_w");
  require_at_least(0, d.padding_top, "padding_top");
  require_at_least(0, d.padding_bottom, "padding_bottom");
  require_at_least(0, d.padding_left, "padding_left");
  require_at_least(0, d.padding_right, "padding_right");
  require_at_least(1, d.dilation_h, "dilation_h");
  require_at_least(1, d.dilation_w, "dilation_w");
  require_at_least(1, d.groups, "groups");
  require(d.c % d.groups == 0, "groups is ", d.groups, ": expected a divisor of c, which is ", d.c);
  require(d.k % d.groups == 0, "groups is ", d.groups, ": expected a divisor of k, which is ", d.k);
}

void check_modes(const im2win_conv2d_desc& d) {
  if (d.operation != IM2WIN_FORWARD)
    fail(IM2WIN_UNSUPPORTED, "operation is ", d.operation,
         ": this version computes IM2WIN_FORWARD (0) only");
  require_enum(IM2WIN_FLOAT64, IM2WIN_BFLOAT16, d.dtype, "dtype", "im2win_dtype");
  require_enum(IM2WIN_MATH_FP32, IM2WIN_MATH_TF32, d.math, "math", "im2win_math");
  require_enum(IM2WIN_IDENTITY, IM2WIN_CLAMP, d.activation, "activation", "im2win_activation");
  require_enum(IM2WIN_NONE, IM2WIN_BFLOAT16, d.bias_dtype, "bias_dtype", "im2win_dtype");
  require(d.has_residual == 0 || d.has_residual == 1, "has_residual is ", d.has_residual,
          ": expected 0 or 1");
  require(d.reserved == 0, "reserved is ", d.reserved, ": expected 0");
  const bool is_half = d.dtype == IM2WIN_FLOAT16 || d.dtype == IM2WIN_BFLOAT16;
  require(d.bias_dtype == IM2WIN_NONE || d.bias_dtype == d.dtype ||
              (is_half && d.bias_dtype == IM2WIN_FLOAT32),
          "bias_dtype is ", dtype_name(static_cast<im2win_dtype>(d.bias_dtype)),
          ": expected the tensors' ", dtype_name(static_cast<im2win_dtype>(d.dtype)),
          is_half ? " or float32" : "");
  require(d.activation != IM2WIN_CLAMP || d.activation_params[0] <= d.activation_params[1],
          "activation_params are ", d.activation_params[0], ", ", d.activation_params[1],
          ": expected the clamp's lower bound, then its upper");
}

/// Output positions along one axis.
int64_t output_size(int64_t size, int64_t before, int64_t after, int64_t window, int64_t dilation,
                    int64_t stride, const char* axis) {
  const int64_t padded = checked_add(checked_add(size, before, axis), after, axis);
  require(padded <= kMaxExtent, axis, " overflows: it is ", padded,
          " with padding, expected at most ", kMaxExtent);
  const int64_t reach = checked_add(checked_multiply(dilation, window - 1, axis), 1, axis);
  require(reach <= padded, "the filter's ", axis, " is ", window, ", ", reach, " with dilation ",
          dilation, ": expected at most the padded input's, ", padded);
  return (padded - reach) / stride + 1;
}

/// The fields that carry over as they are.
Problem copy_fields(const im2win_conv2d_desc& d) {
  Problem problem{};
  problem.dtype = static_cast<im2win_dtype>(d.dtype);
  problem.math = static_cast<im2win_math>(d.math);
  problem.n = d.n;
  problem.c = d.c;
  problem.h = d.h;
  problem.w = d.w;
  problem.k = d.k;
  problem.r = d.r;
  problem.s = d.s;
  problem.stride_h = d.stride_h;
  problem.stride_w = d.stride_w;
  problem.padding_top = d.padding_top;
  problem.padding_bottom = d.padding_bottom;
  problem.padding_left = d.padding_left;
  problem.padding_right = d.padding_right;
  problem.dilation_h = d.dilation_h;
  problem.dilation_w = d.dilation_w;
  problem.groups = d.groups;
  problem.bias_dtype = static_cast<im2win_dtype>(d.bias_dtype);
  problem.bias_stride = d.k > 1 ? d.bias_stride : 0;  // as in make_tensor
  problem.has_residual = d.has_residual != 0;
  problem.alpha = d.alpha;
  problem.beta = d.has_residual != 0 ? d.beta : 0;  // so that beta = NaN cannot leak in
  problem.activation = static_cast<im2win_activation>(d.activation);
  std::copy(std::begin(d.activation_params), std::end(d.activation_params),
            problem.activation_params);
  return problem;
}

void lay_out_tensors(const im2win_conv2d_desc& d, Problem& problem) {
  const int64_t bytes = element_bytes(problem.dtype);
  const int64_t output[4] = {problem.n, problem.k, problem.p, problem.q};
  problem.input = make_tensor("input", {problem.n, problem.c, problem.h, problem.w}, d.input_layout,
                              d.input_strides, bytes);
  problem.filter = make_tensor("filter", {problem.k, problem.c_per_group(), problem.r, problem.s},
                               d.filter_layout, d.filter_strides, bytes);
  problem.output = make_tensor("output", output, d.output_layout, d.output_strides, bytes);
  require(is_injective(problem.output), "output_strides are ", problem.output.stride[0], ", ",
          problem.output.stride[1], ", ", problem.output.stride[2], ", ", problem.output.stride[3],
          ": expected strides that give each element its own address");
  if (problem.has_residual)
    problem.residual =
        make_tensor("residual", output, d.residual_layout, d.residual_strides, bytes);
  const int64_t bias_strides[4] = {0, 0, 0, problem.bias_stride};
  make_tensor("bias", {1, 1, 1, problem.k}, IM2WIN_STRIDED, bias_strides, bytes);
}

/// Where an axis has a single output with a single tap, it meets one input at most, whatever the stride: the others would be
/// taken for those of other outputs, as windows seem to be pixels next to each other.
void drop_unmet_inputs(Problem& problem) {
  if (problem.p == 1 && problem.r == 1 && problem.padding_top == 0) {
    problem.h = problem.input.size[2] = 1;
    problem.padding_bottom = 0;
  }
  if (problem.q == 1 && problem.s == 1 && problem.padding_left == 0) {
    problem.w = problem.input.size[3] = 1;
    problem.padding_right = 0;
  }
}

Problem checked_problem(const im2win_conv2d_desc* desc) {
  const im2win_conv2d_desc d = read_desc(desc);
  check_modes(d);
  check_sizes(d);
  Problem problem = copy_fields(d);
  problem.p =
      output_size(d.h, d.padding_top, d.padding_bottom, d.r, d.dilation_h, d.stride_h, "height");
  problem.q =
      output_size(d.w, d.padding_left, d.padding_right, d.s, d.dilation_w, d.stride_w, "width");
  // What a single output or tap never takes: 1 keeps odd ones out of all arithmetic.
  if (problem.p == 1) problem.stride_h = 1;
  if (problem.q == 1) problem.stride_w = 1;
  if (problem.r == 1) problem.dilation_h = 1;
  if (problem.s == 1) problem.dilation_w = 1;
  lay_out_tensors(d, problem);
  return problem;
}

}  // namespace

int64_t element_bytes(im2win_dtype dtype) {
  switch (dtype) {
    case IM2WIN_FLOAT64: return 8;
    case IM2WIN_FLOAT32: return 4;
    case IM2WIN_FLOAT16:
    case IM2WIN_BFLOAT16: return 2;
    case IM2WIN_NONE: break;
  }
  return 0;
}

const char* dtype_name(im2win_dtype dtype) {
  switch (dtype) {
    case IM2WIN_FLOAT64: return "float64";
    case IM2WIN_FLOAT32: return "float32";
    case IM2WIN_FLOAT16: return "float16";
    case IM2WIN_BFLOAT16: return "bfloat16";
    case IM2WIN_NONE: break;
  }
  return "none";
}

Problem make_problem(const im2win_conv2d_desc* desc) {
  Problem problem = checked_problem(desc);
  drop_unmet_inputs(problem);
  return problem;
}

Problem make_transform_problem(const im2win_conv2d_desc* desc) {
  im2win_conv2d_desc d = read_desc(desc);
  const im2win_conv2d_desc defaults = default_desc();
  d.operation = defaults.operation;
  d.math = defaults.math;
  d.k = 1;
  d.groups = 1;
  d.filter_layout = defaults.filter_layout;
  d.output_layout = defaults.output_layout;
  d.bias_dtype = defaults.bias_dtype;
  d.has_residual = defaults.has_residual;
  d.activation = defaults.activation;
  return checked_problem(&d);
}

int64_t transform_bytes(const Problem& problem) {
  int64_t bytes = element_bytes(problem.dtype);
  for (int64_t size : {problem.n, problem.c, problem.p, problem.padded_w(), problem.r})
    bytes = checked_multiply(bytes, size, "the im2win tensor");
  return bytes;
}

}  // namespace im2win
