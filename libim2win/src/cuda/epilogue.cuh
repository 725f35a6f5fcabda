// Where every kernel's sums end: bias, residual, activation, and the store.
#pragma once

#include <cstdint>
#include <type_traits>

#include "backend.hpp"
#include "cuda/numeric.cuh"
#include "epilogue.hpp"

namespace im2win::cuda {

/// Out of line, because kernels finish many outputs in unrolled code, which must not carry every
/// activation once for each.
template <class Compute>
__device__ __noinline__ Compute finish_activated(Epilogue<Compute> epilogue, Compute sum,
                                                 Compute residual, Compute bias) {
  return epilogue(sum, residual, bias);
}

template <class Compute>
__device__ __forceinline__ Compute finish(Epilogue<Compute> epilogue, Compute sum, Compute residual,
                                          Compute bias) {
  if (epilogue.activation != IM2WIN_IDENTITY)
    return finish_activated(epilogue, sum, residual, bias);
  epilogue.activation = IM2WIN_IDENTITY;  // known at compile time from here on: no switch is left
  return epilogue(sum, residual, bias);
}

/// The output tensor and what goes into it beside the sums. What belongs to an output is split into
/// its filter's part and its pixel's part, so that a thread computes each once. Plain data.
///
/// The residual may be the output itself: the thread that writes an element reads its residual.
template <class Element, class Compute>
class Outputs {
 public:
  struct Filter {
    int64_t output, residual;  // offsets in elements
    Compute bias;
  };
  struct Pixel {
    int64_t output, residual;
  };

  explicit Outputs(const Problem& problem)
      : epilogue_(problem),
        output_layout_(problem.output),
        residual_layout_(problem.residual),
        bias_stride_(problem.bias_stride),
        bias_is_float32_(problem.bias_dtype == IM2WIN_FLOAT32) {}

  void bind(const Buffers& buffers) {
    output_ = static_cast<Element*>(buffers.output);
    residual_ = static_cast<const Element*>(buffers.residual);
    bias_ = buffers.bias;
  }

  __device__ __forceinline__ Filter filter(int64_t k) const {
    const int64_t residual = residual_ == nullptr ? 0 : k * residual_layout_.stride[1];
    return {k * output_layout_.stride[1], residual, bias(k)};
  }

  __device__ __forceinline__ Pixel pixel(int64_t n, int64_t p, int64_t q) const {
    const int64_t residual = residual_ == nullptr ? 0 : offset(residual_layout_, n, p, q);
    return {offset(output_layout_, n, p, q), residual};
  }

  __device__ __forceinline__ void write(const Filter& filter, const Pixel& pixel,
                                        Compute sum) const {
    *address(filter, pixel) = value(filter, pixel, sum);
  }

  /// What write() stores, and where.
  __device__ __forceinline__ Element value(const Filter& filter, const Pixel& pixel,
                                           Compute sum) const {
    Compute residual = 0;
    if (residual_ != nullptr)
      residual = to_compute<Compute>(residual_[filter.residual + pixel.residual]);
    return from_compute<Element>(finish(epilogue_, sum, residual, filter.bias));
  }
  __device__ __forceinline__ Element* address(const Filter& filter, const Pixel& pixel) const {
    return output_ + filter.output + pixel.output;
  }
  __device__ __forceinline__ Element* data() const { return output_; }

  /// For kernels that find their way in the tensors themselves.
  __device__ __forceinline__ const Element* residual_data() const { return residual_; }
  __device__ __forceinline__ const int64_t* strides() const { return output_layout_.stride; }
  __device__ __forceinline__ const int64_t* residual_strides() const {
    return residual_layout_.stride;
  }
  __device__ __forceinline__ bool are_sums() const {
    return only_adds_bias_and_clamps() && bias_ == nullptr &&
           epilogue_.activation == IM2WIN_IDENTITY;
  }
  /// On the host, of a residual that is yet to be bound nothing is known.
  __host__ __device__ __forceinline__ bool only_adds_bias_and_clamps() const {
    return epilogue_.alpha == 1 && residual_ == nullptr && only_clamps();
  }
  __host__ __device__ __forceinline__ bool only_clamps() const {
    return epilogue_.activation == IM2WIN_IDENTITY || epilogue_.activation == IM2WIN_RELU;
  }
  /// What an epilogue clamps from below at that only clamps; others, at nothing.
  __device__ __forceinline__ Compute low() const {
    return epilogue_.activation == IM2WIN_RELU ? Compute(0) : -Compute(INFINITY);
  }
  /// What write() stores, in place, with every activation: for rolled loops.
  __device__ __forceinline__ Element finished(int64_t k, const Pixel& pixel, Compute sum) const {
    const Filter filter = this->filter(k);
    Compute residual = 0;
    if (residual_ != nullptr)
      residual = to_compute<Compute>(residual_[filter.residual + pixel.residual]);
    return from_compute<Element>(epilogue_(sum, residual, filter.bias));
  }
  /// Its steps: what is added, and the activation, of several at a time.
  __device__ __forceinline__ Compute added(Compute sum, Compute residual, Compute bias) const {
    return epilogue_.added(sum, residual, bias);
  }
  template <int kCount>
  __device__ __forceinline__ void activate(Compute (&x)[kCount]) const {
    switch (epilogue_.activation) {
      case IM2WIN_IDENTITY: break;
      case IM2WIN_RELU: return activate_all<IM2WIN_RELU>(x);
      case IM2WIN_RELU6: return activate_all<IM2WIN_RELU6>(x);
      case IM2WIN_LEAKY_RELU: return activate_all<IM2WIN_LEAKY_RELU>(x);
      case IM2WIN_SILU: return activate_all<IM2WIN_SILU>(x);
      case IM2WIN_GELU: return activate_all<IM2WIN_GELU>(x);
      case IM2WIN_SIGMOID: return activate_all<IM2WIN_SIGMOID>(x);
      case IM2WIN_TANH: return activate_all<IM2WIN_TANH>(x);
      case IM2WIN_HARDSWISH: return activate_all<IM2WIN_HARDSWISH>(x);
      case IM2WIN_CLAMP: return activate_all<IM2WIN_CLAMP>(x);
    }
  }
  /// Short ones, of many at a time. False, and nothing is done, if it is a long one.
  template <int kCount>
  __device__ __forceinline__ bool activate_at_once(Compute (&x)[kCount]) const {
    switch (epilogue_.activation) {
      case IM2WIN_RELU:
      case IM2WIN_RELU6:
      case IM2WIN_CLAMP: bound_all(x); return true;
      case IM2WIN_LEAKY_RELU: activate_all<IM2WIN_LEAKY_RELU>(x); return true;
      case IM2WIN_SILU: activate_all<IM2WIN_SILU>(x); return true;
      case IM2WIN_HARDSWISH: activate_all<IM2WIN_HARDSWISH>(x); return true;
      default: return epilogue_.activation == IM2WIN_IDENTITY;
    }
  }
  /// 0 where there is none.
  __device__ __forceinline__ Compute bias(int64_t k) const {
    if (bias_ == nullptr) return 0;
    const int64_t at = k * bias_stride_;
    if constexpr (!std::is_same_v<Element, float>) {  // 16-bit tensors may have a float32 bias
      if (bias_is_float32_) return to_compute<Compute>(static_cast<const float*>(bias_)[at]);
    }
    return to_compute<Compute>(static_cast<const Element*>(bias_)[at]);
  }

  /// Of a few at a time, in code that is there many times: those that often follow for each, and one copy of all others.
  /// It calls nothing, so that kernels may use it with their registers full.
  template <int kCount>
  __device__ __forceinline__ void activate_few(Compute (&x)[kCount]) const {
    switch (epilogue_.activation) {
      case IM2WIN_SILU: return activate_all<IM2WIN_SILU>(x);
      case IM2WIN_HARDSWISH: return activate_all<IM2WIN_HARDSWISH>(x);
      default: return activate_each(x);
    }
  }

 private:
  template <im2win_activation kActivation, int kCount>
  __device__ __forceinline__ void activate_all(Compute (&x)[kCount]) const {
    Epilogue<Compute> epilogue = epilogue_;
    epilogue.activation = kActivation;  // known at compile time from here on
#pragma unroll
    for (Compute& each : x) each = epilogue.activated(each);
  }

  /// ReLU, ReLU6 and a clamp, in the same code.
  template <int kCount>
  __device__ __forceinline__ void bound_all(Compute (&x)[kCount]) const {
    Epilogue<Compute> epilogue = epilogue_;
    epilogue.activation = IM2WIN_CLAMP;
    if (epilogue_.activation != IM2WIN_CLAMP) {
      epilogue.params[0] = 0;
      epilogue.params[1] = epilogue_.activation == IM2WIN_RELU6 ? Compute(6) : Compute(INFINITY);
    }
#pragma unroll
    for (Compute& each : x) each = epilogue.activated(each);
  }

  /// Registers have no run-time index, so each turn selects.
  template <int kCount>
  __device__ __forceinline__ void activate_each(Compute (&x)[kCount]) const {
#pragma unroll 1
    for (int turn = 0; turn < kCount; ++turn) {
      Compute value = 0;
#pragma unroll
      for (int i = 0; i < kCount; ++i)
        if (i == turn) value = x[i];
      value = epilogue_.activated(value);
#pragma unroll
      for (int i = 0; i < kCount; ++i)
        if (i == turn) x[i] = value;
    }
  }

  __device__ __forceinline__ static int64_t offset(const Tensor& tensor, int64_t n, int64_t p,
                                                   int64_t q) {
    return n * tensor.stride[0] + p * tensor.stride[2] + q * tensor.stride[3];
  }

  Epilogue<Compute> epilogue_;
  Tensor output_layout_;
  Tensor residual_layout_;
  int64_t bias_stride_;
  bool bias_is_float32_;
  Element* output_ = nullptr;
  const Element* residual_ = nullptr;
  const void* bias_ = nullptr;
};

}  // namespace im2win::cuda
