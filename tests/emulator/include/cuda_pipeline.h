// Asynchronous copies, which end at once.
#pragma once

#include "cuda_pipeline_primitives.h"

inline void __pipeline_memcpy_async(void* to, const void* from, size_t bytes) {
  __pipeline_memcpy_async(to, from, bytes, 0);
}
