// Compiled for AVX2 with FMA.
#define IM2WIN_VECTOR_BYTES 32
#include "cpu/depthwise_template.hpp"

namespace im2win::cpu {

const DepthwiseKernelSet avx2_depthwise_kernels = make_kernel_set();

}  // namespace im2win::cpu
