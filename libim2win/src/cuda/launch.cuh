// Kernels: what their code is for, and launches of any number of blocks, checked.
#pragma once

#include <cuda_runtime.h>

#include <algorithm>
#include <cstdint>
#include <type_traits>

#include "cuda/error.hpp"

namespace im2win::cuda {

/// What the code for the current device was compiled for, such as 80, which may be older than the device.
template <class Kernel>
int ptx_version(Kernel kernel) {
  cudaFuncAttributes attributes{};
  check(cudaFuncGetAttributes(&attributes, kernel), "cudaFuncGetAttributes");
  return attributes.ptxVersion;
}

/// Any number of blocks as a grid. Kernels number them by block_index() or thread_index(), and must
/// return at once where that is past the count: such blocks fill up the last row of the fold.
inline dim3 fold(int64_t blocks) {
  constexpr int64_t kMaxRow = int64_t{1} << 30;
  const int64_t row = std::min(blocks, kMaxRow);
  return dim3(static_cast<unsigned>(row), static_cast<unsigned>((blocks + row - 1) / row));
}

__device__ __forceinline__ int64_t block_index() {
  return static_cast<int64_t>(blockIdx.y) * gridDim.x + blockIdx.x;
}

/// The number of this thread among all of the launch.
__device__ __forceinline__ int64_t thread_index() {
  return block_index() * blockDim.x + threadIdx.x;
}

/// When a kernel starts.
enum class Start {
  kInOrder,  // when what was enqueued before it has ended
  kEarly,    // when the kernel before it lets it (ptx::let_next_start)
};

/// The limit is the kernel's, whoever launches it: it is set to what anyone needs.
inline void allow_shared_memory(const void* kernel, int64_t bytes) {
  check(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                             static_cast<int>(bytes)),
        "cudaFuncSetAttribute");
}

inline cudaLaunchAttribute clusters_of(int blocks) {
  cudaLaunchAttribute attribute{};
  attribute.id = cudaLaunchAttributeClusterDimension;
  attribute.val.clusterDim = {static_cast<unsigned>(blocks), 1, 1};
  return attribute;
}

/// How many clusters of so many blocks, of that much shared memory each, run at a time; none if the device does
/// not tell.
inline int clusters_at_once(const void* kernel, int cluster_blocks, int threads, int shared_bytes) {
  cudaLaunchAttribute cluster = clusters_of(cluster_blocks);
  cudaLaunchConfig_t config{};
  config.gridDim = dim3(static_cast<unsigned>(cluster_blocks));
  config.blockDim = dim3(static_cast<unsigned>(threads));
  config.dynamicSmemBytes = static_cast<size_t>(shared_bytes);
  config.attrs = &cluster;
  config.numAttrs = 1;
  int clusters = 0;
  if (cudaOccupancyMaxActiveClusters(&clusters, kernel, &config) == cudaSuccess) return clusters;
  cudaGetLastError();  // or a later call would report it
  return 0;
}

/// Launches `blocks` blocks, so many a cluster, and checks the launch itself; what the kernel does wrong shows
/// up in a later call. Each block gets `shared_bytes` of dynamic shared memory.
template <class... Parameters>
void launch_clusters(const char* name, void (*kernel)(Parameters...), int64_t blocks,
                     int cluster_blocks, int threads, size_t shared_bytes, void* stream,
                     Start start, const std::type_identity_t<Parameters>&... arguments) {
  cudaLaunchAttribute attributes[2] = {};
  unsigned count = 0;
  if (start == Start::kEarly) {
    cudaLaunchAttribute& early = attributes[count++];
    early.id = cudaLaunchAttributeProgrammaticStreamSerialization;
    early.val.programmaticStreamSerializationAllowed = 1;
  }
  if (cluster_blocks > 1) attributes[count++] = clusters_of(cluster_blocks);
  cudaLaunchConfig_t config{};
  config.gridDim = fold(blocks);
  config.blockDim = dim3(static_cast<unsigned>(threads));
  config.dynamicSmemBytes = shared_bytes;
  config.stream = static_cast<cudaStream_t>(stream);
  config.attrs = attributes;
  config.numAttrs = count;
  check(cudaLaunchKernelEx(&config, kernel, arguments...), name);
}

/// Likewise, each by itself.
template <class... Parameters>
void launch_shared(const char* name, void (*kernel)(Parameters...), int64_t blocks, int threads,
                   size_t shared_bytes, void* stream, Start start,
                   const std::type_identity_t<Parameters>&... arguments) {
  launch_clusters(name, kernel, blocks, 1, threads, shared_bytes, stream, start, arguments...);
}

template <class... Parameters>
void launch(const char* name, void (*kernel)(Parameters...), int64_t blocks, int threads,
            void* stream, const std::type_identity_t<Parameters>&... arguments) {
  launch_shared(name, kernel, blocks, threads, 0, stream, Start::kInOrder, arguments...);
}

}  // namespace im2win::cuda
