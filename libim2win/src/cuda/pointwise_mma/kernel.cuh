// pointwise_mma: windows of single pixels, of few channels and filters. All that matters is that memory is never waited
// for, nor anything before it is asked for the first time. Warps go from tile to tile by themselves: they share filters
// alone.
#pragma once

#include "cuda/launch.cuh"
#include "cuda/pointwise_mma/filter_staging.cuh"
#include "cuda/pointwise_mma/outputs.cuh"
#include "cuda/pointwise_mma/products.cuh"
#include "cuda/pointwise_mma/row_outputs.cuh"
#include "cuda/pointwise_mma/stream.cuh"

namespace im2win::cuda::pointwise_mma {

template <class T>
__device__ __forceinline__ void load_biases(const Arguments<typename T::Element>& a,
                                            int32_t first_filter) {
  for (int i = ptx::thread_in_block(); i < a.tile.part_filters(); i += T::kThreads) {
    const int32_t filter = first_filter + i;
    biases(a)[i] = filter < a.filters ? a.outputs.bias(filter) : 0;
  }
}

/// What a warp has.
template <class T, bool = T::kAreRows>
struct Warp {
  using Stream = pointwise_mma::Stream<T>;
  using Words = pointwise_mma::Words<T>;
  using Sums = pointwise_mma::Sums<T>;
  using Writer = pointwise_mma::Writer<T>;
};
template <class T>
struct Warp<T, true> {
  using Stream = RowStream<T>;
  using Words = RowWords<T>;
  using Sums = RowSums<T>;
  using Writer = RowWriter<T>;
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
    float doubt = 0;
    if constexpr (T::kHasThirds) {
      seen.merge_warp();
      doubt = doubt_of(filters_seen, seen, a.channels);
    }
    writer.write(sums, filter, doubt);
  }
  return slot;
}

template <class T>
__global__ void __launch_bounds__(T::kThreads)
    pointwise_mma_kernel(const __grid_constant__ Arguments<typename T::Element> a) {
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
  const FilterWords<T, kMostWordBytes> whole_words(a, first_filter);
  const bool are_whole = a.filter_bytes == kMostWordBytes;
  uint4 words[kWordsAtOnce];
  if (are_whole) whole_words.ask(words);
  stream.begin();
  load_biases<T>(a, first_filter);
  Magnitudes filters_seen;
  if (are_whole)
    whole_words.put_all(words, filters_seen);
  else
    stage_narrow_words<T>(a, first_filter, filters_seen);
  if constexpr (T::kHasThirds) tell(a, filters_seen);
  __syncthreads();
  if constexpr (T::kHasThirds) filters_seen = all_seen<T>(a);
  ptx::let_next_start();
  uint32_t slot = stream.first_slot();
#pragma unroll 1
  for (int32_t tile = first_tile; tile < a.tile.tiles; tile += stride) {
    const typename Warp<T>::Writer writer(a, tile, first_filter);
    slot = multiply_tile<T>(a, stream, slot, writer, filters_seen);
  }
}

}  // namespace im2win::cuda::pointwise_mma
