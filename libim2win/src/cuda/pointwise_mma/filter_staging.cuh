// From memory to a part's filters in shared memory: see filters.cuh.
#pragma once

#include <cstdint>
#include <cstring>
#include <type_traits>

#include "cuda/pointwise_mma/filters.cuh"
#include "cuda/pointwise_mma/thirds.cuh"

namespace im2win::cuda::pointwise_mma {

/// So many neighbouring channels of a filter, on their way to fragments.
template <class T, int kWord>
class FilterWord {
 public:
  /// To the channel of this number of a step's.
  __device__ __forceinline__ FilterWord(const Arguments<typename T::Element>& a, int step,
                                        int filter, int channel)
      : channel_(channel), place_(T::place(filter % kProductFilters)) {
    const int sixteen = step * (a.tile.part_filters() / kProductFilters) + filter / kProductFilters;
    to_ = ptx::shared_address(dynamic_shared_memory) + sixteen * T::kFragments * kFragmentBytes;
  }

  __device__ __forceinline__ void put(const typename T::Element (&x)[kWord],
                                      Magnitudes& seen) const {
    if constexpr (T::kIsTf32)
#pragma unroll
      for (int i = 0; i < kWord; ++i) store(i, 0, ptx::round_to_tf32(x[i]));
    else
#pragma unroll
      for (int i = 0; i < kWord; i += 2) put_pair(i, x[i], kWord > 1 ? x[i + 1] : zero(), seen);
  }

 private:
  using Element = typename T::Element;
  __device__ __forceinline__ static Element zero() { return from_compute<Element>(0.0f); }

  __device__ __forceinline__ void put_pair(int i, Element first, Element second,
                                           Magnitudes& seen) const {
    if constexpr (T::kHasThirds) {
      seen.add(first, second);
      uint32_t thirds[3];
      split(first, second, thirds);
#pragma unroll
      for (int third = 0; third < 3; ++third) store(i, third, thirds[third]);
    } else {
      const Element pair[2] = {first, second};
      uint32_t bits;
      memcpy(&bits, pair, sizeof bits);
      store(i, 0, bits);
    }
  }

  /// What the word's channel i is of a fragment, and the next one's where these are pairs. A single one is half a word.
  __device__ __forceinline__ void store(int i, int fragment, uint32_t bits) const {
    const int channel = channel_ + i, own = channel % kLaneChannels;
    const int half = T::kIsTf32 ? own % 2 : own / 2;
    const uint32_t to = to_ + (T::kIsTf32 ? own / 2 : fragment) * kFragmentBytes +
                        lane_offset(place_.four, channel / kLaneChannels) +
                        T::word(place_.second, half) * 4;
    if constexpr (T::kIsTf32 || kWord > 1)
      *static_cast<uint32_t*>(ptx::at_shared_address(to)) = bits;
    else
      *static_cast<uint16_t*>(ptx::at_shared_address(to + own % 2 * 2)) =
          static_cast<uint16_t>(bits);
  }

  uint32_t to_;
  int channel_;
  FilterPlace place_;
};

/// Words of so many bytes, of which a thread has every so manyth, and some at a time in registers.
template <class T, int kBytes>
class FilterWords {
 public:
  __device__ __forceinline__ FilterWords(const Arguments<typename T::Element>& a,
                                         int32_t first_filter)
      : a_(a),
        first_filter_(first_filter),
        count_(a.tile.part_filters() * a.tile.steps * kStepWords) {}

  static constexpr int kWord = kBytes / T::kBytes;
  using Word = std::conditional_t<
      kBytes == 16, uint4,
      std::conditional_t<kBytes == 8, uint2, std::conditional_t<kBytes == 4, uint32_t, uint16_t>>>;

  /// Asks for the thread's first ones.
  __device__ __forceinline__ void ask(Word (&words)[kWordsAtOnce]) const {
    ask(words, ptx::thread_in_block());
  }

  /// Puts them where they belong, and then the others.
  __device__ __forceinline__ void put_all(const Word (&first_words)[kWordsAtOnce],
                                          Magnitudes& seen) const {
    put(first_words, ptx::thread_in_block(), seen);
    stage(ptx::thread_in_block() + kWordsAtOnce * T::kThreads, seen);
  }

  /// From one on.
  __device__ __forceinline__ void stage(int first, Magnitudes& seen) const {
#pragma unroll 1
    for (; first < count_; first += kWordsAtOnce * T::kThreads) {
      Word words[kWordsAtOnce];
      ask(words, first);
      put(words, first, seen);
    }
  }

 private:
  using Element = typename T::Element;
  static constexpr int kStepWords = kStepChannels / kWord;

  __device__ __forceinline__ void ask(Word (&words)[kWordsAtOnce], int first) const {
#pragma unroll
    for (int i = 0; i < kWordsAtOnce; ++i) {
      const int word = first + i * T::kThreads;
      if (word >= count_) return;
      const auto [step, own] = a_.part_filters.divide(word / kStepWords);
      const int32_t filter = first_filter_ + own,
                    channel = step * kStepChannels + word % kStepWords * kWord;
      const bool exists = filter < a_.filters && channel < a_.channels;
      const int64_t at = exists ? filter * a_.filter_stride[0] + channel * a_.filter_stride[1] : 0;
      words[i] = ptx::load_if(exists, reinterpret_cast<const Word*>(a_.filter + at));
    }
  }

  __device__ __forceinline__ void put(const Word (&words)[kWordsAtOnce], int first,
                                      Magnitudes& seen) const {
#pragma unroll
    for (int i = 0; i < kWordsAtOnce; ++i) {
      const int word = first + i * T::kThreads;
      if (word >= count_) return;
      const auto [step, own] = a_.part_filters.divide(word / kStepWords);
      Element x[kWord];
      memcpy(x, &words[i], sizeof x);
      FilterWord<T, kWord>(a_, step, own, word % kStepWords * kWord).put(x, seen);
    }
  }

  const Arguments<Element>& a_;
  int32_t first_filter_;
  int count_;
};

/// All of them, of whatever size but the largest.
template <class T>
__device__ __forceinline__ void stage_narrow_words(const Arguments<typename T::Element>& a,
                                                   int32_t first_filter, Magnitudes& seen) {
  const int first = ptx::thread_in_block();
  switch (a.filter_bytes) {
    case 8: return FilterWords<T, 8>(a, first_filter).stage(first, seen);
    case 4: return FilterWords<T, 4>(a, first_filter).stage(first, seen);
    default:
      if constexpr (T::kBytes == 2) FilterWords<T, 2>(a, first_filter).stage(first, seen);
  }
}

}  // namespace im2win::cuda::pointwise_mma
