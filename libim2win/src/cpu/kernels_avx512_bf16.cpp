// Compiled for AVX-512 F, BW, DQ, VL and BF16: what these add to kernels_avx512.cpp.
#define IM2WIN_VECTOR_BYTES 64
#include "cpu/copy.hpp"
#include "cpu/pairs.hpp"
#include "cpu/sum_windows.hpp"

namespace im2win::cpu {

constinit const PairKernels avx512_bf16_kernels = {window_sums<MultiplyPairs>(),
                                                   window_sums<MultiplyAnyPairs>(),
                                                   load_rows,
                                                   copy_rows<float, BFloat16>,
                                                   join_rows,
                                                   examine};

}  // namespace im2win::cpu
