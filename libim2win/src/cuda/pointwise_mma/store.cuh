// Words of outputs, from registers to memory.
#pragma once

#include "cuda/fused/output_rows.cuh"
#include "cuda/ptx.cuh"

namespace im2win::cuda::pointwise_mma {

/// So many neighbouring elements, of sums.
template <int kWord, class Element>
__device__ __forceinline__ void store(Element* to, const float* sums) {
  using Word = fused::Pixels<Element, kWord>;
  const Word word = fused::to_pixels<Element, kWord>(sums);
  if constexpr (sizeof(Word) == sizeof(uint4))
    ptx::store_word(to, reinterpret_cast<const uint4&>(word));
  else if constexpr (sizeof(Word) == sizeof(uint2))
    ptx::store_word(to, reinterpret_cast<const uint2&>(word));
  else
    *reinterpret_cast<Word*>(to) = word;
}

}  // namespace im2win::cuda::pointwise_mma
