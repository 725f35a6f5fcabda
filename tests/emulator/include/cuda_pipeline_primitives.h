// Asynchronous copies, which end at once.
#pragma once

#include <cstring>

inline void __pipeline_memcpy_async(void* to, const void* from, size_t bytes, size_t zeros) {
  if (zeros < bytes) emulator::require_readable(from, bytes - zeros);
  std::memcpy(to, from, bytes - zeros);
  std::memset(static_cast<char*>(to) + bytes - zeros, 0, zeros);
}
inline void __pipeline_commit() {}
inline void __pipeline_wait_prior(int) {}
