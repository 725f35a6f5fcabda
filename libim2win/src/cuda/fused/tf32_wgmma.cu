#include "cuda/fused/table.cuh"

namespace im2win::cuda::fused {
namespace {

template <int kFilters, int kPixels>
constexpr KernelShape kOfLines = {
    .filters = kFilters, .columns = kPixels, .staging_warpgroups = 1, .pixel_major = true};

}  // namespace

template <>
const Kernels<float>& tf32_kernels<Instructions::kWgmma>() {
  return instantiate<
      float, Operands::kTf32, Instructions::kWgmma, KernelShape{128, 104, 56},
      KernelShape{128, 120, 112}, KernelShape{128, 144, 128}, KernelShape{128, 200, 152},
      KernelShape{128, 240, 208, 1}, KernelShape{64, 80, 48}, KernelShape{64, 160, 88},
      KernelShape{64, 240, 168, 1}, kOfLines<64, 128>, kOfLines<128, 64>, kOfLines<256, 64>>();
}

}  // namespace im2win::cuda::fused
