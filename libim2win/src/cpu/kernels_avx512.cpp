// Compiled for AVX-512F.
#define IM2WIN_VECTOR_BYTES 64
#include "cpu/kernels_template.hpp"

namespace im2win::cpu {

constinit const KernelSet avx512_kernels = make_kernel_set();

}  // namespace im2win::cpu
