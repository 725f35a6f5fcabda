// From memory to a part's filters in shared memory: see filters.cuh.
#pragma once

#include <cstdint>
#include <cstring>
#include <type_traits>

#include "cuda/pointwise_mma/filters.cuh"
#include "cuda/pointwise_mma/thirds.cuh"

namespace im2win::cuda::pointwise_mma {

/// Words of so many bytes, of which a thread has every so manyth, and some at a time in registers. Rows are the filters of
/// a step, step after step: a thread has the same channels of each of its rows, and the same row of sixteen, as a block has
/// threads for so many times sixteen.
template <class K, int kBytes>
class FilterWords {
 public:
  /// That a thread asks for before it waits for any.
  static constexpr int kAtOnce = 8;
  using Word = std::conditional_t<
      kBytes == kMostWordBytes, uint4,
      std::conditional_t<kBytes == 8, uint2, std::conditional_t<kBytes == 4, uint32_t, uint16_t>>>;

  __device__ __forceinline__ FilterWords(const Arguments<typename K::Element>& a,
                                         int32_t first_filter)
      : a_(a),
        first_filter_(first_filter),
        rows_(a.tile.part_filters() * a.tile.steps),
        rows_at_once_(static_cast<int>(blockDim.x) / kStepWords),
        channel_(ptx::thread_in_block() % kStepWords * kWord) {
    const FilterPlace place = K::place(row() % kProductFilters);
#pragma unroll
    for (int lane = 0; lane < kLanes; ++lane)
      to_[lane] = ptx::shared_address(dynamic_shared_memory) +
                  lane_offset(place.four, channel_ / kLaneChannels + lane) +
                  K::word(place.second, 0) * 4 + offset(kLanes > 1 ? 0 : channel_ % kLaneChannels);
  }

  /// Asks for the thread's first ones.
  __device__ __forceinline__ void ask(Word (&words)[kAtOnce]) const { ask(words, row()); }
  /// Puts them where they belong.
  __device__ __forceinline__ void put(const Word (&words)[kAtOnce], Magnitudes& seen) const {
    put(words, row(), seen);
  }
  /// Of any thread.
  __device__ __forceinline__ bool are_more() const { return rows_ > kAtOnce * rows_at_once_; }
  /// Those after them, or all.
  __device__ __forceinline__ void stage(bool all, Magnitudes& seen) const {
    const int at_once = kAtOnce * rows_at_once_;
#pragma unroll 1
    for (int row = all ? this->row() : this->row() + at_once; row < rows_; row += at_once) {
      Word words[kAtOnce];
      ask(words, row);
      put(words, row, seen);
    }
  }

 private:
  using Element = typename K::Element;
  static constexpr int kWord = kBytes / K::kBytes, kStepWords = kStepChannels / kWord;
  static constexpr int kLanes = kWord > kLaneChannels ? kWord / kLaneChannels : 1;
  static_assert(kLeastThreads / kStepWords % kProductFilters == 0);

  /// The thread's first one.
  __device__ __forceinline__ static int row() { return ptx::thread_in_block() / kStepWords; }

  __device__ __forceinline__ void ask(Word (&words)[kAtOnce], int first) const {
#pragma unroll
    for (int i = 0; i < kAtOnce; ++i) {
      const int row = first + i * rows_at_once_;
      if (row >= rows_) return;
      const auto [step, own] = a_.part_filters.divide(row);
      const int32_t filter = first_filter_ + own, channel = step * kStepChannels + channel_;
      const bool exists = filter < a_.filters && channel < a_.channels;
      const int64_t at = exists ? filter * a_.filter_stride[0] + offset_of<K>(a_, channel) : 0;
      words[i] = ptx::load_if(exists, reinterpret_cast<const Word*>(a_.filter + at));
    }
  }

  __device__ __forceinline__ void put(const Word (&words)[kAtOnce], int first,
                                      Magnitudes& seen) const {
#pragma unroll
    for (int i = 0; i < kAtOnce; ++i) {
      const int row = first + i * rows_at_once_;
      if (row >= rows_) return;
      Element x[kWord];
      memcpy(x, &words[i], sizeof x);
      put(row / kProductFilters * K::kFragments * kFragmentBytes, x, seen);
    }
  }

  /// To fragments so many bytes after the first ones.
  __device__ __forceinline__ void put(uint32_t after, const Element (&x)[kWord],
                                      Magnitudes& seen) const {
    if constexpr (K::kIsTf32)
#pragma unroll
      for (int i = 0; i < kWord; ++i) store(after, i, 0, ptx::round_to_tf32(x[i]));
    else
#pragma unroll
      for (int i = 0; i < kWord; i += 2)
        put_pair(after, i, x[i], kWord > 1 ? x[i + 1] : from_compute<Element>(0.0f), seen);
  }

  __device__ __forceinline__ void put_pair(uint32_t after, int i, Element first, Element second,
                                           Magnitudes& seen) const {
    if constexpr (K::kHasDoubts) seen.add(to_compute<float>(first), to_compute<float>(second));
    if constexpr (K::kHasThirds) {
      uint32_t thirds[3];
      split(first, second, thirds);
#pragma unroll
      for (int third = 0; third < 3; ++third) store(after, i, third, thirds[third]);
    } else {
      const Element pair[2] = {first, second};
      uint32_t bits;
      memcpy(&bits, pair, sizeof bits);
      store(after, i, 0, bits);
    }
  }

  /// Of a lane's channel, to its part of a fragment, from its first channel's.
  __device__ __forceinline__ static constexpr int offset(int channel) {
    return K::kIsTf32 ? channel / 2 * kFragmentBytes + K::word(0, channel % 2) * 4
                      : K::word(0, channel / 2) * 4 + channel % 2 * 2;
  }

  /// What the word's channel i is of a fragment, and the next one's where these are pairs. A single one is half of it.
  __device__ __forceinline__ void store(uint32_t after, int i, int fragment, uint32_t bits) const {
    void* const to = ptx::at_shared_address(after + to_[i / kLaneChannels] +
                                            offset(i % kLaneChannels) + fragment * kFragmentBytes);
    if constexpr (K::kIsTf32 || kWord > 1)
      *static_cast<uint32_t*>(to) = bits;
    else
      *static_cast<uint16_t*>(to) = static_cast<uint16_t>(bits);
  }

  const Arguments<Element>& a_;
  int32_t first_filter_;
  int rows_, rows_at_once_;  // of all threads; of one it has every so manyth
  int channel_;              // of a step, the thread's first
  uint32_t to_[kLanes];      // of the first fragments, each lane's that has its channels
};

/// Out of line, as kernels differ in nothing that it has to do. `all`, or what follows a thread's first words.
template <class K>
__device__ __noinline__ Magnitudes stage_words(const Arguments<typename K::Element>& a,
                                               int32_t first_filter, bool all) {
  Magnitudes seen;
  switch (a.filter_bytes) {
    case 16: FilterWords<K, 16>(a, first_filter).stage(all, seen); break;
    case 8: FilterWords<K, 8>(a, first_filter).stage(all, seen); break;
    case 4: FilterWords<K, 4>(a, first_filter).stage(all, seen); break;
    default:
      if constexpr (K::kBytes == 2) FilterWords<K, 2>(a, first_filter).stage(all, seen);
  }
  return seen;
}

}  // namespace im2win::cuda::pointwise_mma
