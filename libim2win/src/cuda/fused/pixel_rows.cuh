// Rows of pixels (see tile.hpp) of inputs that are no words of 16 bytes, or of which windows have some, and that so cannot
// come as boxes.
#pragma once

#include <cstdint>
#include <type_traits>

#include "cuda/fused/arguments.cuh"
#include "cuda/fused/block.cuh"
#include "cuda/fused/operands.cuh"
#include "cuda/fused/raw.cuh"
#include "cuda/fused/slabs.cuh"
#include "cuda/ptx.cuh"

namespace im2win::cuda::fused {

/// Where words of so many neighbouring pixels of a channel go, which is where boxes would have put them. A lane has the
/// same columns of all channels, and a warp every so manyth channel, in *turns*: its places in a slab are eight, over and
/// over.
template <class T, int kPixels>
class PixelPlaces {
 public:
  using Element = typename T::Element;
  using Moved = fused::Moved<T::kOperands>;

  static constexpr int kWarps = T::kStagingThreads / 32;
  static constexpr int kMostChannels = kRowUnits * kWordPixels;  // of a slab
  static constexpr int kTurns = (kMostChannels + kWarps - 1) / kWarps;
  static constexpr int kWarpPixels = 32 * kPixels;
  static constexpr int kWords = (T::kShape.columns + kWarpPixels - 1) / kWarpPixels;  // of a lane

  __device__ __forceinline__ explicit PixelPlaces(const Tile& tile)
      : warp_(static_cast<int>(threadIdx.x) / 32),
        columns_(ptx::fresh(tile.product_columns)),
        channels_(ptx::fresh(tile.units * tile.unit_channels)) {
    const int first = column(0) % kRowPixels;
    const int block = column(0) / kRowPixels * block_bytes();
    const int in_unit = first % kWordPixels * static_cast<int>(sizeof(Moved));
#pragma unroll
    for (int i = 0; i < kPlaces; ++i)
      places_[i] = block + in_unit +
                   swizzled_place(warp_ + i * kWarps, first / kWordPixels, kRowUnits) * kUnitBytes;
  }

  /// The first of a lane's words.
  __device__ __forceinline__ static int column(int word) {
    return word * kWarpPixels + static_cast<int>(threadIdx.x) % 32 * kPixels;
  }
  /// Of a slab, and in it the warp's first one.
  __device__ __forceinline__ int channels() const { return channels_; }
  __device__ __forceinline__ int first_channel(const SlabShare& slab) const {
    return slab.chunk * channels_ + warp_;
  }
  /// From the warp's first one on, how many the slab has of so many that the input has.
  __device__ __forceinline__ int channels(const SlabShare& slab, int64_t of_input) const {
    return min(static_cast<int>(of_input) - slab.chunk * channels_, channels_) - warp_;
  }
  /// Whether these are all that the largest slab has.
  __device__ __forceinline__ bool has_most(int channels) const {
    return channels == kMostChannels - warp_;
  }
  /// Whether the tile has as many columns.
  __device__ __forceinline__ bool has_columns(int word) const {
    return (word + 1) * kWarpPixels <= T::kShape.least_columns || column(word) < columns_;
  }
  /// Whether slabs have as many channels as any.
  __device__ __forceinline__ bool are_largest() const { return channels_ == kMostChannels; }
  /// Whether a slab has a channel for it: one of the largest has for all turns but the last.
  template <bool kLargest>
  __device__ __forceinline__ bool has(int turn) const {
    if (kLargest && (turn + 1) * kWarps <= kMostChannels) return true;
    return warp_ + turn * kWarps < (kLargest ? kMostChannels : channels_);
  }
  /// In bytes from the slab's beginning. What is half a row of 64 pixels further on differs in a bit.
  __device__ __forceinline__ int place(int word, int turn) const {
    const int block = word * kWarpPixels / kRowPixels, in_row = word * kWarpPixels % kRowPixels;
    return (places_[turn % kPlaces] ^ in_row * static_cast<int>(sizeof(Moved))) +
           turn / kPlaces * kPlaces * kWarps * kRowBytes + block * block_bytes();
  }

 private:
  static constexpr int kPlaces = kRowUnits;  // among which swizzles exchange

  /// Of 64 pixels of all channels.
  __device__ __forceinline__ int block_bytes() const { return channels_ * kRowBytes; }

  int warp_;
  int columns_;   // of a tile
  int channels_;  // of a slab
  int places_[kPlaces];
};

/// Bytes from a channel to the next.
template <class Element>
__device__ __forceinline__ int32_t channel_bytes(const Arguments<Element>& a) {
  return ptx::fresh(static_cast<int32_t>(a.stride_c) * static_cast<int>(sizeof(Element)));
}

/// Where the pixel of a tile's column is: from the beginning of a channel of its first image; and how many the row has from
/// there on. None if that is no image's.
struct PixelPlace {
  int64_t offset;
  int left;

  template <class Element>
  __device__ __forceinline__ PixelPlace(const Arguments<Element>& a, const TilePosition& tile,
                                        int column) {
    const auto [line, q] = a.pitch.divide(tile.begin + column);
    const auto [row, image] = a.tile_images.divide(line);
    const int p = tile.p + row;
    left = p < a.p && tile.n + image < a.n ? a.q - q : 0;
    offset = left > 0 ? image * a.stride_n + int64_t{p * a.stride_h} * a.row_stride +
                            int64_t{q * a.stride_w} * a.column_stride
                      : 0;
  }
};

/// Words of neighbouring pixels, by asynchronous copies. Where they come from is found once a tile.
template <class T, int kPixels>
class PixelRowCopies {
 public:
  using Element = typename T::Element;

  __device__ __forceinline__ PixelRowCopies(const Arguments<Element>& a, Block<T> block)
      : a_(a), block_(block), places_(a.tile), apart_(channel_bytes(a)) {}

  __device__ __forceinline__ void run() {
    bool is_first = true;
    for (SlabWalk<Element> at(a_); !at.ended(a_); at.advance(a_)) {
      if (at.slab.enters_group) enter(at);
      if (is_first) wait_for_inputs(a_);
      is_first = false;
      barriers().slabs.wait_empty(cursor_);
      if (places_.are_largest()) {
        copy<true>(places_.channels(at.slab, a_.channels));
      } else {
        copy<false>(places_.channels(at.slab, a_.channels));
      }
      barriers().slabs.arrive_full_after_copies(cursor_.stage);
      cursor_.advance(a_.tile.slab_stages);
    }
  }

 private:
  using Places = PixelPlaces<T, kPixels>;
  static constexpr int kWarps = Places::kWarps;
  using Moved = typename Places::Moved;
  static constexpr int kBytes = kPixels * static_cast<int>(sizeof(Moved));

  /// A tile, at a slab.
  __device__ __forceinline__ void enter(const SlabWalk<Element>& at) {
    const Moved* const from = origin<T>(a_, at.tile, places_.first_channel(at.slab));
#pragma unroll
    for (int word = 0; word < Places::kWords; ++word) {
      const PixelPlace place(a_, at.tile, Places::column(word));
      exists_[word] = place.left > 0;
      from_[word] = from + place.offset;
    }
  }

  template <bool kLargest>
  __device__ __forceinline__ void copy(int channels) {
    const uint32_t slab = ptx::shared_address(block_.slab(cursor_.stage));
#pragma unroll
    for (int word = 0; word < Places::kWords; ++word) {
      if (!places_.has_columns(word)) break;
#pragma unroll
      for (int turn = 0; turn < Places::kTurns; ++turn) {
        if (!places_.template has<kLargest>(turn)) break;
        ptx::copy_async_if<kBytes>(exists_[word] && turn * kWarps < channels,
                                   slab + static_cast<uint32_t>(places_.place(word, turn)),
                                   ptx::further(from_[word], apart_, turn * kWarps));
      }
      from_[word] = ptx::further(from_[word], apart_, places_.channels());
    }
  }

  const Arguments<Element>& a_;
  Block<T> block_;
  Places places_;
  int32_t apart_;
  const Moved* from_[Places::kWords];
  bool exists_[Places::kWords];
  Cursor cursor_;
};

enum class PixelSteps {
  kNone,     // pixels are neighbours, and come one by one
  kAny,      // they are apart, and come one by one
  kInWords,  // every other one is a window's, of words of twice as many
};

/// By way of registers, of pixels that are too short for such copies, or apart, and words from there. While a part of a slab
/// is stored, the others of the next are under way.
template <class T, int kPixels, PixelSteps kSteps>
class PixelRowLoads {
 public:
  using Element = typename T::Element;

  __device__ __forceinline__ PixelRowLoads(const Arguments<Element>& a, Block<T> block)
      : a_(a),
        block_(block),
        places_(a.tile),
        apart_(channel_bytes(a)),
        step_(kSteps == PixelSteps::kAny ? ptx::fresh(a.stride_w) : 1) {}

  __device__ __forceinline__ void run() {
    SlabWalk<Element> next(a_);
    if (next.ended(a_)) return;
    enter(next);
    wait_for_inputs(a_);
#pragma unroll
    for (int word = 0; word < Places::kWords; ++word) load(word, channels(next));
    for (bool more = true; more;) {
      next.advance(a_);
      more = !next.ended(a_);
      if (more && next.slab.enters_group) {
        enter(next);
      } else {
        advance();
      }
      move(more ? channels(next) : 0);
    }
  }

 private:
  using Places = PixelPlaces<T, kPixels>;
  using Moved = typename Places::Moved;
  static constexpr int kWarps = Places::kWarps;
  static constexpr bool kInWords = kSteps == PixelSteps::kInWords;
  // Of a word's input, a register for each pixel, which is its low half.
  using Loaded = std::conditional_t<kInWords, uint32_t, Moved>;

  __device__ __forceinline__ int channels(const SlabWalk<Element>& at) const {
    return places_.channels(at.slab, a_.channels);
  }

  /// A tile, at a slab.
  __device__ __forceinline__ void enter(const SlabWalk<Element>& at) {
    const Moved* const from = origin<T>(a_, at.tile, places_.first_channel(at.slab));
#pragma unroll
    for (int word = 0; word < Places::kWords; ++word) {
      const PixelPlace place(a_, at.tile, Places::column(word));
      left_[word] = place.left;
      from_[word] = from + place.offset;
    }
  }
  /// To the next slab.
  __device__ __forceinline__ void advance() {
#pragma unroll
    for (int word = 0; word < Places::kWords; ++word)
      from_[word] = ptx::further(from_[word], apart_, places_.channels());
  }

  /// A slab to its stage, and so many channels of the next one to its place.
  __device__ __forceinline__ void move(int next_channels) {
    barriers().slabs.wait_empty(cursor_);
    char* const slab = block_.slab(cursor_.stage);
#pragma unroll
    for (int word = 0; word < Places::kWords; ++word) {
      if (places_.are_largest()) {
        store<true>(word, slab);
      } else {
        store<false>(word, slab);
      }
      load(word, next_channels);
    }
    barriers().slabs.arrive_full_by_warp(cursor_.stage);
    cursor_.advance(a_.tile.slab_stages);
  }

  template <bool kLargest>
  __device__ __forceinline__ void store(int word, char* slab) const {
#pragma unroll
    for (int turn = 0; turn < Places::kTurns; ++turn)
      if (places_.template has<kLargest>(turn))
        store(slab + places_.place(word, turn), x_[word][turn]);
  }
  __device__ __forceinline__ static void store(char* to, const Loaded (&x)[kPixels]) {
    uint32_t pairs[kPixels / 2];
#pragma unroll
    for (int i = 0; i < kPixels / 2; ++i) pairs[i] = pair(x[2 * i], x[2 * i + 1]);
    if constexpr (kPixels == 2) {
      *reinterpret_cast<uint32_t*>(to) = pairs[0];
    } else {
      *reinterpret_cast<uint2*>(to) = make_uint2(pairs[0], pairs[1]);
    }
  }
  __device__ __forceinline__ static uint32_t pair(uint16_t x, uint16_t y) {
    return uint32_t{x} | uint32_t{y} << 16;
  }
  __device__ __forceinline__ static uint32_t pair(uint32_t x, uint32_t y) {
    return __byte_perm(x, y, 0x5410);  // their low halves
  }

  /// Anything for pixels that do not exist, where no channel is missing and nobody looks at such columns' sums: what comes
  /// one by one is limited by instructions. Or zeros.
  __device__ __forceinline__ void load(int word, int channels) {
    if (kInWords || !places_.has_most(channels) || a_.rechecks) {
      load<false>(word, channels);
    } else {
      load<true>(word, channels);
    }
  }
  template <bool kAll>
  __device__ __forceinline__ void load(int word, int channels) {
#pragma unroll
    for (int turn = 0; turn < Places::kTurns; ++turn) {
      if (kAll && !places_.template has<true>(turn)) break;
      const Moved* const from = ptx::further(from_[word], apart_, turn * kWarps);
      const bool has_channel = kAll || turn * kWarps < channels;
      Loaded(&x)[kPixels] = x_[word][turn];
      if constexpr (kInWords) {
        load_word(has_channel && left_[word] > 0, from, x);
      } else {
#pragma unroll
        for (int pixel = 0; pixel < kPixels; ++pixel) {
          const bool exists = has_channel && pixel < left_[word];
          const Moved* const at = from + pixel * step_;
          x[pixel] = kAll ? ptx::load_or_any(exists, at) : ptx::load_if(exists, at);
        }
      }
    }
  }

  __device__ __forceinline__ static void load_word(bool exists, const Moved* from,
                                                   uint32_t (&x)[2]) {
    const uint2 word = ptx::load_if(exists, reinterpret_cast<const uint2*>(from));
    x[0] = word.x;
    x[1] = word.y;
  }
  __device__ __forceinline__ static void load_word(bool exists, const Moved* from,
                                                   uint32_t (&x)[4]) {
    const uint4 word = ptx::load_if(exists, reinterpret_cast<const uint4*>(from));
    x[0] = word.x;
    x[1] = word.y;
    x[2] = word.z;
    x[3] = word.w;
  }

  const Arguments<Element>& a_;
  Block<T> block_;
  Places places_;
  int32_t apart_, step_;  // bytes from a channel to the next, and elements from a pixel
  const Moved* from_[Places::kWords];
  int left_[Places::kWords];  // pixels of the row, from the word's first on
  Loaded x_[Places::kWords][Places::kTurns][kPixels];
  Cursor cursor_;
};

/// Element by element, of inputs that do not begin at a multiple of 16 bytes, whatever tiles these have.
template <class T>
class PixelRowStaging {
 public:
  using Element = typename T::Element;

  __device__ __forceinline__ PixelRowStaging(const Arguments<Element>& a, Block<T> block)
      : a_(a), block_(block) {}

  __device__ __forceinline__ void run() {
    wait_for_inputs(a_);
    for (SlabWalk<Element> at(a_); !at.ended(a_); at.advance(a_)) stage(at);
  }

 private:
  using Moved = fused::Moved<T::kOperands>;

  __device__ __forceinline__ void stage(const SlabWalk<Element>& at) {
    const int rows = a_.tile.units * a_.tile.unit_channels;
    barriers().slabs.wait_empty(cursor_);
    char* const slab = block_.slab(cursor_.stage);
    const int words = a_.tile.positions / kWordPixels * rows;
    for (int i = static_cast<int>(threadIdx.x); i < words; i += T::kStagingThreads) {
      const int row = i / kRowUnits, word = i % kRowUnits;  // of all blocks of pixels
      const int column = row / rows * kRowPixels + word * kWordPixels;
      const int channel = at.slab.chunk * rows + row % rows;
      Moved x[kWordPixels];
#pragma unroll
      for (int pixel = 0; pixel < kWordPixels; ++pixel)
        x[pixel] = load(at.tile, channel, column + pixel);
      *reinterpret_cast<uint4*>(slab + swizzled_place(row, word, kRowUnits) * kUnitBytes) =
          pack_unit(x);
    }
    barriers().slabs.arrive_full_by_warp(cursor_.stage);
    cursor_.advance(a_.tile.slab_stages);
  }

  /// Or zero outside the input.
  __device__ __forceinline__ Moved load(const TilePosition& tile, int channel, int column) const {
    const PixelPlace place(a_, tile, column);
    return ptx::load_if(channel < a_.channels && place.left > 0,
                        origin<T>(a_, tile, channel) + place.offset);
  }

  const Arguments<Element>& a_;
  Block<T> block_;
  Cursor cursor_;
};

}  // namespace im2win::cuda::fused
