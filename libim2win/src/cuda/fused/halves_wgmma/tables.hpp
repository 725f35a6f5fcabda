// The kernels of im2win_fused on wgmma for 16-bit elements, the same for float16 and bfloat16: in two files, as they take
// long to compile.
#pragma once

#include <type_traits>

#include "cuda/fused/kernels.hpp"

namespace im2win::cuda::fused {

template <class Element>
constexpr Operands kHalves =
    std::is_same_v<Element, __half> ? Operands::kHalf : Operands::kBFloat16;

/// Of 64 and of 128 filters, by columns.
template <class Element>
KernelTable<Element> halves_of_columns();
/// Of 256 filters, in turns, and by rows of pixels.
template <class Element>
KernelTable<Element> other_halves();

}  // namespace im2win::cuda::fused
