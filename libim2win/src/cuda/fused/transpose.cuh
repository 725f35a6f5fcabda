// From boxes of lines to slabs of 16-bit operands. Lines have neighbouring pixels of a channel, units
// neighbouring channels of a pixel: ldmatrix reads a word of eight pixels of each of eight channels and
// transposes them, stmatrix puts units where their pixels' positions are (PTX ISA, "Warp-level matrix
// load/store").
//
// Words of shared memory are words of the input, and a tile's first pixel may be anywhere in one: a unit
// has channels whose lines lie alike (Tile::channel). Which positions a pixel has is looked up; what has
// none goes to the gap after a unit's positions.
#pragma once

#include <cstdint>

#include "cuda/fused/arguments.cuh"
#include "cuda/fused/block.cuh"
#include "cuda/fused/raw.cuh"
#include "cuda/ptx.cuh"

namespace im2win::cuda::fused {

/// By the threads that stage, one of which is `thread`.
template <class T>
class Transposition {
 public:
  using Element = typename T::Element;

  __device__ __forceinline__ Transposition(const Arguments<Element>& a, Block<T> block, int thread)
      : a_(a),
        block_(block),
        thread_(thread),
        lane_(thread % 32),
        unit_bits_(__ffs(min(a.tile.units, kMatrices)) - 1),
        count_(a.tile.images * a.tile.raw.rows * static_cast<int>(a.raw_words.divisor)) {}

  /// The slabs that follow are of this tile.
  __device__ __forceinline__ void enter(const TilePosition& tile, int tap_row) {
    const LinePixels<Element> pixels(a_, tile, tap_row);
    first_ = a_.tile.raw.apart ? pixels.x(0) : pixels.first(0);
    begin_ = static_cast<uint32_t>(tile.begin);
  }

  /// What a tile's pixels depend on.
  __device__ __forceinline__ Edges edges(const TilePosition& tile, int tap_row) const {
    constexpr int kAny = 1 << 30;
    const bool apart = a_.tile.raw.apart != 0;
    // Columns to the right of images would be mistaken for those of the next row.
    if (a_.zeros_around) return {1, 0, apart ? kAny : a_.w, 0, kAny, 0};
    const LinePixels<Element> pixels(a_, tile, tap_row);
    const int x0 = pixels.x(0), y0 = pixels.y(0);
    const int width = (a_.tile.pitch - 1) * a_.stride_w + a_.reach + 1;
    return {1,
            min(x0, 0),
            min(a_.w - x0, width),
            min(y0, 0),
            min(a_.h - y0, a_.tile.box_rows * a_.stride_h),
            min(y0 * a_.w + x0, 0)};
  }

  /// Makes the table, in which no pixel has a position yet.
  __device__ __forceinline__ void place(const Edges& edges) const {
    const int row_places = a_.tile.plane_positions + table_begins(a_.tile);
    const RawLines& lines = a_.tile.raw;
    for (int plane = 0; plane < a_.tile.planes; ++plane) {
      uint16_t* const positions = table() + planes_alike(a_.tile, plane, a_.stride_w) * pitch();
      for (int i = thread_; i < row_places; i += T::kStagingThreads) {
        const auto [line, column] = a_.pitch.divide(i);
        const auto [row, image] = a_.tile_images.divide(line);
        const int right = column * a_.stride_w + a_.tile.origin[plane], down = row * a_.stride_h;
        if (right < -edges.left || right >= edges.right || down < -edges.top ||
            down >= edges.bottom)
          continue;
        const int pixel =
            lines.apart ? (image * lines.rows + row) * lines.pitch + right
                        : image * lines.rows * lines.pitch + down * a_.w + right + edges.start;
        positions[kWord + pixel] = static_cast<uint16_t>(plane * row_places + i);
      }
    }
  }
  __device__ __forceinline__ void clear_table() const {
    for (int i = thread_; i < a_.tile.raw.pixel_positions * pitch(); i += T::kStagingThreads)
      table()[i] = kNoPosition;
  }

  /// A slab of the tile. Its lines are there.
  __device__ __forceinline__ void transpose(uint32_t lines, uint32_t slab) const {
    const int units = a_.tile.units, phase_bits = a_.tile.raw.phase_bits;
    const bool in_pairs = units == 2 * kMatrices && phase_bits <= 2;  // units four apart are alike
    for (int unit = lane_ / 8 & ((1 << unit_bits_) - 1); unit < units;
         unit += in_pairs ? 2 * kMatrices : kMatrices) {
      const Words words = {
          .source = lines + source_of(unit),
          .table = ptx::shared_address(table()) +
                   static_cast<uint32_t>(kWord + lane_ % 8 - shift(unit)) * kElementBytes,
          .to = slab + static_cast<uint32_t>(unit * a_.tile.positions_pitch) * kUnitBytes};
      if (in_pairs) {
        transpose_words<2>(words);
      } else {
        transpose_words<1>(words);
      }
    }
  }

 private:
  static constexpr int kMatrices = 4;  // at a time
  static constexpr int kElementBytes = 2;
  static constexpr int kWord = kUnitBytes / kElementBytes;
  static constexpr int kWarps = T::kStagingThreads / 32;

  /// The words of the pixels of a unit's channels.
  struct Words {
    uint32_t source;  // the first one's, of the channel whose row of a matrix this lane gives
    uint32_t table;   // the position of that pixel of it whose row this lane gives
    uint32_t to;      // the unit of the slab's first position
  };

  __device__ __forceinline__ int pitch() const { return pixel_table_pitch(a_.tile); }
  __device__ __forceinline__ uint16_t* table() const {
    return reinterpret_cast<uint16_t*>(block_.places());
  }

  __device__ __forceinline__ int phase_of(int unit) const {
    return unit & ((1 << a_.tile.raw.phase_bits) - 1);
  }
  /// Bytes from the first line to that of this lane's channel.
  __device__ __forceinline__ uint32_t source_of(int unit) const {
    const int in_phase = (unit >> a_.tile.raw.phase_bits) * kWord + lane_ % 8;
    return static_cast<uint32_t>((phase_of(unit) * a_.raw_phase + in_phase * a_.raw_channel) *
                                 kElementBytes);
  }
  /// How far past a word lines begin.
  __device__ __forceinline__ int shift(int unit) const {
    const int phase = a_.tile.raw.apart ? 0 : phase_of(unit) * a_.h * a_.w;
    return (phase + first_) & (kWord - 1);
  }

  /// Of kUnits units, four apart.
  template <int kUnits>
  __device__ __forceinline__ void transpose_words(const Words& words) const {
    constexpr int kTimes = 2;  // that a warp reads before it writes
    const int together = kMatrices >> unit_bits_, step = kWarps * together;
    const uint32_t units_apart =
        static_cast<uint32_t>((kMatrices >> a_.tile.raw.phase_bits) * kWord * a_.raw_channel) *
        kElementBytes;
    for (int first = thread_ / 32 * together; first < count_; first += kTimes * step) {
      uint32_t units[kTimes][kUnits][4], table[kTimes], position[kTimes];
#pragma unroll
      for (int i = 0; i < kTimes; ++i) {
        // One that has been before, rather than none.
        const int word = min(first + i * step + (lane_ / 8 >> unit_bits_), count_ - 1);
        table[i] = words.table + static_cast<uint32_t>(word) * kUnitBytes;
        position[i] = ptx::load_shared<uint16_t>(table[i]);
        const auto [line, in_line] = a_.raw_words.divide(word);
        const uint32_t source = words.source +
                                static_cast<uint32_t>(line * a_.raw_line) * kElementBytes +
                                static_cast<uint32_t>(in_line) * kUnitBytes;
#pragma unroll
        for (int j = 0; j < kUnits; ++j)
          ptx::load_matrices_transposed(source + j * units_apart, units[i][j]);
      }
#pragma unroll
      for (int i = 0; i < kTimes; ++i) store_units(words, table[i], position[i], units[i]);
    }
  }

  /// Where the first of a pixel's positions is, and any others that it has.
  template <int kUnits>
  __device__ __forceinline__ void store_units(const Words& words, uint32_t table, uint32_t position,
                                              const uint32_t (&units)[kUnits][4]) const {
    const uint32_t units_apart =
        static_cast<uint32_t>(kMatrices * a_.tile.positions_pitch) * kUnitBytes;
    const uint32_t nowhere = static_cast<uint32_t>(a_.tile.positions);
    for (int left = a_.tile.raw.pixel_positions; true;) {
      const uint32_t to = words.to + min(position - begin_, nowhere) * kUnitBytes;
#pragma unroll
      for (int j = 0; j < kUnits; ++j) ptx::store_matrices(to + j * units_apart, units[j]);
      if (--left == 0) return;
      table += static_cast<uint32_t>(pitch()) * kElementBytes;
      position = ptx::load_shared<uint16_t>(table);
    }
  }

  const Arguments<Element>& a_;
  Block<T> block_;
  int thread_, lane_;
  int unit_bits_;       // of the units of a word whose matrices a warp has at a time
  int count_;           // words of a channel
  int first_ = 0;       // the first line's first pixel, as far as it is known to words
  uint32_t begin_ = 0;  // of a run
};

}  // namespace im2win::cuda::fused
