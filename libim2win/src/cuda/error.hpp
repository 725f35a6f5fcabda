// What the CUDA runtime reports, as an Error.
#pragma once

#include <cuda_runtime.h>

#include "status.hpp"

namespace im2win::cuda {

/// Whether a kernel that ran before has failed. Until the process ends, every call reports it then,
/// whoever launched that kernel; a launch does so of none but earlier ones.
inline bool is_of_earlier_kernel(cudaError_t status) {
  switch (status) {
    case cudaErrorECCUncorrectable:
    case cudaErrorIllegalAddress:
    case cudaErrorLaunchTimeout:
    case cudaErrorAssert:
    case cudaErrorHardwareStackError:
    case cudaErrorIllegalInstruction:
    case cudaErrorMisalignedAddress:
    case cudaErrorInvalidAddressSpace:
    case cudaErrorInvalidPc:
    case cudaErrorLaunchFailure: return true;
    default: return false;
  }
}

/// Throws unless `status` is success; `what` names the call or kernel. It also clears the runtime's
/// record of the error: the caller learns of it from us, and must not meet it again elsewhere.
inline void check(cudaError_t status, const char* what) {
  if (status == cudaSuccess) return;
  cudaGetLastError();
  fail(status == cudaErrorMemoryAllocation ? IM2WIN_OUT_OF_MEMORY : IM2WIN_CUDA_ERROR, what, ": ",
       is_of_earlier_kernel(status) ? "a kernel launched earlier in this process has failed: " : "",
       cudaGetErrorName(status), ": ", cudaGetErrorString(status));
}

}  // namespace im2win::cuda
