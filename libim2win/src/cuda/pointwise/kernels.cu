#include <iterator>
#include <utility>

#include "cuda/pointwise/kernel.cuh"
#include "cuda/pointwise/kernels.hpp"

namespace im2win::cuda::pointwise {
namespace {

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

}  // namespace

Kernel<__half> half_kernel(int shape) { return kernel_of<__half>(shape); }
Kernel<__nv_bfloat16> bfloat16_kernel(int shape) { return kernel_of<__nv_bfloat16>(shape); }

}  // namespace im2win::cuda::pointwise
