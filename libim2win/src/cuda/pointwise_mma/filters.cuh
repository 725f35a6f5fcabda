// A part's filters in shared memory: rows of channels, zeros where there are none, in TF32 rounded. Four lanes read
// neighbours of a row, and eight of them rows that are an odd number of steps apart, in different banks.
#pragma once

#include <cuda_pipeline.h>

#include <cstdint>

#include "cuda/fused/output_rows.cuh"
#include "cuda/pointwise_mma/arguments.cuh"

namespace im2win::cuda::pointwise_mma {

template <class T>
using Bits = std::conditional_t<T::kIsTf32, float, uint16_t>;

/// Words of the part's filters, so many bytes each, of which a thread has every so manyth.
template <class T, int kBytes>
class FilterWords {
 public:
  __device__ __forceinline__ FilterWords(const Arguments<typename T::Element>& a,
                                         int32_t first_filter)
      : a_(a), first_filter_(first_filter) {}

  /// Starts their copies.
  __device__ __forceinline__ void ask() const {
    for_each([&](uint32_t to, const Bits<T>* from, bool exists) {
      ptx::copy_async_if<kBytes>(exists, to, from);
    });
  }
  /// Elements of 16 bits are too short for asynchronous copies.
  __device__ __forceinline__ void load() const {
    for_each([&](uint32_t to, const Bits<T>* from, bool exists) {
      *static_cast<Bits<T>*>(ptx::at_shared_address(to)) = ptx::load_if(exists, from);
    });
  }
  /// The thread's, when these have come.
  __device__ __forceinline__ void round() const {
    for_each([&](uint32_t to, const Bits<T>*, bool) {
      using Word = fused::Pixels<float, kBytes / 4>;
      auto& word = *static_cast<Word*>(ptx::at_shared_address(to));
      Word rounded = word;
#pragma unroll
      for (float& x : rounded.x) x = __uint_as_float(ptx::round_to_tf32(x));
      word = rounded;
    });
  }

 private:
  template <class Do>
  __device__ __forceinline__ void for_each(const Do& act) const {
    constexpr int kWord = kBytes / T::kBytes, kStepWords = kStepChannels / kWord;
    const int count = a_.tile.part_filters() * a_.tile.steps * kStepWords;
    const auto* const filters = reinterpret_cast<const Bits<T>*>(a_.filter);
#pragma unroll 4
    for (int i = ptx::thread_in_block(); i < count; i += static_cast<int>(blockDim.x)) {
      const auto [row, step] = a_.steps.divide(i / kStepWords);
      const int32_t filter = first_filter_ + row;
      const int32_t channel = step * kStepChannels + i % kStepWords * kWord;
      const bool exists = filter < a_.filters && channel < a_.channels;
      act(ptx::shared_address(dynamic_shared_memory) +
              (row * a_.tile.filter_pitch() + channel) * T::kBytes,
          filters + (exists ? filter * a_.filter_stride[0] + channel * a_.filter_stride[1] : 0),
          exists);
    }
  }

  const Arguments<typename T::Element>& a_;
  int32_t first_filter_;
};

/// What is done by words of the size that filters come in.
template <class T, class Do>
__device__ __forceinline__ void with_filter_words(const Arguments<typename T::Element>& a,
                                                  int32_t first_filter, const Do& act) {
  switch (a.filter_bytes) {
    case 16: return act(FilterWords<T, 16>(a, first_filter));
    case 8: return act(FilterWords<T, 8>(a, first_filter));
    case 4: return act(FilterWords<T, 4>(a, first_filter));
    default:
      if constexpr (!T::kIsTf32) FilterWords<T, 2>(a, first_filter).load();
  }
}

/// Of a pass: what a lane reads of a step.
template <class T>
class FilterRows {
 public:
  /// `filter`: the pass's first of the part's.
  __device__ __forceinline__ FilterRows(const Arguments<typename T::Element>& a, int32_t filter)
      : pitch_(a.tile.filter_pitch() * T::kBytes) {
    const int lane = lane_of_warp();
    address_ = ptx::shared_address(dynamic_shared_memory) +
               (filter + T::first_filter(lane)) * pitch_ + lane % 4 * kLaneChannels * T::kBytes;
  }

  __device__ __forceinline__ void advance() { address_ += kStepChannels * T::kBytes; }

  /// Of a sixteen, the lane's two filters, of all products: halves of the first one, and of the second.
  __device__ __forceinline__ void read(int sixteen, uint32_t (&x)[T::kProducts][4]) const {
    using Channels = fused::Pixels<uint32_t, 2 * T::kProducts>;
#pragma unroll
    for (int row = 0; row < 2; ++row) {
      const auto channels = *static_cast<const Channels*>(ptx::at_shared_address(
          address_ + (sixteen * kProductFilters + row * T::kSecondFilter) * pitch_));
#pragma unroll
      for (int i = 0; i < 2 * T::kProducts; ++i) x[i / 2][i % 2 * 2 + row] = channels.x[i];
    }
  }

 private:
  uint32_t address_;
  int pitch_;
};

}  // namespace im2win::cuda::pointwise_mma
