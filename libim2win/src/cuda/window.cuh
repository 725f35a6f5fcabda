// Windows: which of their taps lie in the image, and their product with a filter.
#pragma once

#include <cstdint>

#include "cuda/divisor.hpp"
#include "problem.hpp"

namespace im2win::cuda {

/// The taps [begin, end) of a window along one axis; empty where end <= begin.
struct TapRange {
  int64_t begin, end;
};

/// How windows move along the height or the width of the input. Plain data.
struct Axis {
  int64_t size;     // of the input
  int64_t taps;     // of the filter
  int64_t stride;   // between windows
  int64_t padding;  // before the input
  Divisor dilation;

  static Axis vertical(const Problem& problem) {
    return {problem.h, problem.r, problem.stride_h, problem.padding_top,
            Divisor(problem.dilation_h)};
  }
  static Axis horizontal(const Problem& problem) {
    return {problem.w, problem.s, problem.stride_w, problem.padding_left,
            Divisor(problem.dilation_w)};
  }

  /// The input position of tap 0; outside the input in the padding.
  __device__ __forceinline__ int64_t start(int64_t window) const {
    return window * stride - padding;
  }

  /// The taps that lie inside the input.
  __device__ __forceinline__ TapRange inside(int64_t window) const {
    const int64_t first = start(window);
    const int64_t end = taps_before(size - first);
    return {taps_before(-first), end < taps ? end : taps};
  }

 private:
  /// How many taps lie before `distance`, counted from tap 0 on.
  __device__ __forceinline__ int64_t taps_before(int64_t distance) const {
    return distance <= 0 ? 0 : dilation.quotient(distance - 1) + 1;
  }
};

/// Where the windows lie in the im2win tensor T[n, c, p, x * R + r]: element strides. A step that
/// is never taken is 0, as it may be of any size. Plain data.
struct WindowLayout {
  int64_t image, channel, row;
  int64_t window;  // between the windows of neighbouring outputs
  int64_t column;  // between the columns of one window

  explicit WindowLayout(const Problem& problem)
      : image(problem.c * problem.p * problem.padded_w() * problem.r),
        channel(problem.p * problem.padded_w() * problem.r),
        row(problem.padded_w() * problem.r),
        window(problem.q > 1 ? problem.stride_w * problem.r : 0),
        column(problem.s > 1 ? problem.dilation_w * problem.r : 0) {}

  __device__ __forceinline__ int64_t offset(int64_t n, int64_t p, int64_t q) const {
    return n * image + p * row + q * window;
  }
};

/// The dot product of a window of the im2win tensor with a filter, over the taps inside the image
/// only. Plain data.
struct WindowProduct {
  Axis vertical, horizontal;
  WindowLayout layout;
  int64_t channels;                      // of one group
  int64_t filter_c, filter_r, filter_s;  // the filter's strides

  /// `window` is where that of output [p, q] starts. The order of summation is that of T.
  __device__ __forceinline__ float operator()(const float* window, const float* filter, int64_t p,
                                              int64_t q) const {
    const TapRange rows = vertical.inside(p);
    const TapRange columns = horizontal.inside(q);
    float sum = 0;
    for (int64_t c = 0; c < channels; ++c) {
      for (int64_t s = columns.begin; s < columns.end; ++s) {
        const float* x = window + c * layout.channel + s * layout.column;
        const float* f = filter + c * filter_c + s * filter_s;
        for (int64_t r = rows.begin; r < rows.end; ++r) sum = fmaf(f[r * filter_r], x[r], sum);
      }
    }
    return sum;
  }
};

}  // namespace im2win::cuda
