// For any machine: 128-bit vectors, which are SSE2 on x86-64 and NEON on AArch64.
#define IM2WIN_VECTOR_BYTES 16
#include "cpu/kernels_template.hpp"

namespace im2win::cpu {

constinit const KernelSet baseline_kernels = make_kernel_set();

}  // namespace im2win::cpu
