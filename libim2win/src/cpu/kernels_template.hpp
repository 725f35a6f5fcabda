// The bodies of the kernels, in portable vectors. The including file is compiled for one
// instruction set and defines IM2WIN_VECTOR_BYTES, the width of its registers, before it includes
// this; then it exports a KernelSet made by make_kernel_set().
//
// Everything here has internal linkage, and of half.hpp nothing but the bits is used: an inline
// function compiled for one instruction set must not be what the linker gives to the others.

#include "cpu/copy.hpp"
#include "cpu/depthwise/sum_channels.hpp"
#include "cpu/depthwise/sum_planes.hpp"
#include "cpu/finite.hpp"
#include "cpu/sum_dots.hpp"
#include "cpu/sum_planes.hpp"
#include "cpu/sum_windows.hpp"
#include "cpu/winograd/transforms.hpp"

namespace im2win::cpu {
namespace {

template <int kVectors, class Element>
constexpr void add_plane_sums(Kernels<Element>& kernels) {
  using Compute = typename ComputeOf<Element>::Type;
  auto& by_filters = kernels.sum_planes[kVectors - 1];
  by_filters[0] = sum_planes<kVectors, kFilterStep, Compute>;
  by_filters[1] = sum_planes<kVectors, 2 * kFilterStep, Compute>;
  by_filters[2] = sum_planes<kVectors, 3 * kFilterStep, Compute>;
  if constexpr (kVectors < kTileVectors) add_plane_sums<kVectors + 1>(kernels);
}

template <int kRowTaps, int kColumnTaps, class Element>
constexpr void add_transforms(Kernels<Element>& kernels) {
  using Compute = typename ComputeOf<Element>::Type;
  constexpr int kRow = kRowTaps - 1, kColumn = kColumnTaps - 1;
  kernels.transform_input[kRow][kColumn] = transform_input<kRowTaps, kColumnTaps, Compute>;
  kernels.transform_filter[kRow][kColumn] = transform_filter<kRowTaps, kColumnTaps, Compute>;
  kernels.transform_output[kRow][kColumn] = transform_output<kRowTaps, kColumnTaps, Compute>;
  if constexpr (kColumnTaps < kMostPieceTaps)
    add_transforms<kRowTaps, kColumnTaps + 1>(kernels);
  else if constexpr (kRowTaps < kMostPieceTaps)
    add_transforms<kRowTaps + 1, 1>(kernels);
}

template <class Element>
constexpr Kernels<Element> make_kernels() {
  using Compute = typename ComputeOf<Element>::Type;
  Kernels<Element> kernels = {};
  kernels.vector_elements = VectorOf<Compute>::kElements;
  kernels.max_tile_vectors = kTileVectors;
  kernels.sum_pixels = window_sums<Multiply<Compute>>();
  add_plane_sums<1>(kernels);
  kernels.sum_dots[0] = sum_dots<1, Compute>;
  kernels.sum_dots[1] = sum_dots<2, Compute>;
  kernels.sum_channels = sum_channels<Compute>;
  kernels.sum_groups = IM2WIN_VECTOR_BYTES > 16 ? sum_groups<Compute> : nullptr;
  kernels.sum_plane = sum_plane<Compute>;
  add_transforms<1, 1>(kernels);
  kernels.are_finite = are_finite<Compute>;
  kernels.load = copy_rows<Element, Compute>;
  kernels.store = copy_rows<Compute, Element>;
  return kernels;
}

constexpr KernelSet make_kernel_set() noexcept {
  return {make_kernels<double>(), make_kernels<float>(), make_kernels<Float16>(),
          make_kernels<BFloat16>()};
}

}  // namespace
}  // namespace im2win::cpu
