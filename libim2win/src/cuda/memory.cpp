#include "cuda/memory.hpp"

#include <cuda_runtime.h>

#include <algorithm>
#include <cstdint>
#include <map>
#include <mutex>

#include "cuda/device.hpp"
#include "cuda/error.hpp"

namespace im2win::cuda {

namespace {

/// The library's own pool on a device, which keeps what is freed for the next allocation. The
/// device's default pool is its other users', and gives all back at every synchronisation.
cudaMemPool_t pool(int32_t device) {
  static std::mutex mutex;
  static std::map<int32_t, cudaMemPool_t> pools;
  const std::lock_guard lock(mutex);
  cudaMemPool_t& known = pools[device];
  if (known != nullptr) return known;
  cudaMemPoolProps properties{};
  properties.allocType = cudaMemAllocationTypePinned;
  properties.location.type = cudaMemLocationTypeDevice;
  properties.location.id = device;
  cudaMemPool_t created = nullptr;
  check(cudaMemPoolCreate(&created, &properties), "cudaMemPoolCreate");
  uint64_t keep = UINT64_MAX;
  check(cudaMemPoolSetAttribute(created, cudaMemPoolAttrReleaseThreshold, &keep),
        "cudaMemPoolSetAttribute");
  return known = created;
}

/// Allocates, and once more with what the pool keeps but does not use given back.
cudaError_t allocate(void** pointer, size_t bytes, cudaMemPool_t pool, cudaStream_t stream) {
  const cudaError_t status = cudaMallocFromPoolAsync(pointer, bytes, pool, stream);
  if (status != cudaErrorMemoryAllocation) return status;
  cudaGetLastError();
  check(cudaMemPoolTrimTo(pool, 0), "cudaMemPoolTrimTo");
  return cudaMallocFromPoolAsync(pointer, bytes, pool, stream);
}

}  // namespace

void* alloc(int32_t device, size_t bytes, void* stream) {
  require_device(device);
  const CurrentDevice current(device);
  void* pointer = nullptr;
  // At least a byte: the pointer is then one of its own, and not null.
  const size_t size = std::max<size_t>(bytes, 1);
  const cudaError_t status =
      allocate(&pointer, size, pool(device), static_cast<cudaStream_t>(stream));
  if (status == cudaErrorMemoryAllocation) {
    cudaGetLastError();
    fail(IM2WIN_OUT_OF_MEMORY, "CUDA device ", device, " has no ", bytes, " bytes left");
  }
  check(status, "cudaMallocFromPoolAsync");
  return pointer;
}

void free(int32_t device, void* pointer, void* stream) {
  require_device(device);
  const CurrentDevice current(device);
  check(cudaFreeAsync(pointer, static_cast<cudaStream_t>(stream)), "cudaFreeAsync");
}

void copy(int32_t device, void* target, const void* source, size_t bytes, void* stream) {
  require_device(device);
  const CurrentDevice current(device);
  check(
      cudaMemcpyAsync(target, source, bytes, cudaMemcpyDefault, static_cast<cudaStream_t>(stream)),
      "cudaMemcpyAsync");
}

void synchronize(int32_t device, void* stream) {
  require_device(device);
  const CurrentDevice current(device);
  check(cudaStreamSynchronize(static_cast<cudaStream_t>(stream)), "cudaStreamSynchronize");
}

}  // namespace im2win::cuda
