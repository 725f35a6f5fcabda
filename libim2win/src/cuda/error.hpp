// What the CUDA runtime reports, as an Error.
#pragma once

#include <cuda_runtime.h>

#include "status.hpp"

namespace im2win::cuda {

/// Throws unless `status` is success; `what` names the call or kernel. It also clears the runtime's
/// record of the error: the caller learns of it from us, and must not meet it again elsewhere.
inline void check(cudaError_t status, const char* what) {
  if (status == cudaSuccess) return;
  cudaGetLastError();
  fail(status == cudaErrorMemoryAllocation ? IM2WIN_OUT_OF_MEMORY : IM2WIN_CUDA_ERROR, what, ": ",
       cudaGetErrorName(status), ": ", cudaGetErrorString(status));
}

}  // namespace im2win::cuda
