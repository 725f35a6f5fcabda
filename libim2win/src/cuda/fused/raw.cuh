// Inputs on their way to slabs: brought to shared memory as they lie, a bulk copy for each line of
// neighbours, a slab ahead of their use. No register holds what is under way, and so enough is.
//
// A line is of a channel and an image (or, where channels are neighbours, of an image): the rows under
// a tile, from the first input to the last, or, where rows between them are not needed, one row. Where
// the tensor memory accelerator takes the input, lines are those of a box, which a thread has copied at
// once, with zeros for what is outside: a bulk copy each takes it 90 cycles or more, of a few hundred bytes.
#pragma once

#include <cuda/ptx>

#include <cstdint>
#include <type_traits>

#include "cuda/fused/arguments.cuh"
#include "cuda/fused/block.cuh"
#include "cuda/fused/line_copy.cuh"
#include "cuda/fused/operands.cuh"
#include "cuda/fused/slabs.cuh"
#include "cuda/ptx.cuh"

namespace im2win::cuda::fused {

/// Whether boxes may be by pixels: others' come as operands.
template <class T>
constexpr bool kMayBeByPixels =
    T::kOperands == Operands::kSplit && T::kInstructions == Instructions::kWgmma;

/// The pixels of an image, counted row by row, that the lines of a tile's tap group hold: here these
/// are groups of rows alone.
template <class Element>
class LinePixels {
 public:
  __device__ __forceinline__ LinePixels(const Arguments<Element>& a, const TilePosition& tile,
                                        int tap_group)
      : a_(a),
        y0_(tile.p * a.stride_h + tap_group * a.dilation_h - a.padding_top),
        x0_(tile.q * a.stride_w - a.padding_left),
        begin_(tile.begin) {}

  __device__ __forceinline__ int y(int row) const { return y0_ + row * a_.stride_h; }
  __device__ __forceinline__ int x(int column) const { return x0_ + column * a_.stride_w; }

  /// What the input has of them, as seen from x(0) and y(0).
  __device__ __forceinline__ Edges edges() const {
    const int width = (a_.tile.pitch - 1) * a_.stride_w + a_.reach + 1;
    return {1, min(x0_, 0), min(a_.w - x0_, width), min(y0_, 0),
            min(a_.h - y0_, a_.tile.box_rows * a_.stride_h)};
  }

  /// Where lines of single rows begin: a box's with a word of so many elements, unless these are channels.
  __device__ __forceinline__ int begin(int word) const {
    if (std::is_same_v<Element, float> && a_.tile.raw.by_pixels) return x0_;
    return a_.tile.raw.boxed ? x0_ & -word : max(x0_, 0);
  }

  /// Of the line of a row of positions. A run that begins right of the image begins with its next row.
  __device__ __forceinline__ int first(int row) const {
    return a_.tile.raw.apart ? y(row) * a_.w + begin(1) : max(y0_ * a_.w + min(x(begin_), a_.w), 0);
  }
  /// Below the first where there is none.
  __device__ __forceinline__ int last(int row) const {
    if (a_.tile.raw.apart) {
      if (y(row) < 0 || y(row) >= a_.h) return INT32_MIN;
      return y(row) * a_.w + min(x(a_.tile.pitch - 1) + a_.reach, a_.w - 1);
    }
    const auto [line, column] = a_.pitch.divide(begin_ + a_.tile.plane_positions - 1);
    const int y_last = y(a_.tile_images.quotient(line));
    const int x_last = min(max(x(column) + a_.reach, -1), a_.w - 1);
    return min(y_last * a_.w + x_last, a_.h * a_.w - 1);
  }

 private:
  const Arguments<Element>& a_;
  int y0_, x0_, begin_;
};

/// Element [tile.n, first_channel, 0, 0] of the tile's group.
template <class T>
__device__ __forceinline__ const Moved<T::kOperands>* origin(
    const Arguments<typename T::Element>& a, const TilePosition& tile, int first_channel) {
  return reinterpret_cast<const Moved<T::kOperands>*>(a.input) + tile.n * a.stride_n +
         (int64_t{tile.group} * a.channels + first_channel) * a.stride_c;
}

/// By a warp: boxes of lines, slab after slab, a lane each. How long that takes limits layers of few products a slab:
/// where lines begin is found once a tap group. Shared memory has no room for more boxes than lanes, twice.
template <class T>
class LineBoxes {
 public:
  using Element = typename T::Element;
  using Moved = fused::Moved<T::kOperands>;

  __device__ __forceinline__ LineBoxes(const Arguments<Element>& a, Block<T> block)
      : a_(a),
        ahead_(a),
        to_(stages(a, block)),
        slab_channels_(ptx::fresh(a.tile.raw.channels >> a.tile.raw.phase_bits)),
        slab_bytes_(ptx::fresh(a.raw_phase * a.tile.raw.boxes() * kBytes)) {
    const RawLines& lines = a.tile.raw;
    const int lane = static_cast<int>(threadIdx.x % 32), parts = lines.apart ? 1 : lines.rows;
    phase_ = lane & (lines.boxes() - 1);
    part_ = lane / lines.boxes();
    has_box_ = part_ < parts;
    in_stage_ = (phase_ * a.raw_phase + part_ * a.raw_line) * kBytes;
    enter_group();
  }

  __device__ __forceinline__ bool ended() const { return ahead_.ended(a_); }
  __device__ __forceinline__ bool has_room() const { return to_.has_room(); }
  __device__ __forceinline__ void wait_for_room() const { to_.wait_for_room(); }

  /// The next slab's; there is room.
  __device__ __forceinline__ void bring() {
    namespace ptx = ::cuda::ptx;
    const bool by_pixels = kMayBeByPixels<T> && a_.tile.raw.by_pixels;
    const int32_t at[] = {by_pixels ? channel_ : column_, by_pixels ? column_ : channel_, row_,
                          image_};
    if (has_box_)
      ptx::cp_async_bulk_tensor(ptx::space_cluster, ptx::space_global, to_.to() + in_stage_, map_,
                                at, to_.full());
    if (im2win::cuda::ptx::elect()) to_.announce(static_cast<uint32_t>(slab_bytes_));
    to_.advance();
    channel_ += slab_channels_;
    ahead_.advance(a_);
    if (ahead_.slab.enters_group) enter_group();
  }

 private:
  static constexpr int kBytes = sizeof(Moved), kWord = kUnitBytes / kBytes;

  __device__ __forceinline__ static FillCursor stages(const Arguments<Element>& a, Block<T> block) {
    if constexpr (T::kShape.pixel_major)
      return {barriers().slabs, a.tile.slab_stages, block.slab(0), a.shared.slab};
    return {barriers().raw, a.tile.raw.stages, block.raw(0), a.shared.raw_stage};
  }

  __device__ __forceinline__ void enter_group() {
    if (ended()) return;
    const TilePosition& tile = ahead_.tile;
    const SlabShare& slab = ahead_.slab;
    const int first_channel = tile.group * static_cast<int>(a_.channels) +
                              slab.chunk * a_.tile.units * a_.tile.unit_channels;
    channel_ = first_channel >> a_.tile.raw.phase_bits;
    if (kMayBeByPixels<T> && a_.tile.raw.by_pixels) channel_ += phase_ * a_.tile.raw.box_channels();
    image_ = static_cast<int32_t>(tile.n);
    if (a_.tile.raw.apart) {
      const auto [phase, down] = phase_of_row(a_, slab.tap_group);
      map_ = &a_.inputs[phase];
      column_ = LinePixels<Element>(a_, tile, 0).begin(kWord);
      row_ = tile.p + down;
    } else {
      map_ = &a_.inputs[0];
      const int first = LinePixels<Element>(a_, tile, slab.tap_group).first(0);
      column_ = ((phase_ * a_.h * a_.w + first) & -kWord) + part_ * a_.tile.raw.pitch;
      row_ = 0;
    }
  }

  const Arguments<Element>& a_;
  SlabWalk<Element> ahead_;
  FillCursor to_;
  int32_t slab_channels_, slab_bytes_;
  // The lane's box: which it is, where in a stage, and of what, in the next slab.
  int32_t phase_, part_, in_stage_;
  bool has_box_;
  const CUtensorMap* map_ = nullptr;
  int32_t column_ = 0, channel_ = 0, row_ = 0, image_ = 0;
};

/// By a warp: the lines of slab after slab, by a copy each.
template <class T>
class RawStaging {
 public:
  using Element = typename T::Element;
  using Moved = fused::Moved<T::kOperands>;
  __device__ __forceinline__ RawStaging(const Arguments<Element>& a, Block<T> block)
      : a_(a),
        block_(block),
        ahead_(a),
        to_(barriers().raw, a.tile.raw.stages, block.raw(0), a.shared.raw_stage) {}

  __device__ __forceinline__ bool ended() const { return ahead_.ended(a_); }
  __device__ __forceinline__ bool has_room() const { return to_.has_room(); }
  __device__ __forceinline__ void wait_for_room() const { to_.wait_for_room(); }

  /// The next slab's; there is room.
  __device__ __forceinline__ void bring() {
    to_.announce(copy_lines());
    ahead_.advance(a_);
    to_.advance();
  }

 private:
  __device__ __forceinline__ int first_channel() const {
    return ahead_.slab.chunk * a_.tile.units * a_.tile.unit_channels;
  }

  /// Returns the bytes that this thread has under way; a lane has every 32nd line.
  __device__ __forceinline__ uint32_t copy_lines() const {
    const LinePixels<Element> pixels(a_, ahead_.tile, ahead_.slab.tap_group);
    const int first_channel = this->first_channel();
    const Moved* input = origin<T>(a_, ahead_.tile, first_channel);
    uint32_t bytes = 0;
    const bool rows_apart = a_.tile.raw.apart;
    int first = pixels.first(0), last = pixels.last(0);  // of all lines, where rows are not apart
    for (int line = threadIdx.x % 32; line < a_.raw_lines; line += 32) {
      int channel_image = line;
      if (rows_apart) {
        const auto [quotient, row] = a_.raw_rows.divide(line);
        channel_image = quotient;
        first = pixels.first(row);
        last = pixels.last(row);
      }
      const auto [channel, image] = a_.tile_images.divide(channel_image);
      const bool exists =
          first <= last && first_channel + channel < a_.channels && ahead_.tile.n + image < a_.n;
      const int count = exists ? (last - first + 1) * a_.raw_column : 0;
      const Moved* from =
          input + channel * a_.stride_c + image * a_.stride_n + first * a_.raw_column;
      const int at = line * a_.tile.raw.pitch;
      if (exists) bytes += copy_line(a_, from, count, to_.to() + at * sizeof(Moved), to_.full());
      if constexpr (T::kOperands == Operands::kSplit) {
        const int begin = at + static_cast<int>(word_shift(from) / sizeof(Moved));
        block_.extents(to_.stage(), a_.raw_lines)[line] = {begin, begin + count};
      }
    }
    return bytes;
  }

  const Arguments<Element>& a_;
  Block<T> block_;
  SlabWalk<Element> ahead_;
  FillCursor to_;
};

/// The units of a slab, read from its raw lines.
template <class T>
class RawUnits {
 public:
  using Element = typename T::Element;
  using Moved = fused::Moved<T::kOperands>;
  static constexpr int kElements = traits(T::kOperands).unit_elements;

  /// Bytes from a position to another of its plane, so many columns to the right, in a stage of lines.
  __device__ __forceinline__ static int offset(const Arguments<Element>& a, int image, int row,
                                               int right) {
    const RawLines& lines = a.tile.raw;
    const int line = image * lines.rows + (lines.apart ? row : 0);
    const int in_line = lines.apart ? right : row * a.stride_h * a.w + right;
    return (line * a.raw_line + in_line * a.raw_column) * kBytes;
  }
  /// And from its first unit to another.
  __device__ __forceinline__ static int offset(const Arguments<Element>& a, int unit) {
    if (!is_by_pixels(a)) return unit * unit_bytes(a);
    const int of_box = a.tile.raw.box_channels() / kElements;
    return unit / of_box * a.raw_phase * kBytes + unit % of_box * unit_bytes(a);
  }

  /// A position of a plane: its image, and how far down and to the right it is in the input, from where lines' pixels
  /// are counted.
  struct Position {
    int image, row, down, right;

    __device__ __forceinline__ Position(const Arguments<Element>& a, int plane, int number) {
      const auto [line, column] = a.pitch.divide(number);
      const auto [row_of_line, image_of_line] = a.tile_images.divide(line);
      image = image_of_line;
      row = row_of_line;
      down = row * a.stride_h;
      right = column * a.stride_w + a.tile.origin[plane];
    }
    __device__ __forceinline__ bool is_in(const Edges& edges) const {
      return right >= -edges.left && right < edges.right && down >= -edges.top &&
             down < edges.bottom;
    }
  };
  __device__ __forceinline__ static int offset(const Arguments<Element>& a, const Position& at) {
    return offset(a, at.image, at.row, at.right - a.tile.origin[0]);
  }

  /// Where an element of the first unit is for the slabs of a tile's tap group, in shared memory, at the first position.
  __device__ __forceinline__ static uint32_t address(const Arguments<Element>& a, Block<T> block,
                                                     const TilePosition& tile, const Tap& tap,
                                                     int element) {
    const auto [first, lines] = find_lines(a, block, tile, tap);
    const uint32_t start = a.tile.raw.apart ? 0u : past_words(a, origin<T>(a, tile, 0) + first);
    return lines + static_cast<uint32_t>(element_at(a, start, element, 0) * kBytes);
  }

  /// For the slabs of a tile's tap group, offsets of whose positions are from the first.
  __device__ __forceinline__ void enter(const Arguments<Element>& a, Block<T> block,
                                        const TilePosition& tile, const Tap& tap) {
    const auto [first, lines] = find_lines(a, block, tile, tap);
    unit_channels_ = a.tile.unit_channels;
    unit_columns_ = a.tile.unit_columns;
    unit_bytes_ = unit_bytes(a);
    if (is_by_pixels(a)) {
      address_[0] = ptx::fresh(static_cast<int32_t>(lines));
      swizzle_ = a.raw_column * kBytes - kUnitBytes;
    } else {
      find_elements(a, lines, origin<T>(a, tile, 0) + first * a.raw_column);
    }
  }

  static constexpr uint32_t kAll = (1u << kElements) - 1;

  /// A bit for each element of a unit that is in the input, if its row is, of a slab with so many channels or
  /// more.
  __device__ __forceinline__ uint32_t existing(const Place& place, int unit, int channels) const {
    channels -= unit * unit_channels_;
    if (unit_columns_ > 1 || channels >= kElements) return place.elements;  // see Place
    return place.elements & ((1u << max(channels, 0)) - 1);
  }

  /// A unit whose elements all exist, of which the first unit's are so far on.
  __device__ __forceinline__ void load(uint32_t from, int unit, Moved (&x)[kElements]) const {
    load(from + unit * unit_bytes_, x);
  }
  __device__ __forceinline__ void load(uint32_t from, Moved (&x)[kElements]) const {
    if constexpr (kMayBeByPixels<T>) {
      if (swizzle_ != 0) return load_words(address_[0] + from, x);
    }
#pragma unroll
    for (int e = 0; e < kElements; ++e) x[e] = ptx::load_shared<Moved>(address_[e] + from);
  }

  /// Or zeros.
  __device__ __forceinline__ void load_if(bool exists, uint32_t from, Moved (&x)[kElements]) const {
#pragma unroll
    for (int e = 0; e < kElements; ++e)
      x[e] = ptx::load_shared_if<Moved>(exists, address_[e] + from);
  }

  /// Zero for those that do not.
  __device__ __forceinline__ void load_existing(uint32_t from, int unit, uint32_t elements,
                                                Moved (&x)[kElements]) const {
    from += unit * unit_bytes_;
#pragma unroll
    for (int e = 0; e < kElements; ++e)
      x[e] = ptx::load_shared_if<Moved>((elements >> e & 1) != 0, address_[e] + from);
  }

 private:
  static constexpr int kBytes = sizeof(Moved);

  __device__ __forceinline__ static bool is_by_pixels(const Arguments<Element>& a) {
    return kMayBeByPixels<T> && a.tile.raw.by_pixels;
  }
  __device__ __forceinline__ static int unit_bytes(const Arguments<Element>& a) {
    if (is_by_pixels(a)) return kElements * kBytes;
    return (a.tile.unit_channels >> a.tile.raw.phase_bits) * a.raw_channel * kBytes;
  }

  /// The first pixel of a tap group's lines, and where that of a tile's first position is in the first stage.
  struct FirstLine {
    int first;
    uint32_t lines;
  };
  __device__ __forceinline__ static FirstLine find_lines(const Arguments<Element>& a,
                                                         Block<T> block, const TilePosition& tile,
                                                         const Tap& tap) {
    const LinePixels<Element> pixels(a, tile, tap.row);
    const int first = pixels.first(0), x0 = pixels.x(0) + a.tile.origin[tap.column];
    const int before =
        a.tile.raw.apart ? x0 - pixels.begin(kUnitBytes / kBytes) : pixels.y(0) * a.w + x0 - first;
    return {first, ptx::shared_address(block.raw(0)) +
                       static_cast<uint32_t>(before * a.raw_column * kBytes)};
  }

  /// `first` is where the first line begins in the input. Lines of rows in boxes begin with a word; others begin as far
  /// past 16 bytes as their elements do in the input, which is the same for all of a channel, and for channels that
  /// are a unit's apart (see raw_lines.cpp).
  __device__ __forceinline__ void find_elements(const Arguments<Element>& a, uint32_t lines,
                                                const Moved* first) {
    const uint32_t start = a.tile.raw.boxed && a.tile.raw.apart ? 0u : past_words(a, first);
#pragma unroll
    for (int e = 0; e < kElements; ++e) {
      const int element = element_at(a, start, channel(e), column(e));
      // The compiler would rather compute all this again for each of many loads.
      address_[e] = ptx::fresh(static_cast<int32_t>(lines) + element * kBytes);
    }
  }

  /// Of the first unit, of lines that begin so many elements past a word: a channel's of a column.
  __device__ __forceinline__ static int element_at(const Arguments<Element>& a, uint32_t start,
                                                   int channel, int column) {
    const int phase_bits = a.tile.raw.phase_bits, phase = channel & ((1 << phase_bits) - 1);
    const uint32_t shift = (start + channel * a.raw_shift) % (kUnitBytes / kBytes);
    return phase * a.raw_phase + (channel >> phase_bits) * a.raw_channel +
           column * a.dilation_w * a.raw_column + static_cast<int>(shift);
  }

  /// Elements from a word of memory, or, as lines are put elsewhere than boxes would if the input is no words, of it.
  __device__ __forceinline__ static uint32_t past_words(const Arguments<Element>& a,
                                                        const Moved* first) {
    if constexpr (T::kShape.pixel_major)
      return static_cast<uint32_t>(first - reinterpret_cast<const Moved*>(a.input));
    return static_cast<uint32_t>(reinterpret_cast<uintptr_t>(first) / sizeof(Moved));
  }

  /// Two neighbouring words. Where 16 bytes are in swizzled rows, see swizzled_place: lanes of eight positions in a row
  /// have different banks.
  __device__ __forceinline__ void load_words(uint32_t at, Moved (&x)[kElements]) const {
    at ^= at >> 3 & static_cast<uint32_t>(swizzle_);
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      const float4 word = ptx::load_shared<float4>(at ^ i * kUnitBytes);
      x[4 * i] = word.x;
      x[4 * i + 1] = word.y;
      x[4 * i + 2] = word.z;
      x[4 * i + 3] = word.w;
    }
  }

  __device__ __forceinline__ int channel(int e) const { return e & (unit_channels_ - 1); }
  __device__ __forceinline__ int column(int e) const { return e >> __popc(unit_channels_ - 1); }

  int unit_channels_ = 0, unit_columns_ = 0;
  int unit_bytes_ = 0;               // from a unit to the next
  int32_t address_[kElements] = {};  // of the first unit's elements at offset 0, in shared memory
  int32_t swizzle_ = 0;  // the bits of addresses that are exchanged where lines are by pixels
};

}  // namespace im2win::cuda::fused
