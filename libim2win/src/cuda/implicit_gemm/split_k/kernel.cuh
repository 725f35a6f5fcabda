// implicit_gemm_tiled in float32, TF32 and with 16 bits: for small problems, which have ended before filters laid out
// beforehand would pay. Code that is gone through once takes longer to come than to run: what can be is in loops.
#pragma once

#include <cuda_pipeline.h>

#include "cuda/implicit_gemm/split_k/fma_sums.cuh"
#include "cuda/implicit_gemm/split_k/loader.cuh"
#include "cuda/implicit_gemm/split_k/mma_sums.cuh"
#include "cuda/implicit_gemm/split_k/places.cuh"
#include "cuda/implicit_gemm/split_k/ptx.cuh"
#include "cuda/ptx.cuh"

extern __shared__ __align__(16) char dynamic_shared_memory[];

namespace im2win::cuda::implicit_gemm::split_k {

template <class T>
using SumsOf = std::conditional_t<T::kHasTensorCores, MmaSums<T>, FmaSums<T>>;

template <class T>
constexpr int kRowsAtOnce = kThreads / T::kEdge;

/// What warps have of an output that shared taps, added up in the order of these.
template <class T>
__device__ __forceinline__ float sum_of_shares(const Shared<T>& shared, int row, int column) {
  float sum = 0;
#pragma unroll
  for (int share = 0; share < T::kTapShares; ++share) sum += shared.sums[share][row][column];
  return sum;
}

/// The same of all outputs, for other blocks to read.
template <class T>
__device__ __forceinline__ void add_shares(Shared<T>& shared) {
#pragma unroll 1
  for (int row = threadIdx.x / T::kEdge; row < T::kEdge; row += kRowsAtOnce<T>) {
    const int column = threadIdx.x % T::kEdge;
    shared.sums[0][row][column] = sum_of_shares(shared, row, column);
  }
}

/// Adds up what the blocks of a tile have, in their order, so that the same bits come out every time.
template <class T>
__device__ __forceinline__ float sum_of_blocks(const Shared<T>& shared, int row, int column,
                                               int blocks) {
  float sums[kMostSplits];
#pragma unroll
  for (int block = 0; block < kMostSplits; ++block)
    sums[block] =
        load_from_cluster_if(block < blocks, &shared.sums[0][row][column], min(block, blocks - 1));
  float sum = 0;
#pragma unroll
  for (int block = 0; block < kMostSplits; ++block)
    if (block < blocks) sum += sums[block];
  return sum;
}

/// Each block finishes and stores some rows of its tile's outputs, a thread so many at a time. Neighbouring threads store
/// neighbours.
template <class T, int kAtOnce, class SumOf>
__device__ __forceinline__ void write_outputs(const Arguments<typename T::Element>& a,
                                              const Place& place, const Shared<T>& shared,
                                              int split, const SumOf& sum_of) {
  const int column = threadIdx.x % T::kEdge, step = a.splits * kRowsAtOnce<T>;
#pragma unroll 1
  for (int first = threadIdx.x / T::kEdge + split * kRowsAtOnce<T>; first < T::kEdge;
       first += kAtOnce * step) {
    float sums[kAtOnce];
#pragma unroll
    for (int i = 0; i < kAtOnce; ++i) sums[i] = sum_of(min(first + i * step, T::kEdge - 1), column);
#pragma unroll
    for (int i = 0; i < kAtOnce; ++i) {
      const int row = first + i * step;
      const int filter = T::kChannelsLast ? column : row, pixel = T::kChannelsLast ? row : column;
      if (row >= T::kEdge || place.first_filter + filter >= a.filters ||
          place.first_pixel + pixel >= a.pixels)
        continue;
      const auto locate = [&] {
        return output_at(a, place, place.first_filter + filter, place.first_pixel + pixel);
      };
      write_sum(a, shared.outputs.filters[filter], shared.outputs.pixels[pixel], locate, sums[i]);
    }
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
                                         const Stages& stages, TapWalk<T>& walk,
                                         const Tabulate& tabulate, SumsOf<T>& sums) {
  using TheLoader = Loader<T, kWindowCopy, kFilterCopy>;
  TheLoader loader(a, place, shared, walk);
  // Taps in whole steps.
  const auto used = [&](int stage) {
    constexpr int kStep = SumsOf<T>::kStep;
    return min(T::kTaps, (a.taps - stage * T::kTaps + kStep - 1) & -kStep);
  };
#pragma unroll 1
  for (int stage = stages.first - kStages + 1; stage < stages.end; ++stage) {
    if (stage >= stages.first) {
      __pipeline_wait_prior(kStages - 2);
      __syncthreads();
      if constexpr (TheLoader::kHasTable) tabulate(stage + kStages);
    }
    const int next = stage + kStages - 1;
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
  const int block = static_cast<int>(block_index());
  const int thread = static_cast<int>(threadIdx.x);
  const int split = block % a.splits;
  const Place place(a, block / a.splits, T::kEdge);
  const int all = (a.taps + T::kTaps - 1) / T::kTaps;
  const Stages stages = {all * split / a.splits, all * (split + 1) / a.splits};
  constexpr int kWord = 16 / sizeof(typename T::Element), kHalfWord = kWord / 2;
  const int copy = a.copies == Copies::kWords       ? kWord
                   : a.copies == Copies::kHalfWords ? kHalfWord
                                                    : 1;
  const int tap = T::kChannelsLast ? thread * copy % T::kTaps : thread;
  TapWalk<T> walk(a, stages.first * T::kTaps + tap);
  const auto tabulate = [&](int stage) {
    if (thread >= T::kTaps || stage >= stages.end) return;
    shared.taps[stage % kTables][thread] = walk.place();
    walk.advance();
  };
  if (!T::kChannelsLast && copy == 1) {
#pragma unroll 1
    for (int i = 0; i < kStages; ++i) tabulate(stages.first + i);
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
  // Not before: few blocks leave room on other multiprocessors, where all of the next kernel's would crowd.
  ptx::let_next_start();
  __syncthreads();
  sums.put(shared.sums);
  __syncthreads();
  if (a.splits == 1)
    return write_outputs<T, 4>(a, place, shared, split, [&](int row, int column) {
      return sum_of_shares(shared, row, column);
    });
  add_shares<T>(shared);
  meet_with_writes();
  write_outputs<T, 1>(a, place, shared, split, [&](int row, int column) {
    return sum_of_blocks(shared, row, column, a.splits);
  });
  meet_with_writes();  // no block ends before others have read what it has
}

}  // namespace im2win::cuda::implicit_gemm::split_k
