// Runs CUDA kernels on the host, cluster by cluster of blocks: what CUDA C++ takes for granted in device
// code, for a host compiler. Included before everything else (see CMakeLists.txt).
//
// The threads of a cluster's blocks are fibers of one host thread, in an order shuffled from round to round.
// A thread gives way where it waits; when all wait and none can go on, that is a deadlock, which ends
// the program. Shared memory starts as NaN in each block. Not modelled: time, the order in which
// asynchronous copies and products end (they end at once), and proxies.
#pragma once

#include <cuda_runtime.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <functional>
#include <initializer_list>

namespace emulator {

struct Index {
  unsigned x = 0, y = 0, z = 0;
};

/// Where the fiber that runs is.
extern Index thread_index, block_index, block_size, grid_size;

constexpr int64_t kSharedBytes = 227 * 1024;

/// Calls `body` once for each thread of each block; so many blocks are a cluster.
void launch(int64_t blocks, int cluster_blocks, int threads, const std::function<void()>& body);

/// By a thread: for the kernel before its own, which has ended here.
void wait_for_kernel_before();
/// Whether a thread of each block of the last launch has.
bool all_blocks_waited();

/// What kernels are told that the device has, from now on.
void set_multiprocessors(int count);

/// Of a block of the cluster that runs.
char* shared_memory_of(int block);
/// Calls `use` while that is where the running block's is.
void with_shared_memory_of(int block, const std::function<void()>& use);
/// Until all threads of the cluster that have not ended have come.
void meet_in_cluster();

/// Ends the program: what a kernel must never do.
[[noreturn]] void fail(const char* what);

/// What kernels may read of global memory, from now on; before the first call, everything.
struct Range {
  const void* begin;
  const void* end;
};
void may_read(std::initializer_list<Range> ranges);
/// Ends the program unless all of it may be read.
void require_readable(const void* p, size_t bytes);

/// What a CUtensorMap holds here: along a box's dimensions.
struct TensorMap {
  char* data;
  int64_t element_bytes;
  int64_t size[4], stride_bytes[4], box[4];
  bool swizzled;
  bool rounded;  // to TF32
};

/// A float32's bits, to 10 of mantissa; infinity and NaN stay what they are.
inline uint32_t round_to_tf32(uint32_t bits) {
  return (bits & 0x7f800000u) == 0x7f800000u ? bits : (bits + 0x1000u) & ~0x1fffu;
}

/// Lets others run until `condition` holds; `what` and `number` say what that is, for people.
void wait_until(const char* what, int64_t number, const std::function<bool()>& condition);

/// Of `threads` threads of the block; `arrive` does not wait.
void barrier(int id, int threads);
void barrier_arrive(int id, int threads);
/// Whether all threads of the block passed true.
bool all_in_block(bool value);

/// What each lane of the warp passed, to be read until the next exchange.
const uint64_t* exchange(uint64_t value);

}  // namespace emulator

alignas(1024) extern char dynamic_shared_memory[emulator::kSharedBytes];

#undef __noinline__
#define __noinline__
#undef __launch_bounds__
#define __launch_bounds__(...)
#define threadIdx ::emulator::thread_index
#define blockIdx ::emulator::block_index
#define blockDim ::emulator::block_size
#define gridDim ::emulator::grid_size

using std::max;
using std::min;

inline unsigned __vimax3_u32(unsigned a, unsigned b, unsigned c) { return max(max(a, b), c); }
inline unsigned __vimin3_u32(unsigned a, unsigned b, unsigned c) { return min(min(a, b), c); }

/// The low word of both, shifted right.
inline unsigned __funnelshift_r(unsigned low, unsigned high, unsigned shift) {
  return static_cast<unsigned>((uint64_t{high} << 32 | low) >> (shift & 31));
}

/// Four bytes of both, low ones first, each named by four bits.
inline unsigned __byte_perm(unsigned low, unsigned high, unsigned names) {
  const uint64_t bytes = uint64_t{high} << 32 | low;
  unsigned result = 0;
  for (unsigned i = 0; i < 4; ++i)
    result |= static_cast<unsigned>(bytes >> (names >> 4 * i & 7) * 8 & 0xff) << 8 * i;
  return result;
}

inline void __syncthreads() { ::emulator::barrier(0, static_cast<int>(blockDim.x)); }
inline int __syncthreads_and(int value) { return ::emulator::all_in_block(value != 0); }
inline void __syncwarp() { ::emulator::exchange(0); }

template <class T>
T __shfl_sync(unsigned, T value, int lane) {
  uint64_t bits = 0;
  std::memcpy(&bits, &value, sizeof value);
  std::memcpy(&value, &::emulator::exchange(bits)[lane], sizeof value);
  return value;
}

template <class T>
T __shfl_xor_sync(unsigned mask, T value, int lanes) {
  return __shfl_sync(mask, value, static_cast<int>(threadIdx.x % 32) ^ lanes);
}

inline unsigned __ballot_sync(unsigned, bool value) {
  const uint64_t* values = ::emulator::exchange(value);
  unsigned lanes = 0;
  for (int lane = 0; lane < 32; ++lane) lanes |= static_cast<unsigned>(values[lane]) << lane;
  return lanes;
}

inline bool __any_sync(unsigned, bool value) {
  const uint64_t* values = ::emulator::exchange(value);
  return std::any_of(values, values + 32, [](uint64_t x) { return x != 0; });
}

inline bool __all_sync(unsigned mask, bool value) { return !__any_sync(mask, !value); }

inline unsigned __reduce_max_sync(unsigned, unsigned value) {
  const uint64_t* values = ::emulator::exchange(value);
  return static_cast<unsigned>(*std::max_element(values, values + 32));
}

inline unsigned __reduce_min_sync(unsigned, unsigned value) {
  const uint64_t* values = ::emulator::exchange(value);
  return static_cast<unsigned>(*std::min_element(values, values + 32));
}

inline void __nanosleep(unsigned) {}

template <class To, class From>
To bits_as(From from) {
  To to;
  std::memcpy(&to, &from, sizeof to);
  return to;
}

inline unsigned __float_as_uint(float x) { return bits_as<unsigned>(x); }
inline float __uint_as_float(unsigned x) { return bits_as<float>(x); }
inline float __int_as_float(int x) { return bits_as<float>(x); }
inline int __ffs(int x) { return __builtin_ffs(x); }
inline int __popc(unsigned x) { return __builtin_popcount(x); }
inline int __clz(int x) { return x == 0 ? 32 : __builtin_clz(static_cast<unsigned>(x)); }

template <class T>
T __ldg(const T* p) {
  return *p;
}
