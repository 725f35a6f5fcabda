#include "cuda/pointwise/table.cuh"

namespace im2win::cuda::pointwise {

Kernel<__half> half_kernel(int shape) { return kernel_of<__half>(shape); }

}  // namespace im2win::cuda::pointwise
