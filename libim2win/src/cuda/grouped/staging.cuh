// From memory to shared memory: pixels and filters, by asynchronous copies where they are words, biases, and where taps
// are.
#pragma once

#include <cstdint>

#include "cuda/grouped/arguments.cuh"
#include "cuda/grouped/sums.cuh"
#include "cuda/ptx.cuh"

namespace im2win::cuda::grouped {

/// Past the last tap, any word of the window does: the filter's is zero.
template <class Element>
__device__ __forceinline__ void tabulate_offsets(const Arguments<Element>& a) {
#pragma unroll 1
  for (int word = threadIdx.x; word < 2 * (a.layout.steps + 1); word += kThreads) {
    const auto [tap, word_of_set] = a.set_words.divide(word);
    const auto [r, s] = a.taps_across.divide(tap);
    const auto [number, phase] = a.phases.divide(s * a.dilation_w);
    const int column = phase * a.layout.phase_columns + number;
    word_offsets()[word] = tap < a.tap_count
                               ? r * a.dilation_h * a.layout.row_pitch() +
                                     column * a.layout.pixel_pitch + word_of_set * kWordBytes
                               : 0;
  }
}

template <class Element>
__device__ __forceinline__ void load_biases(const Arguments<Element>& a, const Slab& slab) {
  const int64_t filter = slab.filter + threadIdx.x;
  if (threadIdx.x < kMostSlab)
    shared().biases[threadIdx.x] = filter < a.filters ? a.exact.outputs.bias(filter) : 0;
}

/// Of the pixels under a box: where they begin, perhaps outside the image, and the slab's first channel of the image.
template <class Element>
struct Corner {
  int y, x;
  const Element* image;

  __device__ __forceinline__ Corner(const Arguments<Element>& a, const Slab& slab,
                                    const OutputPlace& at)
      : y(at.p * a.stride_h - a.padding_top),
        x(at.q * a.stride_w - a.padding_left),
        image(a.exact.input + at.n * a.exact.input_stride[0] +
              slab.channel * a.exact.input_stride[1]) {}
};

/// Asks for the pixels under a box; what is outside the image is zero, as are channels after the last. A thread goes
/// down a column, of a word.
template <class Element>
__device__ __forceinline__ void ask_for_box(const Arguments<Element>& a, const Slab& slab,
                                            const OutputPlace& at, char* box) {
  const int64_t(&stride)[4] = a.exact.input_stride;
  const Corner corner(a, slab, at);
  const int words = a.layout.columns * static_cast<int>(a.slab_words.divisor);
#pragma unroll 1
  for (int i = threadIdx.x; i < words; i += kThreads) {
    const auto [column, word] = a.slab_words.divide(i);
    const auto [phase, number] = a.phase_columns.divide(column);
    const int x = corner.x + number * a.stride_w + phase;
    const bool is_column = unsigned(x) < unsigned(a.w) && slab.channel + word * kWord < a.channels;
    const int h = is_column ? a.h : 0;
    const Element* from = corner.image + corner.y * stride[2] + x * stride[3] + word * kWord;
    uint32_t to = ptx::shared_address(box + column * a.layout.pixel_pitch + word * kWordBytes);
#pragma unroll 4
    for (int y = corner.y; y < corner.y + a.layout.rows; ++y) {
      ptx::copy_async_if<kWordBytes>(unsigned(y) < unsigned(h), to, from);
      from += stride[2];
      to += a.layout.row_pitch();
    }
  }
}

/// Loads them element by element, and puts the words together: of planes, of which lanes have neighbouring pixels.
template <class Element>
__device__ __forceinline__ void load_box(const Arguments<Element>& a, const Slab& slab,
                                         const OutputPlace& at, char* box) {
  const int64_t(&stride)[4] = a.exact.input_stride;
  const Corner corner(a, slab, at);
  const auto* const image = reinterpret_cast<const uint16_t*>(corner.image);
  const int words = a.layout.rows * a.layout.columns * static_cast<int>(a.slab_words.divisor);
#pragma unroll 2
  for (int i = threadIdx.x; i < words; i += kThreads) {
    const auto [line, column] = a.columns.divide(i);
    const auto [word, row] = a.rows.divide(line);
    const auto [phase, number] = a.phase_columns.divide(column);
    const int y = corner.y + row, x = corner.x + number * a.stride_w + phase;
    const int channel = word * kWord;
    const bool is_inside = unsigned(y) < unsigned(a.h) && unsigned(x) < unsigned(a.w);
    const int channels =
        is_inside ? static_cast<int>(min(a.channels - slab.channel - channel, int64_t{kWord})) : 0;
    const uint16_t* from = image + channel * stride[1] + y * stride[2] + x * stride[3];
    alignas(kWordBytes) uint16_t elements[kWord];
#pragma unroll
    for (int c = 0; c < kWord; ++c, from += stride[1])
      elements[c] = ptx::load_if(c < channels, from);
    *reinterpret_cast<uint4*>(box + row * a.layout.row_pitch() + column * a.layout.pixel_pitch +
                              word * kWordBytes) = *reinterpret_cast<const uint4*>(elements);
  }
}

template <class Element>
__device__ __forceinline__ void stage_box(const Arguments<Element>& a, const Slab& slab,
                                          const OutputPlace& at, char* box) {
  if (a.has_input_words) return ask_for_box(a, slab, at, box);
  load_box(a, slab, at, box);
}

/// A part of a filter, of kCopy channels of a tap.
template <int kCopy>
struct FilterPart {
  static constexpr int kParts = kWord / kCopy, kBytes = 2 * kCopy;

  int64_t from;  // elements, from the filter's first one on
  int to;        // bytes
  int group;     // of the set
  bool is_tap;   // or it is after the last one

  template <class Element>
  __device__ __forceinline__ FilterPart(const Arguments<Element>& a, int number) {
    const int64_t(&stride)[4] = a.exact.filter_stride;
    const int word = number / kParts, part = number % kParts;
    const auto [row, word_of_row] = a.row_words.divide(word);
    const auto [tap, word_of_set] = a.set_words.divide(word_of_row);
    const auto [r, s] = a.taps_across.divide(row * a.tap_count + tap);
    const auto [group_of_set, c] = a.group_channels.divide(word_of_set * kWord + part * kCopy);
    from = c * stride[1] + r * stride[2] + s * stride[3];
    to = word * kWordBytes + part * kBytes;
    group = group_of_set;
    is_tap = tap < a.tap_count;
  }

  /// Zero are channels of other groups of a set.
  template <class Element>
  __device__ __forceinline__ bool is_of(const Arguments<Element>& a, const Slab& slab,
                                        int filter) const {
    const bool is_own = a.set.groups == 1 || a.exact.k_per_group.quotient(
                                                 a.set_filters.divide(filter).remainder) == group;
    return is_tap && is_own && slab.filter + filter < a.filters;
  }
};

template <class Element>
__device__ __forceinline__ char* filter_at(const Arguments<Element>& a, int filter) {
  return dynamic_shared_memory + a.layout.filters_begin + filter * a.layout.filter_pitch;
}

/// Asks for the slab's filters. A thread has the same part of several.
template <int kCopy, class Element>
__device__ __forceinline__ void ask_for_filters(const Arguments<Element>& a, const Slab& slab) {
  using Part = FilterPart<kCopy>;
  const Divisor& parts = kCopy == kWord ? a.filter_words : a.filter_half_words;
  const int at_once = max(kThreads / static_cast<int>(parts.divisor), 1);
  const int64_t step = at_once * a.exact.filter_stride[0];
#pragma unroll 1
  for (int i = threadIdx.x; i < at_once * static_cast<int>(parts.divisor); i += kThreads) {
    const auto [first, number] = parts.divide(i);
    const Part part(a, number);
    const Element* from =
        a.exact.filter + (slab.filter + first) * a.exact.filter_stride[0] + part.from;
    uint32_t to = ptx::shared_address(filter_at(a, first) + part.to);
#pragma unroll 2
    for (int filter = first; filter < a.tile.sets * a.set.filters; filter += at_once) {
      ptx::copy_async_if<Part::kBytes>(part.is_of(a, slab, filter), to, from);
      from += step;
      to += at_once * a.layout.filter_pitch;
    }
  }
}

/// Single elements are too short for asynchronous copies: of a part, those of as many filters as a warp has are on their
/// way to registers at a time. A set's filters have their own group's channels, and zeros of others.
template <class T>
__device__ __forceinline__ void load_filters(const Arguments<typename T::Element>& a,
                                             const Slab& slab) {
  constexpr int kSetFilters = T::kFilters / T::kSets;
  using Part = FilterPart<1>;
  const int64_t step = a.exact.filter_stride[0];
#pragma unroll 1
  for (int i = threadIdx.x; i < static_cast<int>(a.filter_words.divisor) * Part::kParts;
       i += kThreads) {
    const Part part(a, i);
    const int own_count = static_cast<int>(a.exact.k_per_group.divisor);
    const int own_first = part.group * own_count;
    const auto* from =
        reinterpret_cast<const uint16_t*>(a.exact.filter) + slab.filter * step + part.from;
    char* to = filter_at(a, 0) + part.to;
    int64_t left = part.is_tap ? a.filters - slab.filter : 0;
#pragma unroll 1
    for (int sets = 0; sets < a.tile.sets; sets += T::kSets, left -= T::kFilters) {
      uint16_t elements[T::kFilters];
#pragma unroll
      for (int f = 0; f < T::kFilters; ++f, from += step) {
        const bool is_own = unsigned(f % kSetFilters - own_first) < unsigned(own_count);
        elements[f] = ptx::load_if(is_own && f < left, from);
      }
#pragma unroll
      for (int f = 0; f < T::kFilters; ++f, to += a.layout.filter_pitch)
        *reinterpret_cast<uint16_t*>(to) = elements[f];
    }
  }
}

template <class T>
__device__ __forceinline__ void stage_filters(const Arguments<typename T::Element>& a,
                                              const Slab& slab) {
  switch (a.copy) {
    case kWord: return ask_for_filters<kWord>(a, slab);
    case kWord / 2: return ask_for_filters<kWord / 2>(a, slab);
    default: return load_filters<T>(a, slab);
  }
}

}  // namespace im2win::cuda::grouped
