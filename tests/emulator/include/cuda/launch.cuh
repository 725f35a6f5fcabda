// cuda/launch.cuh, emulated.
#pragma once

#include <cstdint>
#include <type_traits>

#include "cuda/device.hpp"
#include "emulator.hpp"

namespace im2win::cuda {

template <class Kernel>
int ptx_version(Kernel) {
  return 90;
}

inline int64_t block_index() { return blockIdx.x; }
inline int64_t thread_index() { return block_index() * blockDim.x + threadIdx.x; }

enum class Start { kInOrder, kEarly };

inline void allow_shared_memory(const void*, int64_t) {}
inline int clusters_at_once(const void*, int cluster_blocks, int, int) {
  return multiprocessors(0) / cluster_blocks;
}

template <class... Parameters>
void launch_clusters(const char*, void (*kernel)(Parameters...), int64_t blocks, int cluster_blocks,
                     int threads, size_t, void*, Start start,
                     const std::type_identity_t<Parameters>&... arguments) {
  emulator::launch(blocks, cluster_blocks, threads, [&] { kernel(arguments...); });
  if (start == Start::kEarly && !emulator::all_blocks_waited())
    emulator::fail("a kernel that is launched early does not wait for what came before");
}

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
