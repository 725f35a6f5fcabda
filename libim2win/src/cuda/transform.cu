// T[n, c, p, x * R + r] = input[n, c, p * stride_h + r * dilation_h - top, x - left], 0 outside.
//
// Bound by memory: T is written once in 16-byte words, coalesced, and is R / stride_h times the
// input, whose rows come out of the caches but for the first time. Neighbouring threads write
// neighbouring words, so a warp reads R row segments that are contiguous each. A thread divides
// once to find its first element, and counts on from there.

#include <cstdint>
#include <cstdlib>
#include <iterator>

#include "cuda/divisor.hpp"
#include "cuda/launch.cuh"
#include "cuda/transform.hpp"

namespace im2win::cuda {
namespace {

constexpr int kThreads = 256;
constexpr int kStoreBytes = 16;

struct TransformArguments {
  Divisor row;  // elements of a row of T, padded_w * R
  Divisor r, p, c;
  int64_t h, w;
  int64_t stride_h, dilation_h;
  int64_t padding_top, padding_left;
  int64_t input_stride[4];
  int64_t elements;
  bool aligned;  // whether T may be written in 16-byte words

  TransformArguments(const Problem& problem, const void* output)
      : row(problem.padded_w() * problem.r),
        r(problem.r),
        p(problem.p),
        c(problem.c),
        h(problem.h),
        w(problem.w),
        stride_h(problem.p > 1 ? problem.stride_h : 0),  // a step never taken may be of any size
        dilation_h(problem.r > 1 ? problem.dilation_h : 0),
        padding_top(problem.padding_top),
        padding_left(problem.padding_left),
        elements(transform_bytes(problem) / element_bytes(problem.dtype)),
        aligned(reinterpret_cast<uintptr_t>(output) % kStoreBytes == 0) {
    std::copy(std::begin(problem.input.stride), std::end(problem.input.stride), input_stride);
  }
};

/// An element of T, and where in the input it comes from. Index is 32 bits wide where that holds
/// every element of T and every position and offset in an image's channel.
template <class Word, class Index>
class Position {
 public:
  __device__ __forceinline__ Position(const TransformArguments& a, const Word* input, Index element)
      : a_(a) {
    const auto [row, in_row] = a.row.divide(element);
    const auto [x, r] = a.r.divide(in_row);
    const auto [plane, p] = a.p.divide(row);
    const auto [n, c] = a.c.divide(plane);
    r_ = r;
    p_ = p;
    c_ = c;
    y_ = p * Index(a.stride_h) + r * Index(a.dilation_h) - Index(a.padding_top);
    x_ = x - Index(a.padding_left);
    columns_left_ = Index(a.row.divisor) - in_row;
    channel_ = input + n * a.input_stride[0] + c * a.input_stride[1];
  }

  __device__ __forceinline__ Word load() const {
    const bool inside = y_ >= 0 && y_ < Index(a_.h) && x_ >= 0 && x_ < Index(a_.w);
    return inside ? channel_[y_ * Index(a_.input_stride[2]) + x_ * Index(a_.input_stride[3])]
                  : Word{0};
  }

  __device__ __forceinline__ void advance() {
    y_ += Index(a_.dilation_h);
    if (++r_ == Index(a_.r.divisor)) {
      r_ = 0;
      y_ -= Index(a_.r.divisor) * Index(a_.dilation_h);
      ++x_;
    }
    if (--columns_left_ == 0) next_row();
  }

 private:
  __device__ __forceinline__ void next_row() {
    x_ = -Index(a_.padding_left);
    columns_left_ = Index(a_.row.divisor);
    y_ += Index(a_.stride_h);
    if (++p_ < Index(a_.p.divisor)) return;
    p_ = 0;
    y_ -= Index(a_.p.divisor) * Index(a_.stride_h);
    channel_ += a_.input_stride[1];
    if (++c_ < Index(a_.c.divisor)) return;
    c_ = 0;
    channel_ += a_.input_stride[0] - a_.c.divisor * a_.input_stride[1];
  }

  const TransformArguments& a_;
  const Word* channel_;
  Index r_, p_, c_;
  Index y_, x_;         // in the input
  Index columns_left_;  // elements to the end of T's row, this one included
};

template <class Word>
struct alignas(kStoreBytes) Store {
  Word words[kStoreBytes / sizeof(Word)];
};

template <class Word, class Index>
__global__ void __launch_bounds__(kThreads)
    transform_kernel(const __grid_constant__ TransformArguments a, const Word* __restrict__ input,
                     Word* __restrict__ output) {
  constexpr int kWords = kStoreBytes / sizeof(Word);
  const int64_t first = thread_index() * kWords;
  if (first >= a.elements) return;
  const int64_t left = a.elements - first;

  Position<Word, Index> position(a, input, static_cast<Index>(first));
  Store<Word> store;
#pragma unroll
  for (int i = 0; i < kWords; ++i) {
    store.words[i] = i < left ? position.load() : Word{0};
    position.advance();
  }
  if (a.aligned && left >= kWords) {
    *reinterpret_cast<Store<Word>*>(output + first) = store;
    return;
  }
#pragma unroll
  for (int i = 0; i < kWords; ++i) {
    if (i < left) output[first + i] = store.words[i];
  }
}

/// Whether 32-bit signed indices do, also for the elements past the end that a thread counts on to.
bool fits_32_bits(const Problem& problem, int64_t elements) {
  constexpr int64_t kLimit = (int64_t{1} << 31) - 64;
  const int64_t padded_h = problem.padding_top + problem.h + problem.padding_bottom;
  const int64_t reach = (problem.h - 1) * std::abs(problem.input.stride[2]) +
                        (problem.w - 1) * std::abs(problem.input.stride[3]);
  // Strides and dilations that are taken are below padded_h, so positions stay below 4 of it.
  return elements < kLimit && reach < kLimit && padded_h < kLimit / 4;
}

template <class Word>
void transform_words(const Problem& problem, const void* input, void* output, void* stream) {
  const TransformArguments a(problem, output);
  const bool narrow = fits_32_bits(problem, a.elements);
  constexpr int64_t kPerBlock = kThreads * (kStoreBytes / sizeof(Word));
  launch("transform_kernel",
         narrow ? transform_kernel<Word, int32_t> : transform_kernel<Word, int64_t>,
         (a.elements + kPerBlock - 1) / kPerBlock, kThreads, stream, a,
         static_cast<const Word*>(input), static_cast<Word*>(output));
}

}  // namespace

void transform(const Problem& problem, const void* input, void* output, void* stream) {
  switch (element_bytes(problem.dtype)) {
    case 2: return transform_words<uint16_t>(problem, input, output, stream);
    case 4: return transform_words<uint32_t>(problem, input, output, stream);
    case 8: return transform_words<uint64_t>(problem, input, output, stream);
  }
}

}  // namespace im2win::cuda
