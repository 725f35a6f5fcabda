// Dense bands of three channels, two neighbouring positions at a time, from words of two neighbouring elements.
#pragma once

#include <cstdint>
#include <type_traits>

#include "cuda/fused/operands.cuh"
#include "cuda/fused/stem/dense_bands.cuh"
#include "cuda/ptx.cuh"

namespace im2win::cuda::fused::stem {

/// By a warpgroup, where all rows begin at a word and are whole ones of them (see has_pairs). A thread has the windows of
/// two positions of a row of outputs, which are `kStep` columns apart; the first begins amid a word if `kOdd`. They share
/// elements, which are loaded, and split, once: a third to a half of the loads that DenseStaging has.
template <class T, int kStep, bool kOdd>
class PairStaging {
 public:
  using Element = typename T::Element;

  __device__ __forceinline__ PairStaging(const Arguments<Element>& a, Block<T> block, int warpgroup)
      : a_(a), bands_(a, block, warpgroup) {}

  __device__ __forceinline__ void run() {
    bands_.for_each([&] {
      Words<Word> words;
      load(words);
      if constexpr (kSplit) {
        stage_split(words);
      } else {
        bands_.ring().wait_empty();
        put(words, bands_.place(position()));
      }
      bands_.ring().hand_over();
    });
  }

 private:
  static constexpr bool kSplit = T::kOperands == Operands::kSplit;
  static constexpr int kTaps = kDenseTaps * kDenseTaps;
  static constexpr int kPositions = 2, kUnits = 2 * kDenseSteps, kUnitPairs = 4;
  static constexpr int kWords = (kOdd + kStep + kDenseTaps + 1) / 2;  // of a row

  using Word = std::conditional_t<kSplit, float2, uint32_t>;
  template <class Each>
  using Words = Each[kDenseChannels][kDenseTaps][kWords];

  /// The first of the thread's.
  __device__ __forceinline__ static int position() { return BandRing<T>::thread() * kPositions; }

  __device__ __forceinline__ void load(Words<Word>& words) const {
    const auto [y, x, exists] = bands_.window(position());
    const int column = x - kOdd;
    const auto* const first = bands_.origin(y, column);
#pragma unroll
    for (int r = 0; r < kDenseTaps; ++r) {
      const bool is_inside = exists && is_below(y + r, a_.h);
#pragma unroll
      for (int c = 0; c < kDenseChannels; ++c) {
        const auto* const row =
            reinterpret_cast<const Word*>(first + c * a_.stride_c + int64_t{r} * a_.row_stride);
#pragma unroll
        for (int i = 0; i < kWords; ++i)
          words[c][r][i] = ptx::load_if(is_inside && is_below(column + 2 * i, a_.w), row + i);
      }
    }
  }

  __device__ __forceinline__ void stage_split(const Words<float2>& words) {
    BandRing<T>& ring = bands_.ring();
    Magnitudes magnitudes;
    for_words([&](int c, int r, int i) { magnitudes.add(words[c][r][i].x, words[c][r][i].y); });
    const Scale scale = ring.find_scale(magnitudes);
    Words<uint32_t> high, low;
    for_words([&](int c, int r, int i) {
      const float2 word = words[c][r][i];
      split(word.x, word.y, scale.factor, high[c][r][i], low[c][r][i]);
    });
    ring.wait_empty();
    put(high, bands_.place(position()));
    put(low, bands_.place(position()) + a_.bands.part_bytes / kUnitBytes);
    ring.tell_scale(scale);
  }

  template <class Use>
  __device__ __forceinline__ static void for_words(const Use& use) {
#pragma unroll
    for (int c = 0; c < kDenseChannels; ++c)
#pragma unroll
      for (int r = 0; r < kDenseTaps; ++r)
#pragma unroll
        for (int i = 0; i < kWords; ++i) use(c, r, i);
  }

  /// Units of words of two 16-bit elements.
  __device__ __forceinline__ void put(const Words<uint32_t>& words, uint4* to) const {
    if (position() >= a_.bands.positions) return;
#pragma unroll
    for (int unit = 0; unit < kUnits; ++unit)
#pragma unroll
      for (int i = 0; i < kPositions; ++i) {
        const int first = unit * kUnitPairs;
        to[unit * a_.bands.positions + i] =
            make_uint4(pair(words, i, first), pair(words, i, first + 1), pair(words, i, first + 2),
                       pair(words, i, first + 3));
      }
  }

  /// Two elements of a position's window that follow each other in the order of a dense filter; zeros behind the last.
  __device__ __forceinline__ static uint32_t pair(const Words<uint32_t>& words, int position,
                                                  int number) {
    const Place low(position, 2 * number), high(position, 2 * number + 1);
    return __byte_perm(low.of(words), high.of(words), low.bytes() | (high.bytes() + 0x44) << 8);
  }

  /// Of an element: its word, and which half of it.
  struct Place {
    int c, r, column;

    __device__ __forceinline__ constexpr Place(int position, int element)
        : c(element / kTaps),
          r(element % kTaps / kDenseTaps),
          column(kOdd + position * kStep + element % kDenseTaps) {}
    __device__ __forceinline__ uint32_t of(const Words<uint32_t>& words) const {
      return c < kDenseChannels ? words[c][r][column / 2] : 0;
    }
    /// Which two of its bytes, as selectors.
    __device__ __forceinline__ constexpr int bytes() const { return column % 2 == 0 ? 0x10 : 0x32; }
  };

  const Arguments<Element>& a_;
  DenseBands<T> bands_;
};

}  // namespace im2win::cuda::fused::stem
