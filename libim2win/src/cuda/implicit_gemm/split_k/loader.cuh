// Operands of a tile, from memory to shared memory, stage by stage. Neighbouring threads take neighbours in memory.
#pragma once

#include <cstdint>

#include "cuda/implicit_gemm/split_k/arguments.cuh"
#include "cuda/implicit_gemm/split_k/places.cuh"
#include "cuda/implicit_gemm/split_k/ptx.cuh"
#include "cuda/ptx.cuh"

namespace im2win::cuda::implicit_gemm::split_k {

/// A thread's part of an operand of rows of elements, of which it copies so many at a time: a column.
template <int kRows_, int kElements, int kCopy>
struct Column {
  static constexpr int kRows = kRows_, kAcross = kElements / kCopy;
  static constexpr int kStep = kThreads / kAcross;  // from a row to the thread's next
  static constexpr int kCount = kRows / kStep;

  __device__ __forceinline__ static int element() { return thread() % kAcross * kCopy; }
  __device__ __forceinline__ static int row(int i) { return thread() / kAcross + i * kStep; }

 private:
  __device__ __forceinline__ static int thread() { return static_cast<int>(threadIdx.x); }
};

/// What an element or a word of an operand is.
template <class Element>
struct Source {
  const Element* from;
  bool is_there;  // or it is zero
};

/// Brings an operand's stages to their places, kCopy elements at a time, by asynchronous copies; elements of 16 bits,
/// which are too short for these, by way of registers, where they wait while others are multiplied.
template <class Element, int kRows, int kElements, int kCopy>
class OperandCopy {
 public:
  using Own = Column<kRows, kElements, kCopy>;

  /// Of the thread's column, of `rows` rows at least, each from source(i, row).
  template <int kPitch, class SourceOf>
  __device__ __forceinline__ void ask(Element (&to)[kRows][kPitch], int rows,
                                      const SourceOf& source) {
#pragma unroll
    for (int i = 0; i < Own::kCount; i += kAtOnce) {
      if (i * Own::kStep >= rows) break;
#pragma unroll
      for (int j = i; j < i + kAtOnce; ++j) {
        const Source<Element> x = source(j, Own::row(j));
        if constexpr (kBytes < 4)
          elements_[j] = load_if(x.is_there, x.from);
        else
          ptx::copy_async_if<kBytes>(x.is_there,
                                     ptx::shared_address(&to[Own::row(j)][Own::element()]), x.from);
      }
    }
  }

  /// What waits in registers, of as many rows.
  template <int kPitch>
  __device__ __forceinline__ void settle(Element (&to)[kRows][kPitch], int rows) const {
    if constexpr (kBytes < 4) {
#pragma unroll
      for (int i = 0; i < Own::kCount; i += kAtOnce) {
        if (i * Own::kStep >= rows) break;
#pragma unroll
        for (int j = i; j < i + kAtOnce; ++j)
          reinterpret_cast<uint16_t&>(to[Own::row(j)][Own::element()]) = elements_[j];
      }
    }
  }

 private:
  static constexpr int kBytes = kCopy * sizeof(Element);
  /// So many at a time, as short windows need few.
  static constexpr int kAtOnce = Own::kCount < 4 ? Own::kCount : 4;

  uint16_t elements_[Own::kCount] = {};
};

/// Brings both operands, by copies of so many elements.
template <class T, int kWindowCopy, int kFilterCopy>
class Loader {
  using Element = typename T::Element;
  using Filters = OperandCopy<Element, T::kEdge, T::kTaps, kFilterCopy>;
  using Windows = OperandCopy<Element, T::kChannelsLast ? T::kEdge : T::kTaps,
                              T::kChannelsLast ? T::kTaps : T::kEdge, kWindowCopy>;

 public:
  /// Whether windows come by places of taps in a table. Where channels are last all of a thread's windows are at one tap, its
  /// own, and words of pixels are of windows of one tap a channel.
  static constexpr bool kHasTable = !T::kChannelsLast && kWindowCopy == 1;

  /// When pixels are tabulated. `walk`: the thread's own tap of the first stage.
  __device__ __forceinline__ Loader(const Arguments<Element>& a, const Place& place,
                                    Shared<T>& shared, TapWalk<T>& walk)
      : a_(a),
        shared_(shared),
        walk_(walk),
        input_(a.exact.input + place.group * a.channels.divisor * a.exact.input_stride[1]),
        filter_(ptx::fresh(a.exact.filter +
                           (place.group * a.filters + place.first_filter + Filters::Own::row(0)) *
                               a.exact.filter_stride[0])),
        filters_left_(static_cast<int>(min(a.filters - place.first_filter, int64_t{T::kEdge})) -
                      Filters::Own::row(0)) {
#pragma unroll
    for (int i = 0; i < kKept; ++i) {
      pixels_[i] = shared.pixels[T::kChannelsLast ? Windows::Own::row(i) : Windows::Own::element()];
      windows_from_[i] = ptx::fresh(input_ + pixels_[i].window);
    }
  }

  /// Asks for a stage, one after the other. `used`: how many of its taps are wanted. Those past the last are zero in both
  /// operands, as 0 * NaN would not be 0.
  __device__ __forceinline__ void ask(int stage, int used) {
    ask_for_filters(stage, used);
    ask_for_windows(stage, used);
    if constexpr (T::kChannelsLast) walk_.advance();
  }

  /// Before the next is asked for: what came to registers is put in its place.
  __device__ __forceinline__ void settle(int stage, int used) const {
    filters_.settle(shared_.operands.filters[stage % T::kStages], rows_of<Filters>(used));
    windows_.settle(shared_.operands.windows[stage % T::kStages],
                    T::kChannelsLast ? rows_of<Windows>(used) : used);
  }

 private:
  /// Pixels that a thread keeps in registers: those of its words, or its one where pixels are columns.
  static constexpr int kKept = T::kChannelsLast && kWindowCopy > 1 ? Windows::Own::kCount : 1;

  /// Of an operand whose columns are taps: all, if the thread's are wanted.
  template <class Operand>
  __device__ __forceinline__ static int rows_of(int used) {
    return Operand::Own::element() < used ? T::kEdge : 0;
  }

  __device__ __forceinline__ const TapPlace* table(int stage) const {
    return shared_.taps[stage % T::kTables];
  }

  __device__ __forceinline__ void ask_for_filters(int stage, int used) {
    using Own = typename Filters::Own;
    const int tap = stage * T::kTaps + Own::element();
    const int left = tap < a_.taps ? filters_left_ : 0;
    const Element* const from = filter_ + filter_offset(stage, tap);
    const int64_t step = Own::kStep * a_.exact.filter_stride[0];
    filters_.ask(
        shared_.operands.filters[stage % T::kStages], rows_of<Filters>(used),
        [&](int i, int) -> Source<Element> { return {from + i * step, i * Own::kStep < left}; });
  }

  /// Of the thread's tap, of that number. Words are of filters whose taps follow each other.
  __device__ __forceinline__ int filter_offset(int stage, int tap) const {
    if constexpr (kFilterCopy > 1) {
      return tap;
    } else if constexpr (kHasTable) {
      return table(stage)[Filters::Own::element()].filter;
    } else {
      static_assert(kWindowCopy == 1);  // so that it is the thread's tap of windows, too
      return walk_.place().filter;
    }
  }

  __device__ __forceinline__ void ask_for_windows(int stage, int used) {
    auto& windows = shared_.operands.windows[stage % T::kStages];
    if constexpr (T::kChannelsLast) {
      const TapPlace by = walk_.place();
      windows_.ask(windows, rows_of<Windows>(used), [&](int i, int row) -> Source<Element> {
        if constexpr (kWindowCopy > 1)
          return {windows_from_[i] + by.window, is_inside(a_.h, a_.w, pixels_[i], by)};
        const PixelPlace at = loaded(shared_.pixels[row]);
        return {input_ + by.window + at.window, is_inside(a_.h, a_.w, at, by)};
      });
    } else if constexpr (kHasTable) {
      windows_.ask(windows, used, [&](int, int row) -> Source<Element> {
        const TapPlace by = loaded(table(stage)[row]);
        return {windows_from_[0] + by.window, is_inside(a_.h, a_.w, pixels_[0], by)};
      });
    } else {
      using Own = typename Windows::Own;
      const int tap = stage * T::kTaps + Own::row(0);
      const int left = is_inside(a_.h, a_.w, pixels_[0], {}) ? a_.taps - tap : 0;
      const int64_t channel = a_.exact.input_stride[1], step = Own::kStep * channel;
      const Element* const from = windows_from_[0] + tap * channel;
      windows_.ask(windows, used, [&](int i, int) -> Source<Element> {
        return {from + i * step, i * Own::kStep < left};
      });
    }
  }

  const Arguments<Element>& a_;
  Shared<T>& shared_;
  TapWalk<T>& walk_;
  const Element* input_;
  const Element* filter_;  // the thread's first
  int filters_left_;       // from it on
  PixelPlace pixels_[kKept];
  const Element* windows_from_[kKept];  // of those
  Filters filters_;
  Windows windows_;
};

}  // namespace im2win::cuda::implicit_gemm::split_k
