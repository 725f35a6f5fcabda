#include "cuda/tensor_map.hpp"

#include <cuda_runtime.h>

#include "cuda/error.hpp"
#include "status.hpp"

namespace im2win::cuda {
namespace {

using EncodeTiled = decltype(&cuTensorMapEncodeTiled);

/// Of the driver that is there: the library links none.
EncodeTiled find_encode_tiled() {
  void* function = nullptr;
  cudaDriverEntryPointQueryResult result{};
  check(cudaGetDriverEntryPointByVersion("cuTensorMapEncodeTiled", &function, 12000,
                                         cudaEnableDefault, &result),
        "cudaGetDriverEntryPointByVersion");
  if (result != cudaDriverEntryPointSuccess)
    fail(IM2WIN_CUDA_ERROR, "the CUDA driver has no cuTensorMapEncodeTiled");
  return reinterpret_cast<EncodeTiled>(function);
}

CUtensorMapSwizzle swizzle_of(int64_t row_bytes) {
  return row_bytes == 128  ? CU_TENSOR_MAP_SWIZZLE_128B
         : row_bytes == 64 ? CU_TENSOR_MAP_SWIZZLE_64B
                           : CU_TENSOR_MAP_SWIZZLE_32B;
}

}  // namespace

CUtensorMap tensor_map(CUtensorMapDataType type, int64_t element_bytes, const void* data,
                       const Tensor& tensor, const Box& box) {
  static const EncodeTiled encode = find_encode_tiled();
  constexpr int64_t kAnyStride = 16;
  cuuint64_t sizes[4], strides[3];
  for (int i = 0; i < 4; ++i) {
    sizes[i] = static_cast<cuuint64_t>(tensor.size[box.order[i]]);
    if (i == 0) continue;
    const int64_t bytes = tensor.stride[box.order[i]] * element_bytes;
    strides[i - 1] = static_cast<cuuint64_t>(sizes[i] > 1 ? bytes : kAnyStride);
  }
  constexpr cuuint32_t kSteps[] = {1, 1, 1, 1};
  CUtensorMap map;
  const CUresult result =
      encode(&map, type, 4, const_cast<void*>(data), sizes, strides, box.sides, kSteps,
             CU_TENSOR_MAP_INTERLEAVE_NONE,
             box.swizzled ? swizzle_of(box.sides[0] * element_bytes) : CU_TENSOR_MAP_SWIZZLE_NONE,
             CU_TENSOR_MAP_L2_PROMOTION_L2_256B, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
  if (result != CUDA_SUCCESS)
    fail(IM2WIN_CUDA_ERROR, "cuTensorMapEncodeTiled failed with CUresult ", int{result});
  return map;
}

}  // namespace im2win::cuda
