// Compiled for AVX2 with FMA.
#define IM2WIN_VECTOR_BYTES 32
#define IM2WIN_MAX_VECTORS 2
#include "cpu/microkernel_template.hpp"

namespace im2win::cpu {

const MicrokernelSet avx2_microkernels = {
    "avx2", kVectorFloats, IM2WIN_MAX_VECTORS, {microkernel<1>, microkernel<2>}};

}  // namespace im2win::cpu
