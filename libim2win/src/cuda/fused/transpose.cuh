// From boxes of lines to slabs of 16-bit operands. Lines have neighbouring pixels of a channel, units
// neighbouring channels of a pixel: ldmatrix reads a word of eight pixels of each of eight channels and
// transposes them, stmatrix puts units where their pixels' positions are (PTX ISA, "Warp-level matrix
// load/store").
//
// Words of shared memory are words of the input, and a tile's first pixel may be anywhere in one: a unit
// has channels whose lines lie alike (Tile::channel). Which positions a pixel has is looked up; what has
// none goes to the gap after a unit's positions.
#pragma once

#include <algorithm>
#include <cstdint>

#include "cuda/fused/arguments.cuh"
#include "cuda/fused/block.cuh"
#include "cuda/fused/raw.cuh"
#include "cuda/fused/stage_tiles.cuh"
#include "cuda/ptx.cuh"

namespace im2win::cuda::fused {

/// Fills slabs, tile after tile. What a warp moves is the same for all slabs of a tap group: if it is not too much, it
/// is found once.
template <class T>
class TransposedStaging {
 public:
  using Element = typename T::Element;

  __device__ __forceinline__ TransposedStaging(const Arguments<Element>& a, Block<T> block)
      : a_(a), block_(block), thread_(static_cast<int>(threadIdx.x)), lane_(thread_ % 32) {}

  __device__ __forceinline__ void run() {
    stage_tiles(
        a_, [&](const TilePosition& tile, int tap_group) { enter(tile, tap_group); },
        [&](int slabs) { stage(slabs); });
  }

 private:
  static constexpr int kBits = 2, kMatrices = 1 << kBits;  // that an instruction moves
  static constexpr int kEach = 4;  // moves at a time: each would wait for the last one
  // That a thread has registers for, beside some 48 others.
  static constexpr int kFound = std::min(T::kStagingRegisters - 48, 32) / kEach * kEach;
  static constexpr int kElementBytes = 2;
  static constexpr int kWord = kUnitBytes / kElementBytes;
  // Transposed lines have a warp of their own where they can.
  static constexpr int kThreads = T::kStagingThreads - (T::kMayHaveLineWarp ? kLineThreads : 0);
  static constexpr int kWarps = kThreads / 32;

  /// What is moved at a time, units of a word or of some. Of the row of a matrix whose place this lane gives, bytes
  /// from the beginning of a stage of lines; of the pixel whose unit goes to where this lane says, where its position
  /// is in the table, and bytes from the beginning of a slab to the unit of its first position.
  struct Move {
    uint32_t from, pixel, to;
  };

  __device__ __forceinline__ void sync() const { ptx::named_barrier(kStagingBarrier, kThreads); }

  /// The slabs that follow are of this tile and tap group. Positions that no pixel has are zero in slabs that have
  /// been cleared since.
  __device__ __forceinline__ void enter(const TilePosition& tile, int tap_row) {
    const LinePixels<Element> pixels(a_, tile, tap_row);
    const bool apart = a_.tile.raw.apart != 0;
    first_ = apart ? pixels.x(0) : pixels.first(0);
    begin_ = has_table_of_rows(a_.tile) ? static_cast<uint32_t>(tile.begin) : 0;
    const Edges edges = this->edges(pixels, tile.begin);
    if (!(edges == barriers().placed_for)) {
      sync();  // none reads the last table any more
      if (thread_ == 0) barriers().placed_for = edges;
      clear_table();
      sync();
      place(edges);
      sync();
      slabs_to_clear_ = a_.tile.slab_stages;
      found_for_ = kNothing;
    }
  }

  /// What a tile's pixels depend on.
  __device__ __forceinline__ Edges edges(const LinePixels<Element>& pixels, int begin) const {
    constexpr int kAny = 1 << 30;
    const bool apart = a_.tile.raw.apart != 0;
    // Columns to the right of images would be mistaken for those of the next row.
    Edges edges = {1, 0, apart ? kAny : a_.w, 0, kAny};
    if (!a_.tile.raw.has_zeros_around) edges = pixels.edges();
    if (has_table_of_rows(a_.tile) || has_table_of_runs(a_.tile, a_.w, a_.stride_h)) return edges;
    edges.begin = begin;
    if (!apart) edges.start = pixels.y(0) * a_.w + pixels.x(0) - first_;
    return edges;
  }

  /// Makes the table, in which no pixel has a position yet.
  __device__ __forceinline__ void place(const Edges& edges) const {
    const int row_places =
        a_.tile.plane_positions + (has_table_of_rows(a_.tile) ? table_begins(a_.tile) : 0);
    const RawLines& lines = a_.tile.raw;
    for (int plane = 0; plane < a_.tile.planes; ++plane) {
      uint16_t* const positions = table() + planes_alike(a_.tile, plane, a_.stride_w) * pitch();
      for (int i = thread_; i < row_places; i += kThreads) {
        const auto [line, column] = a_.pitch.divide(edges.begin + i);
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
    for (int i = thread_; i < a_.tile.raw.pixel_positions * pitch(); i += kThreads)
      table()[i] = kNoPosition;
  }

  __device__ __forceinline__ int pitch() const { return pixel_table_pitch(a_.tile); }
  __device__ __forceinline__ uint16_t* table() const {
    return reinterpret_cast<uint16_t*>(block_.places());
  }

  __device__ __forceinline__ int phase_of(int unit) const {
    return unit & ((1 << a_.tile.raw.phase_bits) - 1);
  }
  /// Elements from the first line to that of this lane's channel.
  __device__ __forceinline__ int line_of(int unit) const {
    const int in_phase = (unit >> a_.tile.raw.phase_bits) * kWord + lane_ % 8;
    return phase_of(unit) * a_.raw_phase + in_phase * a_.raw_channel;
  }
  /// How far past a word lines begin.
  __device__ __forceinline__ int shift(int unit) const {
    const int phase = a_.tile.raw.apart ? 0 : phase_of(unit) * a_.h * a_.w;
    return (phase + first_) & (kWord - 1);
  }

  __device__ __forceinline__ int unit_bits() const { return __ffs(a_.tile.units) - 1; }
  /// Of a channel.
  __device__ __forceinline__ int words() const {
    return a_.tile.images * a_.tile.raw.rows * static_cast<int>(a_.raw_words.divisor);
  }
  /// Of a warp, for so many of a slab's units. The first one has the most.
  __device__ __forceinline__ int moves(int unit_bits, int warp) const {
    const int all = ((words() << unit_bits) + kMatrices - 1) >> kBits;
    return (all + kWarps - 1 - warp) / kWarps;
  }

  /// The warp's move of that number. Matrices are counted word by word; beyond the last it is that once more.
  __device__ __forceinline__ Move find(int number, int unit_bits) const {
    const int matrix =
        min((number * kWarps + thread_ / 32) * kMatrices + lane_ / 8, (words() << unit_bits) - 1);
    const int unit = matrix & ((1 << unit_bits) - 1), word = matrix >> unit_bits;
    const auto [line, in_line] = a_.raw_words.divide(word);
    const int from = line_of(unit) + line * a_.raw_line + in_line * kWord;
    const int pixel = kWord + word * kWord + lane_ % 8 - shift(unit);
    return {static_cast<uint32_t>(from) * kElementBytes,
            ptx::shared_address(table()) + static_cast<uint32_t>(pixel) * kElementBytes,
            static_cast<uint32_t>(unit * a_.tile.positions_pitch) * kUnitBytes};
  }

  /// Bytes from a unit of the first position.
  __device__ __forceinline__ uint32_t place_of(uint32_t position) const {
    return min(position - begin_, static_cast<uint32_t>(a_.tile.positions)) * kUnitBytes;
  }

  /// So many slabs of the tap group. All warps do likewise, as pairs are shared out among them in another way.
  __device__ __forceinline__ void stage(int count) {
    const bool in_pairs = unit_bits() > kBits && a_.tile.raw.phase_bits <= kBits;
    if (moves(unit_bits(), 0) * a_.tile.raw.pixel_positions <= kFound) {
      stage_found(count);
    } else if (in_pairs) {
      for (; count > 0; --count)
        fill([&](uint32_t lines, uint32_t slab) { move_all<2>(kBits, lines, slab); });
    } else {
      for (; count > 0; --count)
        fill([&](uint32_t lines, uint32_t slab) { move_all<1>(unit_bits(), lines, slab); });
    }
  }

  /// Finds them, unless they are those of the last tap group: they depend on the table, on where in it a run begins, and
  /// on where in a word lines do. Pixels that have several positions are read as often.
  __device__ __forceinline__ void find_moves(int moves) {
    const uint32_t found_for = begin_ * kWord + (static_cast<uint32_t>(first_) & (kWord - 1));
    if (found_for == found_for_) return;
    found_for_ = found_for;
    const int places = a_.tile.raw.pixel_positions;
    const int groups = (moves + kEach - 1) / kEach;
    int number = (groups * kEach - 1) / places, place = (groups * kEach - 1) % places;
    // Some at a time, the last ones first, which the others push on: there are no registers by number, and if each had
    // instructions of its own, these would come late.
#pragma unroll 1
    for (int group = 0; group < groups; ++group) {
#pragma unroll
      for (int i = kFound - 1; i >= kEach; --i) found_[i] = found_[i - kEach];
#pragma unroll
      for (int i = kEach - 1; i >= 0; --i) {
        found_[i] = found_move(number, place);
        if (--place >= 0) continue;
        place = places - 1;
        --number;
      }
    }
  }

  /// In units: where from, and where to.
  __device__ __forceinline__ int32_t found_move(int number, int place) const {
    const Move move = find(number, unit_bits());
    const uint32_t pixel = move.pixel + static_cast<uint32_t>(place * pitch()) * kElementBytes;
    const uint32_t to = move.to + place_of(ptx::load_shared<uint16_t>(pixel));
    return static_cast<int32_t>(move.from / kUnitBytes << 16 | to / kUnitBytes);
  }

  __device__ __forceinline__ void stage_found(int count) {
    const int moves = this->moves(unit_bits(), thread_ / 32) * a_.tile.raw.pixel_positions;
    find_moves(moves);
    for (; count > 0; --count)
      fill([&](uint32_t lines, uint32_t slab) {
#pragma unroll
        for (int first = 0; first < kFound; first += kEach) {
          if (first >= moves) break;
          uint32_t units[kEach][4], to[kEach];
#pragma unroll
          for (int i = 0; i < kEach; ++i) {
            // The compiler would rather keep what follows from it.
            const auto move = static_cast<uint32_t>(ptx::fresh(found_[first + i]));
            to[i] = slab + (move & 0xffff) * kUnitBytes;
            ptx::load_matrices_transposed(lines + (move >> 16) * kUnitBytes, units[i]);
          }
#pragma unroll
          for (int i = 0; i < kEach; ++i) ptx::store_matrices(to[i], units[i]);
        }
      });
  }

  /// Of a slab of so many units, or of twice as many, whose second half lies as the first does.
  template <int kHalves>
  __device__ __forceinline__ void move_all(int unit_bits, uint32_t lines, uint32_t slab) const {
    constexpr int kMoves = kEach / kHalves;
    const uint32_t from_apart =
        static_cast<uint32_t>((kMatrices >> a_.tile.raw.phase_bits) * kWord * a_.raw_channel) *
        kElementBytes;
    const int moves = this->moves(unit_bits, thread_ / 32);
#pragma unroll 1
    for (int first = 0; first < moves; first += kMoves) {
      uint32_t units[kMoves][kHalves][4], position[kMoves];
      Move move[kMoves];
#pragma unroll
      for (int i = 0; i < kMoves; ++i) {
        move[i] = find(first + i, unit_bits);
        position[i] = ptx::load_shared<uint16_t>(move[i].pixel);
#pragma unroll
        for (int half = 0; half < kHalves; ++half)
          ptx::load_matrices_transposed(lines + move[i].from + half * from_apart, units[i][half]);
      }
#pragma unroll
      for (int i = 0; i < kMoves; ++i) put(units[i], move[i], position[i], slab);
    }
  }

  /// Where the first of a pixel's positions is, and any others that it has.
  template <int kHalves>
  __device__ __forceinline__ void put(const uint32_t (&units)[kHalves][4], const Move& move,
                                      uint32_t position, uint32_t slab) const {
    const uint32_t apart = static_cast<uint32_t>(kMatrices * a_.tile.positions_pitch) * kUnitBytes;
    uint32_t pixel = move.pixel;
    for (int left = a_.tile.raw.pixel_positions; true;) {
      const uint32_t to = slab + move.to + place_of(position);
#pragma unroll
      for (int half = 0; half < kHalves; ++half)
        ptx::store_matrices(to + half * apart, units[half]);
      if (--left == 0) return;
      pixel += static_cast<uint32_t>(pitch()) * kElementBytes;
      position = ptx::load_shared<uint16_t>(pixel);
    }
  }

  /// The next slab: by use(where its lines are, where it is).
  template <class Use>
  __device__ __forceinline__ void fill(const Use& use) {
    barriers().raw.wait_full(lines_);
    barriers().slabs.wait_empty(cursor_);
    char* const slab = block_.slab(cursor_.stage);
    if (slabs_to_clear_ > 0) clear(slab);
    use(ptx::shared_address(block_.raw(lines_.stage)), ptx::shared_address(slab));
    barriers().slabs.arrive_full_by_warp(cursor_.stage);
    if (lane_ == 0) barriers().raw.arrive_empty(lines_.stage);
    lines_.advance(a_.tile.raw.stages);
    cursor_.advance(a_.tile.slab_stages);
  }

  __device__ __forceinline__ void clear(char* slab) {
    --slabs_to_clear_;
    for (int i = thread_; i < a_.tile.units * a_.tile.positions_pitch; i += kThreads)
      reinterpret_cast<uint4*>(slab)[i] = make_uint4(0, 0, 0, 0);
    sync();
  }

  const Arguments<Element>& a_;
  Block<T> block_;
  Cursor cursor_, lines_;  // of slabs and of raw lines
  int thread_, lane_;
  int first_ = 0;       // the first line's first pixel, as far as it is known to words
  uint32_t begin_ = 0;  // of a run in a table of rows
  int slabs_to_clear_ = 0;
  // The warp's moves, and what they depend on.
  static constexpr uint32_t kNothing = UINT32_MAX;
  int32_t found_[kFound] = {};
  uint32_t found_for_ = kNothing;
};

}  // namespace im2win::cuda::fused
