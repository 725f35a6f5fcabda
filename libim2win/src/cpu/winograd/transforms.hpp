// The transforms of Winograd's F(2 x 2, 3 x 3), for kernels_template.hpp alone: vectors lie along the
// channels, or the filters.
//
//   input    V = B' d B    B' = [1 0 -1 0; 0 1 1 0; 0 -1 1 0; 0 1 0 -1]
//   filter   U = G g G'    G  = [1 0 0; 1/2 1/2 1/2; 1/2 -1/2 1/2; 0 0 1]
//   output   Y = A' M A    A' = [1 1 1 0; 0 1 -1 -1]
//
// Two taps make three of the points, and one makes two, which become outputs by the same A': F(2, 2) and F(2, 1).
//
//   B' = [1 -1 0; 0 1 0; -; 0 1 -1]    G = [1 0; 1 1; -; 0 1]
//   B' = [1 0; -; -; 0 -1]             G = [1; -; -; 1]
#pragma once

#include "cpu/vector.hpp"

namespace im2win::cpu {
namespace {

template <class Compute>
inline Vector<Compute> magnitude(Vector<Compute> value) {
  return value < -value ? -value : value;
}

/// Lane by lane.
template <class Compute>
struct Spreads {
  Vector<Compute> sum = {};
  Vector<Compute> squares = {};

  void add(Vector<Compute> value) {
    sum += magnitude<Compute>(value);
    squares += value * value;
  }
};

/// Of filters, lane by lane.
template <int kRowTaps, int kColumnTaps, class Compute>
struct TapSpreads {
  Vector<Compute> sums[kRowTaps][kColumnTaps] = {};
  Vector<Compute> squares = {};

  void add_to(const FilterTaps<Compute>& filter, int64_t first) const {
    for (int64_t lane = 0; lane < VectorOf<Compute>::kElements; ++lane) {
      Spread<Compute>& spread = filter.spreads[first + lane];
      Compute& least = filter.least_taps[first + lane];
      spread.squares += squares[lane];
      for (const auto& row : sums)
        for (const Vector<Compute>& tap : row) {
          spread.sum += tap[lane];
          least = tap[lane] < least ? tap[lane] : least;
        }
    }
  }
};

/// A row, or a column, of what so many taps see for two outputs: its points.
template <int kTaps, class Compute>
inline void transform_inputs(const Vector<Compute> (&d)[kTaps + 1],
                             Vector<Compute> (&v)[kAxisPoints]) {
  if constexpr (kTaps == 3) {
    v[0] = d[0] - d[2];
    v[1] = d[1] + d[2];
    v[2] = d[2] - d[1];
    v[3] = d[1] - d[3];
  } else if constexpr (kTaps == 2) {
    v[0] = d[0] - d[1];
    v[1] = d[1];
    v[3] = d[1] - d[2];
  } else {
    v[0] = d[0];
    v[3] = -d[1];
  }
}

/// A column's points.
template <int kRowTaps, class Compute>
inline void load_column(const InputTiles<Compute>& in, const Compute* top,
                        Spreads<Compute>& spreads, Vector<Compute> (&column)[kAxisPoints]) {
  Vector<Compute> d[kRowTaps + 1];
#pragma GCC unroll 4
  for (int i = 0; i <= kRowTaps; ++i) {
    d[i] = load(top + i * in.row_stride);
    spreads.add(d[i]);
  }
  transform_inputs<kRowTaps, Compute>(d, column);
}

/// The last columns of a tile are the next one's first, as tiles are two columns apart.
template <int kRowTaps, int kColumnTaps, class Compute>
void transform_input(const InputTiles<Compute>& in) {
  constexpr int64_t kElements = VectorOf<Compute>::kElements;
  constexpr int kColumns = kColumnTaps + 1;
  constexpr int kShared = kColumns - 2;
  Spreads<Compute> spreads;
  for (int64_t c = 0; c < in.channels; c += kElements) {
    const Compute* input = in.input + c;
    Vector<Compute> rows[kAxisPoints][kColumns] = {};  // of points; columns of inputs
    const auto load_columns = [&](int begin, int end) {
#pragma GCC unroll 4
      for (int j = begin; j < end; ++j, input += in.column_stride) {
        Vector<Compute> column[kAxisPoints] = {};
        load_column<kRowTaps>(in, input, spreads, column);
#pragma GCC unroll 4
        for (int i = 0; i < kAxisPoints; ++i) rows[i][j] = column[i];
      }
    };
    load_columns(0, kShared);
    for (int64_t tile = 0; tile < in.tiles; ++tile) {
      load_columns(kShared, kColumns);
#pragma GCC unroll 4
      for (int i = 0; i < kAxisPoints; ++i) {
        if (!kHasPoint[kRowTaps - 1][i]) continue;
        Vector<Compute> points[kAxisPoints] = {};
        transform_inputs<kColumnTaps, Compute>(rows[i], points);
#pragma GCC unroll 4
        for (int j = 0; j < kAxisPoints; ++j) {
          const int point = kAxisPoints * i + j;
          if (kHasPoint[kColumnTaps - 1][j])
            store(in.points[point] + tile * in.tile_strides[point] + c, points[j]);
        }
#pragma GCC unroll 2
        for (int j = 0; j < kShared; ++j) rows[i][j] = rows[i][kColumns - kShared + j];
      }
    }
  }
  for (int64_t lane = 0; lane < kElements; ++lane) {
    in.spread->sum += spreads.sum[lane];
    in.spread->squares += spreads.squares[lane];
  }
}

template <int kTaps, class Compute>
inline void transform_taps(const Vector<Compute> (&g)[kTaps], Vector<Compute> (&u)[kAxisPoints]) {
  u[0] = g[0];
  u[3] = g[kTaps - 1];
  if constexpr (kTaps == 3) {
    const Vector<Compute> outer = g[0] + g[2];
    u[1] = (outer + g[1]) * Compute(0.5);
    u[2] = (outer - g[1]) * Compute(0.5);
  } else if constexpr (kTaps == 2) {
    u[1] = g[0] + g[1];
  }
}

/// One channel of a vector of filters, the first of them at `place` of the taps, and of the points.
template <int kRowTaps, int kColumnTaps, class Compute>
inline void transform_channel(const FilterTaps<Compute>& filter, const Compute* taps, int64_t place,
                              TapSpreads<kRowTaps, kColumnTaps, Compute>& spreads) {
  Vector<Compute> rows[kAxisPoints][kColumnTaps] = {};
#pragma GCC unroll 3
  for (int s = 0; s < kColumnTaps; ++s) {
    Vector<Compute> g[kRowTaps];
#pragma GCC unroll 3
    for (int r = 0; r < kRowTaps; ++r) {
      g[r] = load(taps + r * filter.row_stride + s * filter.column_stride);
      spreads.sums[r][s] += magnitude<Compute>(g[r]);
      spreads.squares += g[r] * g[r];
    }
    Vector<Compute> column[kAxisPoints] = {};
    transform_taps<kRowTaps, Compute>(g, column);
#pragma GCC unroll 4
    for (int i = 0; i < kAxisPoints; ++i) rows[i][s] = column[i];
  }
#pragma GCC unroll 4
  for (int i = 0; i < kAxisPoints; ++i) {
    if (!kHasPoint[kRowTaps - 1][i]) continue;
    Vector<Compute> u[kAxisPoints] = {};
    transform_taps<kColumnTaps, Compute>(rows[i], u);
#pragma GCC unroll 4
    for (int j = 0; j < kAxisPoints; ++j)
      if (kHasPoint[kColumnTaps - 1][j]) store(filter.points[kAxisPoints * i + j] + place, u[j]);
  }
}

template <int kRowTaps, int kColumnTaps, class Compute>
void transform_filter(const FilterTaps<Compute>& filter) {
  constexpr int64_t kElements = VectorOf<Compute>::kElements;
  const int64_t vectors = filter.width / kElements;
  TapSpreads<kRowTaps, kColumnTaps, Compute> spreads[kMaxTileVectors];
  for (int64_t c = 0; c < filter.channels; ++c)
    for (int64_t v = 0; v < vectors; ++v)
      transform_channel(filter, filter.taps + c * filter.channel_stride + v * kElements,
                        c * filter.width + v * kElements, spreads[v]);
  for (int64_t v = 0; v < vectors; ++v) spreads[v].add_to(filter, v * kElements);
}

/// Two outputs of the points of a row, or a column, of a tile.
template <int kTaps, class Compute>
inline void fold(const Vector<Compute> (&m)[kAxisPoints], Vector<Compute>& first,
                 Vector<Compute>& second) {
  if constexpr (kTaps == 3) {
    first = m[0] + m[1] + m[2];
    second = m[1] - m[2] - m[3];
  } else if constexpr (kTaps == 2) {
    first = m[0] + m[1];
    second = m[1] - m[3];
  } else {
    first = m[0];
    second = -m[3];
  }
}

/// Of the points that pieces of so many taps have.
template <int kRowTaps, int kColumnTaps, class Compute>
void transform_output(const OutputTiles<Compute>& out) {
  constexpr int64_t kElements = VectorOf<Compute>::kElements;
  const Range<Compute> range = out.range;
  for (int64_t tile = 0; tile < out.tiles; ++tile) {
    Compute* const* outputs = out.outputs + 4 * tile;
    bool streams = out.streams;
    for (int i = 0; i < 4; ++i) streams = streams && is_aligned(outputs[i]);
    for (int64_t k = 0; k < out.width; k += kElements) {
      const Compute* products = out.products + tile * out.width + k;
      Vector<Compute> rows[2][kAxisPoints] = {};
#pragma GCC unroll 4
      for (int j = 0; j < kAxisPoints; ++j) {
        if (!kHasPoint[kColumnTaps - 1][j]) continue;
        Vector<Compute> m[kAxisPoints] = {};
#pragma GCC unroll 4
        for (int i = 0; i < kAxisPoints; ++i)
          if (kHasPoint[kRowTaps - 1][i])
            m[i] = load(products + (kAxisPoints * i + j) * out.point_stride);
        fold<kRowTaps, Compute>(m, rows[0][j], rows[1][j]);
      }
      const Vector<Compute> bias = load(out.bias + k);
#pragma GCC unroll 2
      for (int i = 0; i < 2; ++i) {
        Vector<Compute> y[2];
        fold<kColumnTaps, Compute>(rows[i], y[0], y[1]);
#pragma GCC unroll 2
        for (int j = 0; j < 2; ++j) {
          Compute* target = outputs[2 * i + j] + k;
          const Vector<Compute> finished = finish(y[j], bias, range);
          streams ? stream(target, finished) : store(target, finished);
        }
      }
    }
  }
}

}  // namespace
}  // namespace im2win::cpu
