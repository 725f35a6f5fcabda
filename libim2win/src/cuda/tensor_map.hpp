// Boxes of tensors, which the tensor memory accelerator copies between global and shared memory (CUDA
// driver API, "Tensor Map Object Management").
#pragma once

#include <cuda.h>

#include <cstdint>

#include "tensor.hpp"

namespace im2win::cuda {

/// The dimensions of a box, fastest first in shared memory, and its sides along them. What of it is
/// outside its tensor is zero when it is read, and not written. Along the first dimension it begins with
/// a whole word of 16 bytes (anything else is an illegal instruction, as an H200 showed).
struct Box {
  int order[4];
  uint32_t sides[4];
  bool swizzled;  // rows, along the first dimension, which have 32, 64 or 128 bytes then
};

/// Boxes of a tensor, element [0, 0, 0, 0] of which is at `data`. Sizes are above 0 and at most 2^31;
/// strides, where the size is not 1, whole words of 16 bytes, but 1 along a box's first dimension.
CUtensorMap tensor_map(CUtensorMapDataType type, int64_t element_bytes, const void* data,
                       const Tensor& tensor, const Box& box);

}  // namespace im2win::cuda
