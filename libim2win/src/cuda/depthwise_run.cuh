// Contiguous elements between device memory and shared memory, in 16-byte words wherever they
// start.
#pragma once

#include <cuda_pipeline.h>

#include <cstdint>

namespace im2win::cuda {

/// Threads of a block that copy together.
struct Team {
  int thread, threads;
  int first, step;  // which of several runs the team takes

  /// All for a single run, else a warp for each.
  __device__ __forceinline__ static Team of(int runs) {
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    if (runs > 1) return {lane, 32, warp, static_cast<int>(blockDim.x / 32)};
    return {static_cast<int>(threadIdx.x), static_cast<int>(blockDim.x), 0, 1};
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
    const int head = this->head();
    const int words_end = head + (count_ - head) / kWord * kWord;
    for (int i = head + team.thread * kWord; i < words_end; i += team.threads * kWord)
      __pipeline_memcpy_async(shared_ + i, global + i, 16);
    for (int i = team.thread; i < head; i += team.threads) shared_[i] = global[i];
    for (int i = words_end + team.thread; i < count_; i += team.threads) shared_[i] = global[i];
  }

  __device__ __forceinline__ void store(Element* global, Team team) const {
    const int head = this->head();
    const int words_end = head + (count_ - head) / kWord * kWord;
    for (int i = head + team.thread * kWord; i < words_end; i += team.threads * kWord)
      *reinterpret_cast<uint4*>(global + i) = *reinterpret_cast<const uint4*>(shared_ + i);
    for (int i = team.thread; i < head; i += team.threads) global[i] = shared_[i];
    for (int i = words_end + team.thread; i < count_; i += team.threads) global[i] = shared_[i];
  }

 private:
  /// Elements before the first whole word.
  __device__ __forceinline__ int head() const { return min(count_, (kWord - shift_) % kWord); }

  int shift_, count_;
  Element* shared_;
};

}  // namespace im2win::cuda
