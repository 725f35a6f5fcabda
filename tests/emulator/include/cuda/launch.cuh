// cuda/launch.cuh, emulated.
#pragma once

#include <cstdint>
#include <type_traits>

#include "emulator.hpp"

namespace im2win::cuda {

template <class Kernel>
int ptx_version(Kernel) {
  return 80;
}

inline int64_t block_index() { return blockIdx.x; }
inline int64_t thread_index() { return block_index() * blockDim.x + threadIdx.x; }

enum class Start { kInOrder, kEarly };

template <class... Parameters>
void launch_shared(const char*, void (*kernel)(Parameters...), int64_t blocks, int threads, size_t,
                   void*, Start start, const std::type_identity_t<Parameters>&... arguments) {
  if (start == Start::kEarly) emulator::fail("launched early, though its code waits for nothing");
  emulator::launch(blocks, threads, [&] { kernel(arguments...); });
}

template <class... Parameters>
void launch(const char* name, void (*kernel)(Parameters...), int64_t blocks, int threads,
            void* stream, const std::type_identity_t<Parameters>&... arguments) {
  launch_shared(name, kernel, blocks, threads, 0, stream, Start::kInOrder, arguments...);
}

}  // namespace im2win::cuda
