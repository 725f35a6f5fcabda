// Instantiates `pointwise` for an element type. One file an instance, as they take long to compile.
#pragma once

#include <iterator>
#include <utility>

#include "cuda/pointwise/kernel.cuh"
#include "cuda/pointwise/kernels.hpp"

namespace im2win::cuda::pointwise {

template <class Element, size_t... kIndices>
Kernel<Element> kernel_of(int shape, std::index_sequence<kIndices...>) {
  static constexpr Kernel<Element> kCompiled[] = {
      pointwise_kernel<Compiled<Element, kShapes[kIndices]>>...};
  return kCompiled[shape];
}

template <class Element>
Kernel<Element> kernel_of(int shape) {
  return kernel_of<Element>(shape, std::make_index_sequence<std::size(kShapes)>{});
}

}  // namespace im2win::cuda::pointwise
