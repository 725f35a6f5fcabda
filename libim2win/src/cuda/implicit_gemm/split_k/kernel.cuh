// implicit_gemm_tiled in float32, TF32 and with 16 bits: for small problems, which have ended before filters laid out
// beforehand would pay. Code that is gone through once takes longer to come than to run: what can be is in loops.
#pragma once

#include <cuda_pipeline.h>

#include "cuda/implicit_gemm/split_k/fma_sums.cuh"
#include "cuda/implicit_gemm/split_k/loader.cuh"
#include "cuda/implicit_gemm/split_k/mma_sums.cuh"
#include "cuda/implicit_gemm/split_k/places.cuh"
#include "cuda/implicit_gemm/split_k/tile_writer.cuh"
#include "cuda/ptx.cuh"

extern __shared__ __align__(16) char dynamic_shared_memory[];

namespace im2win::cuda::implicit_gemm::split_k {

template <class T>
using SumsOf = std::conditional_t<T::kHasTensorCores, MmaSums<T>, FmaSums<T>>;

/// A block's part of its tile's stages of taps.
struct Stages {
  int first, end;
};

/// The sums of a tile. The first stages are asked for before any is multiplied, by the same code.
template <class T, int kWindowCopy, int kFilterCopy, class Tabulate>
__device__ __forceinline__ void multiply(const Arguments<typename T::Element>& a,
                                         const Place& place, Shared<T>& shared,
                                         const Stages& stages, TapWalk<T>& walk,
                                         const Tabulate& tabulate, SumsOf<T>& sums) {
  Loader<T, kWindowCopy, kFilterCopy> loader(a, place, shared, walk);
  // Taps in whole steps.
  const auto used = [&](int stage) {
    constexpr int kStep = SumsOf<T>::kStep;
    return min(T::kTaps, (a.taps - stage * T::kTaps + kStep - 1) & -kStep);
  };
#pragma unroll 1
  for (int stage = stages.first - T::kStages + 1; stage < stages.end; ++stage) {
    if (stage >= stages.first) {
      __pipeline_wait_prior(T::kStages - 2);
      __syncthreads();
      if constexpr (decltype(loader)::kHasTable) tabulate(stage + T::kStages);
    }
    const int next = stage + T::kStages - 1;
    if (next > stages.first && next <= stages.end) loader.settle(next - 1, used(next - 1));
    if (next < stages.end) loader.ask(next, used(next));
    __pipeline_commit();  // also where there is nothing, as stages are counted
    if (stage >= stages.first) sums.add(shared.operands, stage, used(stage));
  }
}

template <class T>
__global__ void __launch_bounds__(kThreads, 2)
    implicit_gemm_split_k_kernel(const __grid_constant__ Arguments<typename T::Element> a) {
  auto& shared = *reinterpret_cast<Shared<T>*>(dynamic_shared_memory);
  // Where blocks have room beside others, few leave it on some multiprocessors, where all of the next kernel's would crowd:
  // that one must wait until these have multiplied.
  if (a.is_alone) ptx::let_next_start();
  const int block = static_cast<int>(block_index());
  const int thread = static_cast<int>(threadIdx.x);
  const int split = block % a.splits;
  const Place place(a, block / a.splits, T::kEdge);
  const int all = (a.taps + T::kTaps - 1) / T::kTaps;
  const Stages stages = {all * split / a.splits, all * (split + 1) / a.splits};
  constexpr int kWord = 16 / sizeof(typename T::Element), kHalfWord = kWord / 2;
  const int copy = window_elements(a.copies, kWord);
  const int tap = T::kChannelsLast ? thread * copy % T::kTaps : thread;
  TapWalk<T> walk(a, stages.first * T::kTaps + tap);
  const auto tabulate = [&](int stage) {
    if (thread >= T::kTaps || stage >= stages.end) return;
    shared.taps[stage % T::kTables][thread] = walk.place();
    walk.advance();
  };
  if (!T::kChannelsLast && copy == 1) {
#pragma unroll 1
    for (int i = 0; i < T::kStages; ++i) tabulate(stages.first + i);
  }
  tabulate_pixels(a, place, shared);
  __syncthreads();
  ptx::wait_for_kernel_before();
  tabulate_filters(a, place, shared);
  SumsOf<T> sums;
  const auto multiply_by = [&](auto window_copy, auto filter_copy) {
    multiply<T, window_copy, filter_copy>(a, place, shared, stages, walk, tabulate, sums);
  };
  using One = std::integral_constant<int, 1>;
  using Word = std::integral_constant<int, kWord>;
  using HalfWord = std::integral_constant<int, kHalfWord>;
  switch (a.copies) {
    case Copies::kWords: multiply_by(Word(), Word()); break;
    case Copies::kHalfWords: multiply_by(HalfWord(), HalfWord()); break;
    case Copies::kFilterWords: multiply_by(One(), Word()); break;
    case Copies::kFilterHalfWords: multiply_by(One(), HalfWord()); break;
    case Copies::kElements: multiply_by(One(), One()); break;
  }
  if (!a.is_alone) ptx::let_next_start();
  __syncthreads();
  sums.put(shared.sums);
  __syncthreads();
  TileWriter<T>(a, place, shared, split).write();
}

}  // namespace im2win::cuda::implicit_gemm::split_k
