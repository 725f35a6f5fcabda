// What a call has to compute, by the definitions in im2win.h, in float64.
#pragma once

#include "tensor.hpp"

namespace fuzz {

/// Tensors that the call has not are null.
struct Tensors {
  const Tensor* input;
  const Tensor* filter;
  const Tensor* bias;
  const Tensor* residual;
  const Tensor* output;
};

/// Whether the numbers of the epilogue leave an error bound that means something.
bool is_checkable(const im2win_conv2d_desc& desc);

/// Whether every output is as near to its value as rounding allows. The residual is what it was
/// before the call.
bool is_right(const im2win_conv2d_desc& desc, const Tensors& tensors);

/// Whether the bytes are the input's im2win tensor.
bool is_transformed(const im2win_conv2d_desc& desc, const Tensor& input, const Tensor& output);

}  // namespace fuzz
