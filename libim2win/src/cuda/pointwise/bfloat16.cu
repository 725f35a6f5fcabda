#include "cuda/pointwise/table.cuh"

namespace im2win::cuda::pointwise {

Kernel<__nv_bfloat16> bfloat16_kernel(int shape) { return kernel_of<__nv_bfloat16>(shape); }

}  // namespace im2win::cuda::pointwise
