// What the depthwise kernels ask of the CUDA runtime: how many blocks there can be, and early launches.
#pragma once

#include <algorithm>
#include <cstdint>

#include "cuda/device.hpp"
#include "cuda/error.hpp"
#include "cuda/launch.cuh"

namespace im2win::cuda {

/// Launches a kernel that may start while the one ahead of it in the stream ends, as it waits for
/// that itself.
template <class Arguments, class Grid>
void launch_early(void (*kernel)(Arguments, Grid), const Arguments& a, const Grid& grid,
                  int threads, size_t shared_bytes, void* stream) {
  cudaLaunchAttribute early{};
  early.id = cudaLaunchAttributeProgrammaticStreamSerialization;
  early.val.programmaticStreamSerializationAllowed = 1;
  cudaLaunchConfig_t config{};
  config.gridDim = fold(grid.blocks);
  config.blockDim = dim3(static_cast<unsigned>(threads));
  config.dynamicSmemBytes = shared_bytes;
  config.stream = static_cast<cudaStream_t>(stream);
  config.attrs = &early;
  config.numAttrs = 1;
  check(cudaLaunchKernelEx(&config, kernel, a, grid), "depthwise_kernel");
}

/// How many blocks the device holds at a time.
template <class Kernel>
int64_t resident_blocks(int32_t device, Kernel kernel, int threads, int64_t shared_bytes) {
  int blocks = 0;
  check(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, kernel, threads,
                                                      static_cast<size_t>(shared_bytes)),
        "cudaOccupancyMaxActiveBlocksPerMultiprocessor");
  return std::max<int64_t>(1, int64_t{blocks} * multiprocessors(device));
}

}  // namespace im2win::cuda
