// What the depthwise kernels ask of the CUDA runtime: how many blocks there can be.
#pragma once

#include <algorithm>
#include <cstdint>

#include "cuda/device.hpp"
#include "cuda/error.hpp"

namespace im2win::cuda {

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
