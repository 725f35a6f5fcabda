// implicit_gemm_tiled in float32 and with 16 bits: for small problems, which have ended before filters laid out
// beforehand would pay. Code that is gone through once takes longer to come than to run: what can be is in loops.
#pragma once

#include "cuda/implicit_gemm/split_k/fma_sums.cuh"
#include "cuda/implicit_gemm/split_k/loader.cuh"
#include "cuda/implicit_gemm/split_k/mma_sums.cuh"
#include "cuda/implicit_gemm/split_k/places.cuh"
#include "cuda/implicit_gemm/split_k/ptx.cuh"
#include "cuda/ptx.cuh"

extern __shared__ __align__(16) char dynamic_shared_memory[];

namespace im2win::cuda::implicit_gemm::split_k {

template <class T>
using SumsOf = std::conditional_t<sizeof(typename T::Element) == 2, MmaSums<T>, FmaSums<T>>;

template <class T>
constexpr int kRowsAtOnce = kThreads / T::kEdge;

/// Adds up what warps have that shared taps, in the order of these. Of an output the thread that writes it may be another.
template <class T>
__device__ __forceinline__ void add_shares(Shared<T>& shared) {
#pragma unroll 1
  for (int row = threadIdx.x / T::kEdge; row < T::kEdge; row += kRowsAtOnce<T>) {
    const int column = threadIdx.x % T::kEdge;
    float sum = 0;
#pragma unroll
    for (int share = 0; share < T::kTapShares; ++share) sum += shared.sums[share][row][column];
    shared.sums[0][row][column] = sum;
  }
}

/// Adds up what the blocks of a tile have, in their order, so that the same bits come out every time; each block
/// finishes and stores some. Neighbouring threads store neighbours.
template <class T>
__device__ __forceinline__ void write_outputs(const Arguments<typename T::Element>& a,
                                              const Place& place, const Shared<T>& shared,
                                              int split) {
#pragma unroll 1
  for (int row = threadIdx.x / T::kEdge + split * kRowsAtOnce<T>; row < T::kEdge;
       row += a.splits * kRowsAtOnce<T>) {
    const int column = threadIdx.x % T::kEdge;
    const int filter = T::kChannelsLast ? column : row, pixel = T::kChannelsLast ? row : column;
    if (place.first_filter + filter >= a.filters || place.first_pixel + pixel >= a.pixels) continue;
    const float* const own = &shared.sums[0][row][column];
    float sum = *own;
    if (a.splits > 1) {
      sum = 0;
#pragma unroll 1
      for (int block = 0; block < a.splits; ++block) sum += load_from_cluster(own, block);
    }
    const auto locate = [&] {
      return output_at(a, place, place.first_filter + filter, place.first_pixel + pixel);
    };
    write_sum(a, shared.outputs.filters[filter], shared.outputs.pixels[pixel], locate, sum);
  }
}

/// A block's part of its tile's stages of taps.
struct Stages {
  int first, end;
};

/// The sums of a tile. The first stages are asked for before any is multiplied, by the same code.
template <class T, int kWindowCopy, int kFilterCopy, class Tabulate>
__device__ __forceinline__ void multiply(const Arguments<typename T::Element>& a,
                                         const Place& place, Shared<T>& shared,
                                         const Stages& stages, const Tabulate& tabulate,
                                         SumsOf<T>& sums) {
  Loader<T, kWindowCopy, kFilterCopy> loader(a, place, shared);
  // Taps in whole steps.
  const auto used = [&](int stage) {
    constexpr int kStep = SumsOf<T>::kStep;
    return min(T::kTaps, (a.taps - stage * T::kTaps + kStep - 1) / kStep * kStep);
  };
#pragma unroll 1
  for (int stage = stages.first - kStages + 1; stage < stages.end; ++stage) {
    if (stage >= stages.first) {
      __pipeline_wait_prior(kStages - 2);
      __syncthreads();
      tabulate(stage + kStages);
    }
    const int next = stage + kStages - 1;
    if (next < stages.end) loader.ask(next, used(next));
    __pipeline_commit();  // also where there is nothing, as stages are counted
    if (stage >= stages.first) sums.add(shared.operands, stage, used(stage));
    if (next < stages.end) loader.settle(next, used(next));
  }
}

template <class T>
__global__ void __launch_bounds__(kThreads, 2)
    implicit_gemm_split_k_kernel(const __grid_constant__ Arguments<typename T::Element> a) {
  auto& shared = *reinterpret_cast<Shared<T>*>(dynamic_shared_memory);
  const int block = static_cast<int>(block_index());
  const int thread = static_cast<int>(threadIdx.x);
  const int split = block % a.splits;
  const Place place(a, block / a.splits, T::kEdge);
  const int all = (a.taps + T::kTaps - 1) / T::kTaps;
  const Stages stages = {all * split / a.splits, all * (split + 1) / a.splits};
  TapWalk<T> walk(a, stages.first * T::kTaps + thread);
  const auto tabulate = [&](int stage) {
    if (thread >= T::kTaps || stage >= stages.end) return;
    shared.taps[stage % kTables][thread] = walk.place();
    walk.advance();
  };
#pragma unroll 1
  for (int i = 0; i < kStages; ++i) tabulate(stages.first + i);
  if (thread < T::kEdge) shared.pixels[thread] = pixel_place(a, place, thread);
  ptx::wait_for_kernel_before();
  tabulate_outputs(a, place, shared.outputs);
  __syncthreads();
  SumsOf<T> sums;
  constexpr int kWord = 16 / sizeof(typename T::Element), kHalfWord = kWord / 2;
  switch (a.copies) {
    case Copies::kWords: multiply<T, kWord, kWord>(a, place, shared, stages, tabulate, sums); break;
    case Copies::kHalfWords:
      multiply<T, kHalfWord, kHalfWord>(a, place, shared, stages, tabulate, sums);
      break;
    case Copies::kFilterWords:
      multiply<T, 1, kWord>(a, place, shared, stages, tabulate, sums);
      break;
    case Copies::kFilterHalfWords:
      multiply<T, 1, kHalfWord>(a, place, shared, stages, tabulate, sums);
      break;
    case Copies::kElements: multiply<T, 1, 1>(a, place, shared, stages, tabulate, sums); break;
  }
  // Not before: few blocks leave room on other multiprocessors, where all of the next kernel's would crowd.
  ptx::let_next_start();
  __syncthreads();
  sums.put(shared.sums);
  if constexpr (T::kTapShares > 1) {
    __syncthreads();
    add_shares<T>(shared);
  }
  if (a.splits == 1)
    __syncthreads();
  else
    meet_with_writes();
  write_outputs(a, place, shared, split);
  if (a.splits > 1) meet_with_writes();  // no block ends before others have read what it has
}

}  // namespace im2win::cuda::implicit_gemm::split_k
