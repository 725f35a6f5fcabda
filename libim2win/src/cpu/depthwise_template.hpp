// The bodies of the depthwise kernels, in portable vectors. The including file is compiled for one
// instruction set and defines IM2WIN_VECTOR_BYTES, the width of its registers, before it includes
// this; then it exports a DepthwiseKernelSet made by make_kernel_set().
//
// Everything here has internal linkage, and of half.hpp nothing but the bits is used: an inline
// function compiled for one instruction set must not be what the linker gives to the others.

#include "cpu/depthwise_copy.hpp"
#include "cpu/depthwise_sum_channels.hpp"
#include "cpu/depthwise_sum_planes.hpp"

namespace im2win::cpu {
namespace {

template <class Element>
constexpr DepthwiseKernels<Element> make_kernels() {
  using Compute = typename ComputeOf<Element>::Type;
  return {IM2WIN_VECTOR_BYTES / sizeof(Compute), sum_channels<Compute>, sum_plane<Compute>,
          copy_rows<Element, Compute>, copy_rows<Compute, Element>};
}

constexpr DepthwiseKernelSet make_kernel_set() {
  return {make_kernels<double>(), make_kernels<float>(), make_kernels<Float16>(),
          make_kernels<BFloat16>()};
}

}  // namespace
}  // namespace im2win::cpu
