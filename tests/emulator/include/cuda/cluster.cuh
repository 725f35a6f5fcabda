// cuda/cluster.cuh, emulated.
#pragma once

#include <cuda/ptx>

#include <cstdint>
#include <cstring>

#include "emulator.hpp"

namespace im2win::cuda::ptx {

/// Who waits arrives then, too.
inline void arrive_in_cluster() {}
inline void wait_in_cluster() { emulator::meet_in_cluster(); }

/// The block above what an address in shared memory takes.
constexpr int kAddressBits = 24;
inline uint32_t shared_address_in_cluster(const void* p, int block) {
  const auto at = static_cast<const char*>(p) - dynamic_shared_memory;
  return static_cast<uint32_t>(at) | static_cast<uint32_t>(block) << kAddressBits;
}
inline char* at_address_in_cluster(uint32_t address) {
  return emulator::shared_memory_of(static_cast<int>(address >> kAddressBits)) +
         (address & ((1u << kAddressBits) - 1));
}
inline void arrive_at(uint32_t barrier) {
  ::cuda::ptx::mbarrier_arrive(reinterpret_cast<uint64_t*>(at_address_in_cluster(barrier)));
}
inline void send(const void* from, int bytes, uint32_t to, uint32_t barrier) {
  if (to % 16 != 0 || bytes % 16 != 0) emulator::fail("a bulk copy of no whole words");
  std::memcpy(at_address_in_cluster(to), from, static_cast<size_t>(bytes));
  ::cuda::ptx::complete(reinterpret_cast<uint64_t*>(at_address_in_cluster(barrier)),
                        static_cast<size_t>(bytes));
}

}  // namespace im2win::cuda::ptx
