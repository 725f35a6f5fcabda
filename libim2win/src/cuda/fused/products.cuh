// What multiplies in a kernel, and how it is ordered with the rest.
#pragma once

#include <type_traits>

#include "cuda/fused/mma.cuh"
#include "cuda/fused/order.cuh"
#include "cuda/fused/tile.hpp"
#include "cuda/fused/wgmma.cuh"

namespace im2win::cuda::fused {

/// Of so many columns.
template <class T, int kColumns>
using Product = std::conditional_t<T::kInstructions == Instructions::kWgmma,
                                   Wgmma<T::kOperands, kColumns, T::kShape.pixel_rows>,
                                   Mma<T::kOperands, kColumns>>;
template <class T>
using Order = std::conditional_t<T::kInstructions == Instructions::kWgmma, WgmmaOrder, MmaOrder>;

}  // namespace im2win::cuda::fused
