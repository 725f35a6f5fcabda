// The kernel of im2win_fma: windows are formed in registers, from rows of the input in shared memory.
//
// A padded window's zeros make NaN of weights that are not finite. NaN stays NaN in a sum, so a sum
// that is none has not met one; one that is NaN is computed again from the taps inside the image.
#pragma once

#include <cstring>
#include <type_traits>

#include "cuda/fma_strips/staging.cuh"
#include "cuda/fma_strips/sums.cuh"
#include "cuda/launch.cuh"
#include "cuda/ptx.cuh"

extern __shared__ __align__(16) char dynamic_shared_memory[];

namespace im2win::cuda::fma_strips {

/// Which outputs a thread has, and which channels. Some threads may have none.
struct Share {
  int split, row, strip;
  bool is_any;

  __device__ __forceinline__ explicit Share(const Tile& tile) {
    const int thread = static_cast<int>(threadIdx.x);
    split = thread / tile.threads_of_split();
    const int in_split = thread % tile.threads_of_split();
    row = in_split / tile.strips;
    strip = in_split % tile.strips;
    is_any = split < tile.splits;
  }
};

/// The products of a word of taps, in all rows of taps of the channels of a chunk that are the thread's.
template <int kTaps, int kFilters, class Element>
__device__ __forceinline__ void multiply(const Arguments<Element>& a, const Share& share,
                                         const float* rows, unsigned word, const float* weights,
                                         int channels, Sums<kFilters>& sums) {
  constexpr int kWords = Sums<kFilters>::template kWords<kTaps>;
  const int row_step = a.dilation_h * a.tile.row_pitch;
  for (int c = share.split; c < channels; c += a.tile.splits) {
    const float* words[kWords];
#pragma unroll
    for (int i = 0; i < kWords; ++i)
      words[i] = rows + c * a.tile.plane_pitch + word_offset(word + static_cast<unsigned>(i));
    const float* of_row = weights + c * a.r * kFilters * kWord;
#pragma unroll 1
    for (int r = 0; r < a.r; ++r, of_row += kFilters * kWord) {
      sums.template add<kTaps>(words, of_row);
#pragma unroll
      for (const float*& each : words) each += row_step;
    }
  }
}

template <int kFilters, class Element>
__device__ __forceinline__ void multiply(const Arguments<Element>& a, const Share& share,
                                         const float* shared, int channels, Sums<kFilters>& sums) {
  const float* rows = shared + share.row * a.stride_h * a.tile.row_pitch;
  const float* weights = shared + a.weights_begin;
  for (int phase = 0; phase < a.tile.phases; ++phase, rows += a.tile.phase_pitch) {
    unsigned word = static_cast<unsigned>(share.strip * Sums<kFilters>::kColumns) / kWord;
    int taps = a.most_taps - (phase >= a.full_phases);
    for (int i = 0; i < a.tile.tap_words; ++i, ++word, taps -= kWord, weights += a.word_floats) {
      switch (taps) {
        case 0: break;
        case 1: multiply<1>(a, share, rows, word, weights, channels, sums); break;
        case 2: multiply<2>(a, share, rows, word, weights, channels, sums); break;
        case 3: multiply<3>(a, share, rows, word, weights, channels, sums); break;
        default: multiply<kWord>(a, share, rows, word, weights, channels, sums);
      }
    }
  }
}

/// Adds up what the splits have, in their order.
__device__ __forceinline__ float sum_of_splits(const Tile& tile, const float* of) {
  float sum = of[0];
#pragma unroll 1
  for (int split = 1; split < tile.splits; ++split) sum += of[split * tile.threads_of_split()];
  return sum;
}

/// Stores a pixel's outputs, whatever the epilogue and the sums, which are `apart` floats apart. Out of line: it is
/// long.
template <class Element>
__device__ __noinline__ void write_any(const Arguments<Element>& a, const Place& place, int32_t p,
                                       int32_t q, const float* sums, int apart) {
  const auto& outputs = a.exact.outputs;
  const auto at = outputs.pixel(place.n, p, q);
#pragma unroll 1
  for (int k = 0; k < place.filters; ++k, sums += apart) {
    const int64_t filter = place.first_filter + k;
    float sum = sum_of_splits(a.tile, sums);
    if (a.is_padded && sum != sum) sum = window_sum(a.exact, {place.n, filter, p, q});
    *outputs.address(outputs.filter(filter), at) = outputs.finished(filter, at, sum);
  }
}

/// A pixel's outputs, neighbours in memory, as words; whether they were.
template <int kFilters, class Element>
__device__ __forceinline__ bool store_words(Element* to, const Element (&values)[kFilters]) {
  constexpr int kBytes = kFilters * sizeof(Element);
  if constexpr (kBytes % 8 == 0) {
    using Word = std::conditional_t<kBytes % 16 == 0, uint4, uint2>;
    Word words[kBytes / sizeof(Word)];
    memcpy(words, values, kBytes);
#pragma unroll
    for (int i = 0; i < kBytes / int(sizeof(Word)); ++i) reinterpret_cast<Word*>(to)[i] = words[i];
  }
  return kBytes % 8 == 0;
}

/// Finishes the sums and stores them. Neighbouring threads take neighbours of a row.
template <int kFilters, class Element>
__device__ __forceinline__ void write(const Arguments<Element>& a, const Place& place,
                                      const float* sums) {
  constexpr unsigned kColumns = strip_columns(kFilters);
  const Tile& tile = a.tile;
  const auto& outputs = a.exact.outputs;
  const bool is_plain = outputs.only_adds_bias_and_clamps();
  const int pixels = tile.rows * tile.columns(), pitch = tile.sums_pitch();
  const auto row_stride = static_cast<int32_t>(outputs.strides()[2]);
  const auto column_stride = static_cast<int32_t>(outputs.strides()[3]);
  const float low = outputs.low();
  const auto first = outputs.pixel(place.n, place.first_p, place.first_q);
  Element* planes[kFilters];
  float bias[kFilters];
#pragma unroll
  for (int k = 0; k < kFilters; ++k) {
    const auto filter = outputs.filter(place.first_filter + min(k, place.filters - 1));
    planes[k] = outputs.address(filter, first);
    bias[k] = filter.bias;
  }
  for (int pixel = static_cast<int>(threadIdx.x); pixel < pixels; pixel += kThreads) {
    const auto [row, column] = a.columns.divide(pixel);
    const int32_t p = place.first_p + row, q = place.first_q + column;
    if (p >= a.p || q >= a.q) continue;
    const int strip = static_cast<int>(static_cast<unsigned>(column) / kColumns);
    const int in_strip = static_cast<int>(static_cast<unsigned>(column) % kColumns);
    const float* const of = sums + in_strip * pitch + row * tile.strips + strip;
    float sum[kFilters];
#pragma unroll
    for (int k = 0; k < kFilters; ++k) sum[k] = of[k * (kColumns * pitch)];
#pragma unroll 1
    for (int split = 1; split < tile.splits; ++split)
#pragma unroll
      for (int k = 0; k < kFilters; ++k)
        sum[k] += of[split * tile.threads_of_split() + k * (kColumns * pitch)];
    bool is_any_nan = false;
    Element values[kFilters];
#pragma unroll
    for (int k = 0; k < kFilters; ++k) {
      const float y = sum[k] + bias[k];
      is_any_nan |= y != y;
      values[k] = from_compute<Element>(y < low ? low : y);
    }
    if (!is_plain || (a.is_padded && is_any_nan)) {
      write_any(a, place, p, q, of, kColumns * pitch);
      continue;
    }
    const int32_t at = row * row_stride + column * column_stride;
    if (a.stores_words && store_words(planes[0] + at, values)) continue;
#pragma unroll
    for (int k = 0; k < kFilters; ++k)
      if (k < place.filters) planes[k][at] = values[k];
  }
}

template <class Element, int kVector, int kFilters>
__global__ void __launch_bounds__(kThreads, kBlocks)
    im2win_fma_kernel(const __grid_constant__ Arguments<Element> a) {
  if (block_index() >= a.blocks) return;
  float* const shared = reinterpret_cast<float*>(dynamic_shared_memory);
  const Place place(a, static_cast<int32_t>(block_index()));
  const Share share(a.tile);
  const Staging<Element, kVector, kFilters> staging(a, place, shared);
  staging.tabulate();
  ptx::wait_for_kernel_before();
  Sums<kFilters> sums;
  float* const my_sums = shared + a.sums_begin + threadIdx.x;
  bool is_first = true;
  int unflushed = 0;
  for (int first = 0; first < a.channels; first += a.tile.chunk) {
    const int channels = min(a.channels - first, a.tile.chunk);
    __syncthreads();
    staging.stage(first, channels);
    __syncthreads();
    if (!share.is_any) continue;
    multiply(a, share, shared, channels, sums);
    if (++unflushed < a.tile.flush && first + a.tile.chunk < a.channels) continue;
    sums.flush(my_sums, a.tile.sums_pitch(), is_first);
    is_first = false;
    unflushed = 0;
  }
  // Not before: few blocks leave room on other multiprocessors, where all of the next kernel's would crowd.
  ptx::let_next_start();
  __syncthreads();
  write<kFilters>(a, place, shared + a.sums_begin);
}

}  // namespace im2win::cuda::fma_strips
