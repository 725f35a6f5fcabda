// Devices and their memory: what the C API offers to callers without a CUDA runtime of their own.
// A build without CUDA has these functions too; they throw NO_DEVICE.
#pragma once

#include <cstddef>
#include <cstdint>

namespace im2win::cuda {

/// The number of CUDA devices, at least 1; NO_DEVICE, with the reason, if there is none.
int32_t device_count();

/// `bytes` bytes on the device, ordered on the stream (a cudaStream_t).
void* alloc(int32_t device, size_t bytes, void* stream);
void free(int32_t device, void* pointer, void* stream);

/// In any direction between host and device, on the stream.
void copy(int32_t device, void* target, const void* source, size_t bytes, void* stream);

void synchronize(int32_t device, void* stream);

}  // namespace im2win::cuda
