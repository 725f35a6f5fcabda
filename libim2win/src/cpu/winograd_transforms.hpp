// The transforms of Winograd's F(2 x 2, 3 x 3), for kernels_template.hpp alone: vectors lie along the
// channels, or the filters.
//
//   input    V = B' d B    B' = [1 0 -1 0; 0 1 1 0; 0 -1 1 0; 0 1 0 -1]
//   filter   U = G g G'    G  = [1 0 0; 1/2 1/2 1/2; 1/2 -1/2 1/2; 0 0 1]
//   output   Y = A' M A    A' = [1 1 1 0; 0 1 -1 -1]
//
// With a stride of 2, the first and the last tap meet every other input, as a filter of two taps without a
// stride does: F(2, 2), three points. The middle one meets those between, one for each output: two points
// that it is itself.
//
//   B' = [1 0 -1 0 0; 0 0 1 0 0; 0 0 -1 0 1; 0 1 0 0 0; 0 0 0 1 0]
//   G  = [1 0 0; 1 0 1; 0 0 1; 0 1 0], of which the last row counts for two points
//   A' = [1 1 0 1 0; 0 1 1 0 1]
#pragma once

#include "cpu/vector.hpp"

namespace im2win::cpu {
namespace {

/// How large values are, lane by lane.
template <class Compute>
struct Magnitudes {
  Vector<Compute> largest = {};
  Vector<Compute> sum = {};

  void add(Vector<Compute> value) {
    const Vector<Compute> magnitude = value < -value ? -value : value;
    largest = magnitude > largest ? magnitude : largest;
    sum += magnitude;
  }
};

/// A row, or a column, of a tile of inputs: as many points.
template <class Compute>
inline void transform_inputs(const Vector<Compute> (&d)[4], Vector<Compute> (&v)[4]) {
  v[0] = d[0] - d[2];
  v[1] = d[1] + d[2];
  v[2] = d[2] - d[1];
  v[3] = d[1] - d[3];
}

template <class Compute>
inline void transform_inputs(const Vector<Compute> (&d)[5], Vector<Compute> (&v)[5]) {
  v[0] = d[0] - d[2];
  v[1] = d[2];
  v[2] = d[4] - d[2];
  v[3] = d[1];
  v[4] = d[3];
}

template <int kSize, class Compute>
inline void load_column(const InputTiles<Compute>& in, const Compute* top,
                        Magnitudes<Compute>& magnitudes, Vector<Compute> (&column)[kSize]) {
  Vector<Compute> d[kSize];
#pragma GCC unroll 5
  for (int i = 0; i < kSize; ++i) {
    d[i] = load(top + i * in.row_stride);
    magnitudes.add(d[i]);
  }
  transform_inputs<Compute>(d, column);
}

/// The last columns of a tile are the next one's first.
template <int kStride, class Compute>
void transform_input(const InputTiles<Compute>& in) {
  constexpr int64_t kElements = VectorOf<Compute>::kElements;
  constexpr int kSize = 3 + kStride;
  constexpr int kShared = 3 - kStride;
  Magnitudes<Compute> magnitudes;
  for (int64_t c = 0; c < in.channels; c += kElements) {
    const Compute* input = in.input + c;
    Compute* target = in.target + c;
    Vector<Compute> rows[kSize][kSize];  // of points; columns of inputs, as they are loaded
    Vector<Compute> column[kSize];
    const auto load_columns = [&](int begin, int end) {
#pragma GCC unroll 5
      for (int j = begin; j < end; ++j, input += in.column_stride) {
        load_column<kSize>(in, input, magnitudes, column);
#pragma GCC unroll 5
        for (int i = 0; i < kSize; ++i) rows[i][j] = column[i];
      }
    };
    load_columns(0, kShared);
    for (int64_t tile = 0; tile < in.tiles; ++tile, target += in.target_stride) {
      load_columns(kShared, kSize);
#pragma GCC unroll 5
      for (int i = 0; i < kSize; ++i) {
        Vector<Compute> points[kSize];
        transform_inputs<Compute>(rows[i], points);
#pragma GCC unroll 5
        for (int j = 0; j < kSize; ++j)
          store(target + (kSize * i + j) * in.point_stride, points[j]);
#pragma GCC unroll 2
        for (int j = 0; j < kShared; ++j) rows[i][j] = rows[i][kSize - kShared + j];
      }
    }
  }
  Spread<Compute> spread = {};
  for (int64_t lane = 0; lane < kElements; ++lane) {
    const Compute largest = magnitudes.largest[lane];
    spread.largest = largest > spread.largest ? largest : spread.largest;
    spread.sum += magnitudes.sum[lane];
  }
  *in.spread = spread;
}

template <int kStride, class Compute>
inline void transform_taps(const Vector<Compute> (&g)[3], Vector<Compute> (&u)[4]) {
  const Vector<Compute> outer = g[0] + g[2];
  u[0] = g[0];
  if constexpr (kStride == 1) {
    u[1] = (outer + g[1]) * Compute(0.5);
    u[2] = (outer - g[1]) * Compute(0.5);
    u[3] = g[2];
  } else {
    u[1] = outer;
    u[2] = g[2];
    u[3] = g[1];
  }
}

/// One channel of a vector of filters.
template <int kStride, class Compute>
inline void transform_channel(const FilterTaps<Compute>& filter, const Compute* taps,
                              Compute* target, Magnitudes<Compute>& magnitudes) {
  Vector<Compute> columns[3][4];
#pragma GCC unroll 3
  for (int s = 0; s < 3; ++s) {
    Vector<Compute> g[3];
#pragma GCC unroll 3
    for (int r = 0; r < 3; ++r) {
      g[r] = load(taps + r * filter.row_stride + s * filter.column_stride);
      magnitudes.add(g[r]);
    }
    transform_taps<kStride, Compute>(g, columns[s]);
  }
#pragma GCC unroll 4
  for (int i = 0; i < 4; ++i) {
    Vector<Compute> u[4];
    transform_taps<kStride, Compute>({columns[0][i], columns[1][i], columns[2][i]}, u);
#pragma GCC unroll 4
    for (int j = 0; j < 4; ++j) store(target + (4 * i + j) * filter.point_stride, u[j]);
  }
}

template <int kStride, class Compute>
void transform_filter(const FilterTaps<Compute>& filter) {
  constexpr int64_t kElements = VectorOf<Compute>::kElements;
  const int64_t vectors = filter.width / kElements;
  Magnitudes<Compute> magnitudes[kMaxTileVectors] = {};
  for (int64_t c = 0; c < filter.channels; ++c) {
    const Compute* taps = filter.taps + c * filter.channel_stride;
    Compute* target = filter.target + c * filter.width;
    for (int64_t v = 0; v < vectors; ++v)
      transform_channel<kStride>(filter, taps + v * kElements, target + v * kElements,
                                 magnitudes[v]);
  }
  for (int64_t k = 0; k < filter.width; ++k) {
    const Magnitudes<Compute>& filters = magnitudes[k / kElements];
    Spread<Compute>& spread = filter.spreads[k];
    const Compute largest = filters.largest[k % kElements];
    spread.largest = largest > spread.largest ? largest : spread.largest;
    spread.sum += filters.sum[k % kElements];
  }
}

/// Two outputs of the points of a row, or a column, of a tile.
template <class Compute>
inline void fold(const Vector<Compute> (&m)[4], Vector<Compute>& first, Vector<Compute>& second) {
  first = m[0] + m[1] + m[2];
  second = m[1] - m[2] - m[3];
}

template <class Compute>
inline void fold(const Vector<Compute> (&m)[5], Vector<Compute>& first, Vector<Compute>& second) {
  first = m[0] + m[1] + m[3];
  second = m[1] + m[2] + m[4];
}

template <int kStride, class Compute>
void transform_output(const OutputTiles<Compute>& out) {
  constexpr int64_t kElements = VectorOf<Compute>::kElements;
  constexpr int kSize = 3 + kStride;
  const Range<Compute> range = out.range;
  for (int64_t tile = 0; tile < out.tiles; ++tile) {
    Compute* const* outputs = out.outputs + 4 * tile;
    bool streams = out.streams;
    for (int i = 0; i < 4; ++i) streams = streams && is_aligned(outputs[i]);
    for (int64_t k = 0; k < out.width; k += kElements) {
      const Compute* products = out.products + tile * out.width + k;
      Vector<Compute> rows[2][kSize];
#pragma GCC unroll 5
      for (int j = 0; j < kSize; ++j) {
        Vector<Compute> m[kSize];
#pragma GCC unroll 5
        for (int i = 0; i < kSize; ++i) m[i] = load(products + (kSize * i + j) * out.point_stride);
        fold<Compute>(m, rows[0][j], rows[1][j]);
      }
      const Vector<Compute> bias = load(out.bias + k);
#pragma GCC unroll 2
      for (int i = 0; i < 2; ++i) {
        Vector<Compute> y[2];
        fold<Compute>(rows[i], y[0], y[1]);
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
