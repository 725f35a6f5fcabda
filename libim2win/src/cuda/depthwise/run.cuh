// Contiguous elements between device memory and shared memory, in 16-byte words wherever they
// start.
#pragma once

#include <cuda_pipeline.h>

#include <cstdint>

#include "cuda/divisor.hpp"

namespace im2win::cuda {

/// Threads of a block that copy together, a warp or more.
struct Team {
  int thread, threads;
  int first, step;  // which of several runs the team takes

  /// The block.
  __device__ __forceinline__ static Team block() {
    return {static_cast<int>(threadIdx.x), static_cast<int>(blockDim.x), 0, 1};
  }

  /// One of several of so many threads each, some of the block's warps.
  __device__ __forceinline__ static Team of(const Divisor& threads) {
    const auto [team, thread] = threads.divide(static_cast<int>(threadIdx.x));
    return {thread, static_cast<int>(threads.divisor), team,
            threads.quotient(static_cast<int>(blockDim.x))};
  }
};

/// A run of elements in global memory and its place in shared memory, which starts as far into a
/// 16-byte word as the run does.
template <class Element>
class Run {
 public:
  static constexpr int kWord = 16 / sizeof(Element);

  __device__ __forceinline__ Run(const Element* global, int count, unsigned char* shared)
      : shift_(static_cast<int>(reinterpret_cast<uintptr_t>(global) / sizeof(Element) % kWord)),
        count_(count),
        shared_(reinterpret_cast<Element*>(shared) + shift_) {}

  __device__ __forceinline__ Element* shared() const { return shared_; }

  /// Complete after __pipeline_commit() and _wait_prior(), and a barrier.
  __device__ __forceinline__ void load(const Element* global, Team team) const {
    const int head = this->head(), words = unsigned(count_ - head) / kWord;
    const auto from = reinterpret_cast<const uint4*>(global + head);
    const auto to = reinterpret_cast<uint4*>(shared_ + head);
    for (int i = team.thread; i < words; i += team.threads)
      __pipeline_memcpy_async(to + i, from + i, sizeof(uint4));
    const int first = team.thread, last = head + words * kWord + team.thread;
    if (first < head) shared_[first] = global[first];
    if (last < count_) shared_[last] = global[last];
  }

  __device__ __forceinline__ void store(Element* global, Team team) const {
    const int head = this->head(), words = unsigned(count_ - head) / kWord;
    const auto from = reinterpret_cast<const uint4*>(shared_ + head);
    const auto to = reinterpret_cast<uint4*>(global + head);
    for (int i = team.thread; i < words; i += team.threads) to[i] = from[i];
    const int first = team.thread, last = head + words * kWord + team.thread;
    if (first < head) global[first] = shared_[first];
    if (last < count_) global[last] = shared_[last];
  }

 private:
  /// Elements before the first whole word.
  __device__ __forceinline__ int head() const { return min(count_, (kWord - shift_) % kWord); }

  int shift_, count_;
  Element* shared_;
};

}  // namespace im2win::cuda
