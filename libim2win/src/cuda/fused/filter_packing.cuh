// Launches of fused_pack_kernel.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

#include "cuda/error.hpp"
#include "cuda/fused/kernels.hpp"
#include "cuda/fused/pack.cuh"
#include "cuda/launch.cuh"

namespace im2win::cuda::fused {

/// The limit is the kernel's, and so of all plans: it is set to what any of them needs.
inline void allow_shared_memory(const void* kernel, int64_t bytes) {
  check(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                             static_cast<int>(bytes)),
        "cudaFuncSetAttribute");
}

template <class Element>
class FilterPacking {
 public:
  FilterPacking(PackKernel<Element> kernel, const PackArguments& arguments)
      : kernel_(kernel), arguments_(arguments) {}

  /// Before the first enqueue(), with the device current.
  void allow() const {
    allow_shared_memory(reinterpret_cast<const void*>(kernel_), kMaxPackSharedBytes);
  }

  void enqueue(const void* filter, void* packed, void* stream) const {
    PackArguments a = arguments_;
    if (reinterpret_cast<uintptr_t>(filter) % kUnitBytes != 0) a.words = false;
    launch_shared("fused_pack_kernel", kernel_, a.blocks, kPackThreads,
                  static_cast<size_t>(shared_bytes()), stream, Start::kInOrder, a,
                  static_cast<const Element*>(filter), static_cast<char*>(packed));
  }

 private:
  int shared_bytes() const {
    return static_cast<int>(sizeof(PackShared<Element>)) +
           kPackFilters * arguments_.pitch * static_cast<int>(sizeof(Element));
  }

  PackKernel<Element> kernel_;
  PackArguments arguments_;
};

}  // namespace im2win::cuda::fused
