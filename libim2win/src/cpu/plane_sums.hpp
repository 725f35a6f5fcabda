// What the forms have in common that sum windows of a padded panel along planes: the filters, the sums that must
// not meet the padding, and their way to the output.
#pragma once

#include <cmath>
#include <cstdint>
#include <optional>

#include "cpu/kernels.hpp"
#include "cpu/output.hpp"
#include "cpu/parallel.hpp"
#include "cpu/taps.hpp"

namespace im2win::cpu {

/// Of a packed filter: its weights, in the order channel, row, column, then 1 if all are finite, else 0.
inline int64_t plane_filter_elements(const Problem& problem) {
  return problem.window_elements() + 1;
}

template <class Element, class Compute>
void pack_plane_filters(const Problem& problem, const Element* filters, Compute* packed,
                        int32_t threads) {
  constexpr int64_t kTaskFilters = 64;
  const Problem& d = problem;
  const int64_t* const stride = d.filter.stride;
  parallel_for(ceil_div(d.k, kTaskFilters), threads, [&](int64_t task, int32_t) {
    const int64_t begin = task * kTaskFilters;
    for (int64_t k = begin; k < std::min(begin + kTaskFilters, d.k); ++k) {
      const Element* const filter = filters + k * stride[0];
      Compute* weight = packed + k * plane_filter_elements(d);
      bool is_finite = true;
      for (int64_t c = 0; c < d.c_per_group(); ++c)
        for (int64_t r = 0; r < d.r; ++r)
          for (int64_t s = 0; s < d.s; ++s, ++weight) {
            *weight = static_cast<Compute>(filter[c * stride[1] + r * stride[2] + s * stride[3]]);
            is_finite = is_finite && std::isfinite(*weight);
          }
      *weight = is_finite ? 1 : 0;
    }
  });
}

/// What a kernel does with the window of output (p, q) that begins at `window`, but without the taps that lie on the
/// padding: there the panel holds zeros, and 0 * Inf would be a NaN that the sum has not.
template <class Compute>
Compute sum_plane_inside(const Problem& problem, int64_t p, int64_t q, const Compute* window,
                         const int64_t* offsets, const Compute* weights, Compute bias,
                         const Range<Compute>& range) {
  const Problem& d = problem;
  const TapRange rows = taps_inside(d.h, d.r, d.dilation_h, p * d.stride_h - d.padding_top);
  const TapRange columns = taps_inside(d.w, d.s, d.dilation_w, q * d.stride_w - d.padding_left);
  Compute sum = 0;
  for (int64_t c = 0; c < d.c_per_group(); ++c)
    for (int64_t r = rows.begin; r < rows.end; ++r)
      for (int64_t s = columns.begin; s < columns.end; ++s) {
        const int64_t tap = (c * d.r + r) * d.s + s;
        sum += window[offsets[tap]] * weights[tap];
      }
  return range.bounded(sum + bias);
}

/// Rows [p_begin, p_end) of a plane, from sums whose rows are `pitch` apart. With a range these are finished.
template <class Element, class Compute>
void write_plane_sums(const Problem& problem, const Buffers& buffers,
                      const Kernels<Element>& kernels, const OutputWriter<Element, Compute>& writer,
                      const std::optional<Range<Compute>>& range, int64_t n, int64_t k,
                      int64_t p_begin, int64_t p_end, const Compute* sums, int64_t pitch) {
  const Problem& d = problem;
  if (range) {
    Element* const output =
        static_cast<Element*>(buffers.output) + offset(d.output, n, k, p_begin, 0);
    kernels.store({sums, pitch, 1, output, d.output.stride[2], p_end - p_begin, d.q});
    return;
  }
  for (int64_t p = p_begin; p < p_end; ++p)
    writer.write(n, k, p, 0, sums + (p - p_begin) * pitch, 1, d.q);
}

}  // namespace im2win::cpu
