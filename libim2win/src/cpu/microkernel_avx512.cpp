// Compiled for AVX-512F.
#define IM2WIN_VECTOR_BYTES 64
#define IM2WIN_MAX_VECTORS 4
#include "cpu/microkernel_template.hpp"

namespace im2win::cpu {

const MicrokernelSet avx512_microkernels = {
    "avx512",
    kVectorFloats,
    IM2WIN_MAX_VECTORS,
    {microkernel<1>, microkernel<2>, microkernel<3>, microkernel<4>}};

}  // namespace im2win::cpu
