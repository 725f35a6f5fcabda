// Compiled for AVX2 with FMA.
#define IM2WIN_VECTOR_BYTES 32
#include "cpu/kernels_template.hpp"

namespace im2win::cpu {

constinit const KernelSet avx2_kernels = make_kernel_set();

}  // namespace im2win::cpu
