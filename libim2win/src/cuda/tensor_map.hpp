// Boxes of tensors, which the tensor memory accelerator copies between global and shared memory (CUDA
// driver API, "Tensor Map Object Management").
#pragma once

#include <cuda.h>

#include <cstdint>

#include "tensor.hpp"

namespace im2win::cuda {

/// Along C, W, N and H, which is their order in shared memory, fastest first. What of a box is outside
/// its tensor is zero when it is read, and not written.
struct Box {
  uint32_t channels, columns, images, rows;
};

/// Boxes of a tensor, element [0, 0, 0, 0] of which is at `data`. A row of channels has 32, 64 or 128
/// bytes in shared memory, swizzled. Sizes are above 0 and at most 2^31; strides, where the size is not
/// 1, whole words of 16 bytes; strides[1] is 1.
CUtensorMap tensor_map(CUtensorMapDataType type, int64_t element_bytes, const void* data,
                       const Tensor& tensor, const Box& box);

}  // namespace im2win::cuda
