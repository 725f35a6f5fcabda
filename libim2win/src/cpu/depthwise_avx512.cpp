// Compiled for AVX-512F.
#define IM2WIN_VECTOR_BYTES 64
#include "cpu/depthwise_template.hpp"

namespace im2win::cpu {

const DepthwiseKernelSet avx512_depthwise_kernels = make_kernel_set();

}  // namespace im2win::cpu
