// pointwise_mma: windows of single pixels, of few channels and filters. All that matters is that memory is never waited
// for, nor anything before it is asked for the first time. Warps go from tile to tile by themselves: they share filters
// alone.
#pragma once

#include "cuda/launch.cuh"
#include "cuda/pointwise_mma/doubts.cuh"
#include "cuda/pointwise_mma/filter_staging.cuh"
#include "cuda/pointwise_mma/outputs.cuh"
#include "cuda/pointwise_mma/products.cuh"
#include "cuda/pointwise_mma/row_outputs.cuh"
#include "cuda/pointwise_mma/stream.cuh"
#include "cuda/pointwise_mma/window_stream.cuh"

namespace im2win::cuda::pointwise_mma {

template <class T>
__device__ __forceinline__ void load_biases(const Arguments<typename T::Element>& a,
                                            int32_t first_filter) {
  for (int i = ptx::thread_in_block(); i < a.tile.part_filters(); i += T::kThreads) {
    const int32_t filter = first_filter + i;
    biases(a)[i] = filter < a.filters ? a.outputs.bias(filter) : 0;
  }
}

/// Until a block has all of the part's, and can tell what these are.
template <class T>
__device__ __forceinline__ Magnitudes wait_for_filters(const Arguments<typename T::Element>& a,
                                                       Magnitudes seen) {
  if constexpr (T::kHasThirds) tell(a, seen);
  if constexpr (T::kForm == Form::kWindows)
    seen.largest = __syncthreads_and(seen.largest < kInfinity) ? 0 : kInfinity;
  else
    __syncthreads();
  if constexpr (T::kHasThirds) seen = all_seen<T>(a);
  return seen;
}

/// What a warp has.
template <class T, Form = T::kForm>
struct Warp {
  using Stream = pointwise_mma::Stream<T>;
  using Words = pointwise_mma::Words<T>;
  using Sums = pointwise_mma::Sums<T>;
  using Writer = pointwise_mma::Writer<T>;
};
template <class T>
struct Warp<T, Form::kRows> {
  using Stream = RowStream<T>;
  using Words = RowWords<T>;
  using Sums = RowSums<T>;
  using Writer = RowWriter<T>;
};
template <class T>
struct Warp<T, Form::kWindows> : Warp<T, Form::kRows> {
  using Stream = WindowStream<T>;
};

/// All passes over a tile, whose first step is in this slot. The first pass waits for the steps, and asks for others. The
/// slot of the next tile.
template <class T>
__device__ __forceinline__ uint32_t multiply_tile(const Arguments<typename T::Element>& a,
                                                  typename Warp<T>::Stream& stream,
                                                  uint32_t first_slot,
                                                  const typename Warp<T>::Writer& writer,
                                                  const Magnitudes& filters_seen) {
  uint32_t slot;
#pragma unroll 1
  for (int pass = 0; pass < a.tile.passes; ++pass) {
    const int32_t filter = pass * T::kSixteens * kProductFilters;
    FilterFragments<T> filters(a, filter);
    typename Warp<T>::Sums sums = {};
    Magnitudes seen;
    slot = first_slot;
#pragma unroll 1
    for (int step = 0; step < a.tile.steps; ++step, filters.advance()) {
      if (pass == 0) stream.wait();
      typename Warp<T>::Words words;
      stream.read(slot, words);
      slot = stream.after(slot);
      if (pass == 0) stream.ask();
      add_step(filters, words, sums, seen);
    }
    writer.write(sums, filter, doubt_of_pass<T>(a, filters_seen, seen));
  }
  return slot;
}

/// A multiprocessor has one block.
template <class T>
__global__ void __launch_bounds__(T::kThreads, 1)
    pointwise_mma_kernel(const __grid_constant__ Arguments<typename T::Element> a) {
  using Kind = typename T::Kind;
  using WholeWords = FilterWords<Kind, kMostWordBytes>;
  const auto [block, part] = a.parts.divide(static_cast<int32_t>(block_index()));
  const int32_t first_filter = part * a.tile.part_filters();
  // The same for a warp, which the compiler must know.
  const int warp = __shfl_sync(~0u, ptx::thread_in_block() / 32, 0);
  // Some may be there for filters alone.
  const int32_t first_tile = warp < a.tile.warps ? block * a.tile.warps + warp : a.tile.tiles;
  const int32_t stride = a.tile.blocks * a.tile.warps;
  typename Warp<T>::Stream stream(a, first_tile, stride);
  ptx::wait_for_kernel_before();
  // Before pixels, behind which filters would wait for memory.
  const WholeWords whole_words(a, first_filter);
  const bool are_whole = a.filter_bytes == kMostWordBytes;
  typename WholeWords::Word words[WholeWords::kAtOnce];
  if (are_whole) whole_words.ask(words);
  stream.begin();
  load_biases<T>(a, first_filter);
  Magnitudes filters_seen;
  if (are_whole) whole_words.put(words, filters_seen);
  if (!are_whole || whole_words.are_more())
    filters_seen.merge(stage_words<Kind>(a, first_filter, !are_whole));
  filters_seen = wait_for_filters<T>(a, filters_seen);
  ptx::let_next_start();
  uint32_t slot = stream.first_slot();
#pragma unroll 1
  for (int32_t tile = first_tile; tile < a.tile.tiles; tile += stride) {
    const typename Warp<T>::Writer writer(a, tile, first_filter);
    slot = multiply_tile<T>(a, stream, slot, writer, filters_seen);
  }
}

}  // namespace im2win::cuda::pointwise_mma
