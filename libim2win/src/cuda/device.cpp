#include "cuda/device.hpp"

#include <cuda_runtime.h>

#include <atomic>
#include <cstdio>

#include "cuda/error.hpp"
#include "cuda/memory.hpp"
#include "status.hpp"

namespace im2win::cuda {
namespace {

/// Of all versions of CUDA 13.
constexpr int kOldestDriver = 580;
static_assert(CUDART_VERSION / 1000 == 13);

/// A CUDA version as the runtime numbers it, 13000, in the form 13.0.
std::string version_text(int version) { return text(version / 1000, '.', version % 1000 / 10); }

[[noreturn]] void fail_without_device(cudaError_t status) {
  cudaGetLastError();
  int driver = 0;
  cudaDriverGetVersion(&driver);  // 0 where there is no driver
  if (status == cudaErrorInsufficientDriver && driver == 0)
    fail(IM2WIN_NO_DEVICE,
         "there is no NVIDIA driver on this machine (libcuda.so.1 was not found)");
  if (status == cudaErrorInsufficientDriver)
    fail(IM2WIN_NO_DEVICE, "the NVIDIA driver is too old: it supports CUDA ", version_text(driver),
         ", and this libim2win was built with CUDA ", version_text(CUDART_VERSION),
         ", which needs driver ", kOldestDriver, " or newer");
  if (status == cudaErrorNoDevice)
    fail(IM2WIN_NO_DEVICE,
         "the NVIDIA driver sees no CUDA device: check nvidia-smi and CUDA_VISIBLE_DEVICES");
  fail(IM2WIN_NO_DEVICE, "the CUDA devices cannot be used: ", cudaGetErrorName(status), ": ",
       cudaGetErrorString(status));
}

int attribute(cudaDeviceAttr which, int32_t device, const char* name) {
  int value = 0;
  check(cudaDeviceGetAttribute(&value, which, device), name);
  return value;
}

/// Whether kernels can reach plain host memory, through page faults or address translation.
bool reaches_pageable_memory(int32_t device) {
  return attribute(cudaDevAttrPageableMemoryAccess, device, "cudaDevAttrPageableMemoryAccess") != 0;
}

}  // namespace

int32_t device_count() {
  // Devices neither come nor go while a process runs, so a count above 0 is kept.
  static std::atomic<int> known{0};
  if (const int count = known.load(std::memory_order_relaxed); count > 0) return count;
  int count = 0;
  const cudaError_t status = cudaGetDeviceCount(&count);
  if (status != cudaSuccess || count == 0)
    fail_without_device(status != cudaSuccess ? status : cudaErrorNoDevice);
  known.store(count, std::memory_order_relaxed);
  return count;
}

void require_device(int32_t device) {
  const int32_t count = device_count();
  if (device < 0 || device >= count)
    fail(IM2WIN_NO_DEVICE, "there is no CUDA device ", device, ": this machine has ", count,
         ", numbered from 0");
}

CurrentDevice::CurrentDevice(int32_t device) {
  check(cudaGetDevice(&previous_), "cudaGetDevice");
  if (previous_ == device) return;
  check(cudaSetDevice(device), "cudaSetDevice");
  changed_ = true;
}

CurrentDevice::~CurrentDevice() {
  if (changed_ && cudaSetDevice(previous_) != cudaSuccess) cudaGetLastError();
}

int multiprocessors(int32_t device) {
  return attribute(cudaDevAttrMultiProcessorCount, device, "cudaDevAttrMultiProcessorCount");
}

int compute_capability(int32_t device) {
  return 10 * attribute(cudaDevAttrComputeCapabilityMajor, device, "the compute capability") +
         attribute(cudaDevAttrComputeCapabilityMinor, device, "the compute capability");
}

int shared_bytes_of_block(int32_t device) {
  return attribute(cudaDevAttrMaxSharedMemoryPerBlockOptin, device,
                   "cudaDevAttrMaxSharedMemoryPerBlockOptin");
}

std::string describe(int32_t device) {
  cudaDeviceProp properties{};
  check(cudaGetDeviceProperties(&properties, device), "cudaGetDeviceProperties");
  char memory[32];
  std::snprintf(memory, sizeof memory, "%.1f GiB",
                static_cast<double>(properties.totalGlobalMem) / (1 << 30));
  return text(properties.name, ", sm_", properties.major, properties.minor, ", ",
              properties.multiProcessorCount, " multiprocessors, ", memory);
}

void require_accessible(int32_t device, const char* argument, const void* pointer) {
  const CurrentDevice current(device);
  cudaPointerAttributes attributes{};
  check(cudaPointerGetAttributes(&attributes, pointer), "cudaPointerGetAttributes");
  switch (attributes.type) {
    case cudaMemoryTypeManaged: return;
    case cudaMemoryTypeDevice:
      require(attributes.device == device, argument, " is ", pointer, " on CUDA device ",
              attributes.device, ": expected memory of device ", device);
      return;
    case cudaMemoryTypeHost:
      require(attributes.devicePointer == pointer, argument, " is ", pointer,
              ", registered host memory that CUDA device ", device, " sees at ",
              attributes.devicePointer, ": expected that address");
      return;
    default:
      require(reaches_pageable_memory(device), argument, " is ", pointer,
              " in host memory: expected memory of CUDA device ", device);
  }
}

}  // namespace im2win::cuda
