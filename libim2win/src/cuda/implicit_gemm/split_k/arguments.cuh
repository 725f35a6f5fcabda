// What kernels that share taps know of the problem, and what a block has in shared memory.
#pragma once

#include <cstdint>
#include <type_traits>

#include "cuda/implicit_gemm/arguments.cuh"
#include "cuda/implicit_gemm/split_k/tile.hpp"
#include "cuda/places.cuh"

namespace im2win::cuda::implicit_gemm::split_k {

constexpr int kThreads = 256;

/// A tap's number in the order in which the input has them: channel, row and column, or row, column and channel where
/// channels are last.
struct Digits {
  int outer, middle, inner;
};

/// Plain data.
template <class Element>
struct Arguments : implicit_gemm::Arguments<Element> {
  Digits sizes, step;  // from a stage to the next
  Copies copies = Copies::kElements;
  int splits;
  bool is_alone = false;  // each block has a multiprocessor to itself
  /// Of kOutputWord elements: sums with a bias, perhaps bounded from below.
  bool writes_words = false;

  Arguments(const Problem& problem, const Tile& tile)
      : implicit_gemm::Arguments<Element>(problem, tile.edge), splits(tile.splits) {
    const auto c = static_cast<int>(problem.c_per_group()), r = static_cast<int>(problem.r),
               s = static_cast<int>(problem.s);
    sizes = are_channels_last(problem) ? Digits{r, s, c} : Digits{c, r, s};
    const int taps = stage_taps(tile.edge, sizeof(Element)), middles = taps / sizes.inner;
    step = {middles / sizes.middle, middles % sizes.middle, taps % sizes.inner};
    drop_steps_not_taken(problem, this->exact);
  }

  struct Located {
    int n, p, q;
  };
  /// A pixel of a tile. There are fewer than 2^31.
  __device__ __forceinline__ Located locate(const Place& place, int pixel) const {
    const auto [row, column] = this->q.divide(static_cast<int>(place.first_pixel) + pixel);
    const auto [n, p] = this->p.divide(row);
    return {n, p, column};
  }
};

/// A block's tile of kEdge filters by kEdge pixels. Tensor cores multiply 16-bit elements, and float32 rounded to TF32.
template <class Element_, int kEdge_, bool kChannelsLast_, bool kIsTf32_ = false>
struct Shape {
  using Element = Element_;
  static constexpr bool kIsTf32 = kIsTf32_, kHasTensorCores = kIsTf32 || sizeof(Element) == 2;
  static constexpr int kEdge = kEdge_, kTaps = stage_taps(kEdge, sizeof(Element));
  static constexpr bool kChannelsLast = kChannelsLast_;  // of the input
  static constexpr int kStages = kHasTensorCores ? 4 : 3;
  /// Of taps: one more, as a stage's are found while those of the last ones before it are in use.
  static constexpr int kTables = kStages + 1;
  /// Warps of a part of the tile, between which a stage's taps are shared: products by FMAs need a part for each lane
  /// that is worth the loads, and those of tensor cores several that need not wait for one another.
  static constexpr int kTapShares =
      kThreads / 32 / (kHasTensorCores ? kEdge / 16 : kEdge * kEdge / 1024);
  /// A word between rows, of which warps read eight at a time, 16 bytes of each: these are in different banks.
  static constexpr int kPad = 16 / sizeof(Element);
  /// Of rows of pixels. In TF32 single words of four such rows are read at a time, 8 modulo 32 apart.
  static constexpr int kPixelPad = kIsTf32 ? 8 : kPad;

  using Filters = Element[kEdge][kTaps + kPad];
  /// [pixel][tap], or [tap][pixel] where pixels are what is next to each other.
  using Windows = std::conditional_t<kChannelsLast, Element[kEdge][kTaps + kPad],
                                     Element[kTaps][kEdge + kPixelPad]>;
  /// [filter][pixel], or [pixel][filter] where channels are last, of each share. Rows are 8 modulo 32 words apart: see
  /// put() of the sums.
  using Sums = float[kTapShares][kEdge][kEdge + 8];
};

/// What filters and pixels add to the place of an output.
template <class T>
struct OutputPlaces {
  using Outputs = cuda::Outputs<typename T::Element, float>;
  typename Outputs::Filter filters[T::kEdge];
  typename Outputs::Pixel pixels[T::kEdge];
};

template <class T>
struct Operands {
  alignas(16) typename T::Filters filters[T::kStages];
  alignas(16) typename T::Windows windows[T::kStages];
};

template <class T>
struct Shared {
  union {
    Operands<T> operands;
    typename T::Sums sums;  // when all is multiplied
  };
  TapPlace taps[T::kTables][T::kTaps];
  PixelPlace pixels[T::kEdge];
  OutputPlaces<T> outputs;
};

}  // namespace im2win::cuda::implicit_gemm::split_k
