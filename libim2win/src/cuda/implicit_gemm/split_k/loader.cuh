// Operands of a tile, from memory to shared memory, stage by stage. Neighbouring threads take neighbours in memory.
#pragma once

#include <cuda_pipeline.h>

#include <cstdint>

#include "cuda/implicit_gemm/split_k/arguments.cuh"
#include "cuda/implicit_gemm/split_k/ptx.cuh"

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

  /// Of the thread's column, of `rows` rows at least, each from source(i, row). `anywhere` is what may be read.
  template <int kPitch, class SourceOf>
  __device__ __forceinline__ void ask(Element (&to)[kRows][kPitch], int rows,
                                      const Element* anywhere, const SourceOf& source) {
#pragma unroll
    for (int i = 0; i < Own::kCount; i += kAtOnce) {
      if (i * Own::kStep >= rows) break;
#pragma unroll
      for (int j = i; j < i + kAtOnce; ++j) {
        const Source<Element> x = source(j, Own::row(j));
        if constexpr (kBytes < 4)
          elements_[j] = load_if(x.is_there, x.from);
        else
          __pipeline_memcpy_async(&to[Own::row(j)][Own::element()], x.is_there ? x.from : anywhere,
                                  kBytes, x.is_there ? 0 : kBytes);
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
  /// When places are tabulated.
  __device__ __forceinline__ Loader(const Arguments<Element>& a, const Place& place,
                                    Shared<T>& shared)
      : a_(a),
        shared_(shared),
        input_(a.exact.input + place.group * a.channels.divisor * a.exact.input_stride[1]),
        filter_(a.exact.filter +
                (place.group * a.filters + place.first_filter + Filters::Own::row(0)) *
                    a.exact.filter_stride[0]),
        filters_left_(static_cast<int>(min(a.filters - place.first_filter, int64_t{T::kEdge})) -
                      Filters::Own::row(0)) {
#pragma unroll
    for (int i = 0; i < kKept; ++i)
      pixels_[i] = shared.pixels[T::kChannelsLast ? Windows::Own::row(i) : Windows::Own::element()];
  }

  /// Asks for a stage. `used`: how many of its taps are wanted. Those past the last are zero in both operands, as
  /// 0 * NaN would not be 0.
  __device__ __forceinline__ void ask(int stage, int used) {
    ask_for_filters(stage, used);
    ask_for_windows(stage, used);
  }

  /// After it, of the same stage: what came to registers is put in its place.
  __device__ __forceinline__ void settle(int stage, int used) const {
    filters_.settle(shared_.operands.filters[stage % kStages], rows_of<Filters>(used));
    windows_.settle(shared_.operands.windows[stage % kStages],
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

  __device__ __forceinline__ void ask_for_filters(int stage, int used) {
    using Own = typename Filters::Own;
    const int tap = stage * T::kTaps + Own::element();
    const Element* from = filter_;
    if constexpr (kFilterCopy == 1)
      from += shared_.taps[stage % kTables][Own::element()].filter;
    else
      from += tap;
    const int left = tap < a_.taps ? filters_left_ : 0;
    const int64_t step = Own::kStep * a_.exact.filter_stride[0];
    filters_.ask(
        shared_.operands.filters[stage % kStages], rows_of<Filters>(used), a_.exact.input,
        [&](int i, int) -> Source<Element> { return {from + i * step, i * Own::kStep < left}; });
  }

  __device__ __forceinline__ void ask_for_windows(int stage, int used) {
    auto& windows = shared_.operands.windows[stage % kStages];
    const TapPlace* const taps = shared_.taps[stage % kTables];
    if constexpr (T::kChannelsLast) {
      const TapPlace by = loaded(taps[Windows::Own::element()]);
      const Element* const from = input_ + by.window;
      windows_.ask(windows, rows_of<Windows>(used), a_.exact.input,
                   [&](int i, int row) -> Source<Element> {
                     const PixelPlace at =
                         kWindowCopy == 1 ? loaded(shared_.pixels[row]) : pixels_[i % kKept];
                     return {from + at.window, is_inside(a_.h, a_.w, at, by)};
                   });
    } else {
      const Element* const from = input_ + pixels_[0].window;
      windows_.ask(windows, used, a_.exact.input, [&](int, int row) -> Source<Element> {
        const TapPlace by = loaded(taps[row]);
        return {from + by.window, is_inside(a_.h, a_.w, pixels_[0], by)};
      });
    }
  }

  const Arguments<Element>& a_;
  Shared<T>& shared_;
  const Element* input_;
  const Element* filter_;  // the thread's first
  int filters_left_;       // from it on
  PixelPlace pixels_[kKept];
  Filters filters_;
  Windows windows_;
};

}  // namespace im2win::cuda::implicit_gemm::split_k
