// Rows of pixels (see tile.hpp) of inputs that are no words of 16 bytes, and so cannot come as boxes.
#pragma once

#include <cstdint>

#include "cuda/fused/arguments.cuh"
#include "cuda/fused/block.cuh"
#include "cuda/fused/operands.cuh"
#include "cuda/fused/raw.cuh"
#include "cuda/fused/slabs.cuh"
#include "cuda/ptx.cuh"

namespace im2win::cuda::fused {

/// Where words of so many neighbouring pixels of a channel come from, and where boxes would have put them. A lane has the
/// same columns of all channels, and a warp every so manyth channel, in *turns*: its places in a slab are eight, over and
/// over, and where its words come from is found once a tile.
template <class T, int kPixels>
class PixelWords {
 public:
  using Element = typename T::Element;
  using Moved = fused::Moved<T::kOperands>;

  static constexpr int kBytes = kPixels * static_cast<int>(sizeof(Moved));
  static constexpr int kWarps = T::kStagingThreads / 32;
  static constexpr int kMostChannels = kRowUnits * kWordPixels;  // of a slab
  static constexpr int kTurns = (kMostChannels + kWarps - 1) / kWarps;
  static constexpr int kWarpPixels = 32 * kPixels;
  static constexpr int kWords = (T::kShape.columns + kWarpPixels - 1) / kWarpPixels;  // of a lane

  __device__ __forceinline__ explicit PixelWords(const Arguments<Element>& a)
      : a_(a),
        warp_(static_cast<int>(threadIdx.x) / 32),
        columns_(ptx::fresh(a.tile.product_columns)),
        channels_(ptx::fresh(a.tile.units * a.tile.unit_channels)),
        apart_(ptx::fresh(static_cast<int32_t>(a.stride_c) * static_cast<int>(sizeof(Moved)))) {
    const int first = column(0) % kRowPixels;
    const int block = column(0) / kRowPixels * block_bytes();
    const int in_unit = first % kWordPixels * static_cast<int>(sizeof(Moved));
#pragma unroll
    for (int i = 0; i < kPlaces; ++i)
      places_[i] = block + in_unit +
                   swizzled_place(warp_ + i * kWarps, first / kWordPixels, kRowUnits) * kUnitBytes;
  }

  /// A tile, at a slab.
  __device__ __forceinline__ void enter(const SlabWalk<Element>& at) {
    const Moved* const from = origin<T>(a_, at.tile, at.slab.chunk * channels_ + warp_);
#pragma unroll
    for (int word = 0; word < kWords; ++word) {
      const auto [row, pixel] = a_.pitch.divide(at.tile.begin + column(word));
      left_[word] = at.tile.p + row < a_.h ? a_.w - pixel : 0;
      from_[word] = from + (left_[word] > 0 ? int64_t{at.tile.p + row} * a_.row_stride + pixel : 0);
    }
  }
  /// To the next slab.
  __device__ __forceinline__ void advance() {
#pragma unroll
    for (int word = 0; word < kWords; ++word)
      from_[word] = ptx::further(from_[word], apart_, channels_);
  }

  /// Of the slab, how many channels from the warp's first on are in the input.
  __device__ __forceinline__ int channels(const SlabShare& slab) const {
    return min(static_cast<int>(a_.channels) - slab.chunk * channels_, channels_) - warp_;
  }
  __device__ __forceinline__ const Moved* from(int word, int turn) const {
    return ptx::further(from_[word], apart_, turn * kWarps);
  }
  /// Of the word, one of its pixels, if the slab has so many channels: see channels().
  __device__ __forceinline__ bool exists(int word, int turn, int channels, int pixel = 0) const {
    return pixel < left_[word] && turn * kWarps < channels;
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

  /// The first of a lane's words.
  __device__ __forceinline__ static int column(int word) {
    return word * kWarpPixels + static_cast<int>(threadIdx.x) % 32 * kPixels;
  }
  /// Of 64 pixels of all channels.
  __device__ __forceinline__ int block_bytes() const { return channels_ * kRowBytes; }

  const Arguments<Element>& a_;
  int warp_;
  int columns_;           // of a tile
  int channels_, apart_;  // of a slab, and bytes between them
  int places_[kPlaces];
  const Moved* from_[kWords];
  int left_[kWords];  // pixels of the row in the input, from the word's first on
};

/// By asynchronous copies.
template <class T, int kPixels>
class PixelRowCopies {
 public:
  using Element = typename T::Element;

  __device__ __forceinline__ PixelRowCopies(const Arguments<Element>& a, Block<T> block)
      : a_(a), block_(block), words_(a) {}

  __device__ __forceinline__ void run() {
    bool is_first = true;
    for (SlabWalk<Element> at(a_); !at.ended(a_); at.advance(a_)) {
      if (at.slab.enters_group) words_.enter(at);
      if (is_first) wait_for_inputs(a_);
      is_first = false;
      barriers().slabs.wait_empty(cursor_);
      if (words_.are_largest()) {
        copy<true>(words_.channels(at.slab));
      } else {
        copy<false>(words_.channels(at.slab));
      }
      words_.advance();
      barriers().slabs.arrive_full_after_copies(cursor_.stage);
      cursor_.advance(a_.tile.slab_stages);
    }
  }

 private:
  using Words = PixelWords<T, kPixels>;

  template <bool kLargest>
  __device__ __forceinline__ void copy(int channels) {
    const uint32_t slab = ptx::shared_address(block_.slab(cursor_.stage));
#pragma unroll
    for (int word = 0; word < Words::kWords; ++word) {
      if (!words_.has_columns(word)) break;
#pragma unroll
      for (int turn = 0; turn < Words::kTurns; ++turn) {
        if (!words_.template has<kLargest>(turn)) break;
        ptx::copy_async_if<Words::kBytes>(words_.exists(word, turn, channels),
                                          slab + static_cast<uint32_t>(words_.place(word, turn)),
                                          words_.from(word, turn));
      }
    }
  }

  const Arguments<Element>& a_;
  Block<T> block_;
  Words words_;
  Cursor cursor_;
};

/// Pixel by pixel, which are too short for such copies, by way of registers, and two at a time from there. While a part of
/// a slab is stored, the others of the next are under way.
template <class T>
class PixelRowLoads {
 public:
  using Element = typename T::Element;

  __device__ __forceinline__ PixelRowLoads(const Arguments<Element>& a, Block<T> block)
      : a_(a), block_(block), words_(a) {}

  __device__ __forceinline__ void run() {
    SlabWalk<Element> next(a_);
    if (next.ended(a_)) return;
    words_.enter(next);
    wait_for_inputs(a_);
#pragma unroll
    for (int word = 0; word < Words::kWords; ++word) load(word, words_.channels(next.slab));
    for (bool more = true; more;) {
      next.advance(a_);
      more = !next.ended(a_);
      if (more && next.slab.enters_group) {
        words_.enter(next);
      } else {
        words_.advance();
      }
      move(more ? words_.channels(next.slab) : 0);
    }
  }

 private:
  using Words = PixelWords<T, 2>;
  using Moved = typename Words::Moved;

  /// A slab to its stage, and so many channels of the next one to its place.
  __device__ __forceinline__ void move(int next_channels) {
    barriers().slabs.wait_empty(cursor_);
    char* const slab = block_.slab(cursor_.stage);
#pragma unroll
    for (int word = 0; word < Words::kWords; ++word) {
#pragma unroll
      for (int turn = 0; turn < Words::kTurns; ++turn)
        if (words_.template has<false>(turn))
          *reinterpret_cast<uint32_t*>(slab + words_.place(word, turn)) =
              uint32_t{x_[word][turn][0]} | uint32_t{x_[word][turn][1]} << 16;
      load(word, next_channels);
    }
    barriers().slabs.arrive_full_by_warp(cursor_.stage);
    cursor_.advance(a_.tile.slab_stages);
  }

  __device__ __forceinline__ void load(int word, int channels) {
#pragma unroll
    for (int turn = 0; turn < Words::kTurns; ++turn)
#pragma unroll
      for (int pixel = 0; pixel < 2; ++pixel)
        x_[word][turn][pixel] = ptx::load_if(words_.exists(word, turn, channels, pixel),
                                             words_.from(word, turn) + pixel);
  }

  const Arguments<Element>& a_;
  Block<T> block_;
  Words words_;
  Moved x_[Words::kWords][Words::kTurns][2];
  Cursor cursor_;
};

/// Element by element, of inputs that do not begin at a multiple of 16 bytes; in wide tiles words, too.
template <class T>
class PixelRowStaging {
 public:
  __device__ __forceinline__ PixelRowStaging(const Arguments<typename T::Element>& a,
                                             Block<T> block)
      : a_(a), block_(block) {}

  __device__ __forceinline__ void run() {
    wait_for_inputs(a_);
    for (SlabWalk<typename T::Element> at(a_); !at.ended(a_); at.advance(a_))
      stage(at.tile, at.slab.chunk);
  }

 private:
  using Moved = fused::Moved<T::kOperands>;

  __device__ __forceinline__ void stage(const TilePosition& tile, int chunk) {
    const int rows = a_.tile.units * a_.tile.unit_channels;
    barriers().slabs.wait_empty(cursor_);
    char* const slab = block_.slab(cursor_.stage);
    const int words = a_.tile.positions / kWordPixels * rows;
    for (int i = static_cast<int>(threadIdx.x); i < words; i += T::kStagingThreads) {
      const int row = i / kRowUnits, word = i % kRowUnits;  // of all blocks of pixels
      const int column = row / rows * kRowPixels + word * kWordPixels;
      Moved x[kWordPixels];
      load(tile, chunk * rows + row % rows, column, x);
      *reinterpret_cast<uint4*>(slab + swizzled_place(row, word, kRowUnits) * kUnitBytes) =
          pack_unit(x);
    }
    barriers().slabs.arrive_full_by_warp(cursor_.stage);
    cursor_.advance(a_.tile.slab_stages);
  }

  /// Neighbours, zero outside the input.
  __device__ __forceinline__ void load(const TilePosition& tile, int channel, int column,
                                       Moved (&x)[kWordPixels]) const {
    const auto [row, pixel] = a_.pitch.divide(tile.begin + column);
    const bool exists = channel < a_.channels && tile.p + row < a_.h;
    const Moved* from = origin<T>(a_, tile, channel) + int64_t{tile.p + row} * a_.row_stride +
                        int64_t{pixel} * a_.column_stride;
#pragma unroll
    for (int i = 0; i < kWordPixels; ++i)
      x[i] = ptx::load_if(exists && pixel + i < a_.w, from + int64_t{i} * a_.column_stride);
  }

  const Arguments<typename T::Element>& a_;
  Block<T> block_;
  Cursor cursor_;
};

}  // namespace im2win::cuda::fused
