// What kernels of im2win_fma know of the problem, and the part of it that a block has.
#pragma once

#include <cstdint>

#include "checked.hpp"
#include "cuda/direct.cuh"
#include "cuda/fma_strips/tile.hpp"

namespace im2win::cuda::fma_strips {

/// Plain data.
template <class Element>
struct Arguments {
  DirectArguments<Element, float> exact;
  Tile tile;
  Divisor filter_tiles, column_tiles, row_tiles, groups;
  Divisor phase_pitch, padded_word_group;  // of a row's places
  Divisor window, window_columns, phases;  // of weights
  Divisor columns;                         // of outputs
  int64_t blocks;
  int32_t filters_of_group, channels;  // of a group
  int32_t h, w, p, q;
  int32_t r, stride_h, stride_w, dilation_h;
  int32_t most_taps;                                 // of a row of taps, that a phase has
  int32_t full_phases;                               // that have so many; others have one less
  int32_t weights_begin, sums_begin, offsets_begin;  // of shared memory, in floats
  int32_t word_floats;  // of the weights of a word of taps, all channels and rows
  bool is_padded;
  bool stores_words;  // of a pixel's filters

  Arguments(const Problem& problem, const Tile& t)
      : exact(problem),
        tile(t),
        filter_tiles(ceil_div(problem.k_per_group(), t.filters)),
        column_tiles(ceil_div(problem.q, t.columns())),
        row_tiles(ceil_div(problem.p, t.rows)),
        groups(problem.groups),
        phase_pitch(t.phase_pitch),
        padded_word_group(word_offset(kWordsAPad)),
        window(problem.r * problem.s),
        window_columns(problem.s),
        phases(problem.stride_w),
        columns(t.columns()),
        blocks(blocks_of(problem, t)),
        filters_of_group(static_cast<int32_t>(problem.k_per_group())),
        channels(static_cast<int32_t>(problem.c_per_group())),
        h(static_cast<int32_t>(problem.h)),
        w(static_cast<int32_t>(problem.w)),
        p(static_cast<int32_t>(problem.p)),
        q(static_cast<int32_t>(problem.q)),
        r(static_cast<int32_t>(problem.r)),
        stride_h(static_cast<int32_t>(problem.stride_h)),
        stride_w(static_cast<int32_t>(problem.stride_w)),
        dilation_h(static_cast<int32_t>(problem.dilation_h)),
        most_taps(static_cast<int32_t>(ceil_div(problem.s, problem.stride_w))),
        full_phases(static_cast<int32_t>((problem.s - 1) % problem.stride_w) + 1),
        weights_begin(t.chunk * t.plane_pitch),
        sums_begin(weights_begin + static_cast<int32_t>(t.weights_bytes(problem) / 4)),
        offsets_begin(sums_begin + static_cast<int32_t>(t.sums_bytes() / 4)),
        word_floats(static_cast<int32_t>(t.chunk * problem.r * t.filters * kWord)),
        is_padded(problem.is_padded()),
        stores_words(false) {}
};

/// The outputs that a block has. Those of the same input run together.
struct Place {
  int64_t n, first_filter, first_channel;
  int32_t filters;  // of the tile
  int32_t first_p, first_q;
  int32_t first_y, first_x;  // of the input, where its first window begins

  template <class Element>
  __device__ __forceinline__ Place(const Arguments<Element>& a, int32_t block) {
    const auto [places, filter_tile] = a.filter_tiles.divide(block);
    const auto [rows, column] = a.column_tiles.divide(places);
    const auto [images, row] = a.row_tiles.divide(rows);
    const auto [image, group] = a.groups.divide(images);
    n = image;
    const int32_t in_group = filter_tile * a.tile.filters;
    first_filter = int64_t{group} * a.filters_of_group + in_group;
    first_channel = int64_t{group} * a.channels;
    filters = min(a.filters_of_group - in_group, a.tile.filters);
    first_p = row * a.tile.rows;
    first_q = column * a.tile.columns();
    first_y = static_cast<int32_t>(a.exact.vertical.start(first_p));
    first_x = static_cast<int32_t>(a.exact.horizontal.start(first_q));
  }
};

}  // namespace im2win::cuda::fma_strips
