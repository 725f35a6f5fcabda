// The CUDA devices: whether one can be used, what it is, and making it current for a while.
#pragma once

#include <cstdint>
#include <string>

namespace im2win::cuda {

/// Makes a device current, and on destruction the one that was current before.
class CurrentDevice {
 public:
  explicit CurrentDevice(int32_t device);
  ~CurrentDevice();
  CurrentDevice(const CurrentDevice&) = delete;
  CurrentDevice& operator=(const CurrentDevice&) = delete;

 private:
  int previous_ = 0;
  bool changed_ = false;
};

/// NO_DEVICE, with the reason, unless the ordinal is that of a device.
void require_device(int32_t device);

/// Such as "NVIDIA H200, sm_90, 132 multiprocessors, 139.8 GiB".
std::string describe(int32_t device);

int multiprocessors(int32_t device);
/// Such as 90 for 9.0.
int compute_capability(int32_t device);
/// The most shared memory that a block can have.
int shared_bytes_of_block(int32_t device);

/// INVALID_ARGUMENT, naming the argument, if kernels on the device cannot reach the pointer. It
/// only asks the driver's tables, and is legal while a stream is being captured.
void require_accessible(int32_t device, const char* argument, const void* pointer);

}  // namespace im2win::cuda
