// For any machine: 128-bit vectors, which are SSE2 on x86-64 and NEON on AArch64.
#define IM2WIN_VECTOR_BYTES 16
#define IM2WIN_MAX_VECTORS 2
#include "cpu/microkernel_template.hpp"

namespace im2win::cpu {

const MicrokernelSet baseline_microkernels = {
    "baseline", kVectorFloats, IM2WIN_MAX_VECTORS, {microkernel<1>, microkernel<2>}};

}  // namespace im2win::cpu
