// What multiplies in a kernel, and how it is ordered with the rest.
#pragma once

#include <type_traits>

#include "cuda/fused/mma.cuh"
#include "cuda/fused/order.cuh"
#include "cuda/fused/tile.hpp"
#include "cuda/fused/wgmma.cuh"

namespace im2win::cuda::fused {

template <class T>
using Product = std::conditional_t<T::kInstructions == Instructions::kWgmma,
                                   Wgmma<T::kOperands, T::kShape.columns, T::kShape.pixel_rows>,
                                   Mma<T::kOperands, T::kShape.columns>>;
template <class T>
using Order = std::conditional_t<T::kInstructions == Instructions::kWgmma, WgmmaOrder, MmaOrder>;

}  // namespace im2win::cuda::fused
