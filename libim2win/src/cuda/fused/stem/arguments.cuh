// What a launch of im2win_stem is given, what the warps of a block share, and the strips of a block.
#pragma once

#include <cstdint>

#include "cuda/divisor.hpp"
#include "cuda/fused/arguments.cuh"
#include "cuda/fused/block.cuh"
#include "cuda/fused/stem/tile.hpp"

namespace im2win::cuda::fused::stem {

/// How lines of the input lie in memory, for those who ask for them in advance.
struct Lines {
  Divisor channels;  // of an input row, each a line; 1 where they are neighbours
  int32_t elements;  // from a pixel to the next; 0: there are no lines
};

/// What a row's outputs are written as, if they are the sums and a bias, perhaps clamped from below.
enum class RowOrder : int32_t {
  kOne,      // one by one, as any others
  kBoxes,    // of 64 filters
  kFilters,  // words of a pixel's filters
  kPixels,   // words of a filter's pixels
  kSectors,  // of memory, of a filter's pixels: see SectorRows
};

/// A chunk of a row of a strip, by one of the block's sets of filters; those of a row by each set are numbered.
struct Piece {
  int32_t row, number;
};

template <class Element>
struct Arguments : fused::Arguments<Element> {
  Bands bands;
  // By a band's lines, or by the positions of one (see BandStaging::place_of), or of a row of outputs (RawStaging::Item).
  Divisor run_order;
  int32_t rows;       // of an image: of outputs, of bands that have several of them, or runs
  int32_t band_step;  // rows of the input from one of them to the next
  Divisor band_channels;
  Lines lines;
  RowOrder row_order;
  // Blocks have some tiles' filters each, take turns with these, and share the strips that have the same.
  int32_t sets;
  Divisor filter_sets, group_sets;
  // Of filters that are gathered from where they are (see FilterGatherer), their units; 0: they are packed. And in how many
  // rounds lanes bring those of some filters.
  FilterUnit gathered[kMostGatheredUnits];
  int32_t gathered_units = 0;
  Divisor unit_rounds{1};
  // Of a row of a strip: its chunks, and these by each of the block's sets of filters.
  Divisor row_chunks, row_pieces;
  // Warpgroups take turns with pieces, or with rows, whose pieces each then writes one after another. Then
  // `next_piece` is one further on, else as many as there are warpgroups.
  int32_t group_rows = 1;  // that they are at: one, or one each
  Piece next_piece;
  // Of an image's pixels, where strips are of runs of them: those of a row, all, and how many are written at once.
  Divisor row_pixels;
  int32_t pixels;
  int32_t run_word;
  // Whether windows of neighbouring positions come by words of two elements: see PairStaging.
  bool pairs;
  // Blocks share out the rows of a set's strips, `group_rows` at a time.
  Divisor strip_shares{1};                        // of a strip
  int32_t set_blocks, block_shares, more_shares;  // so many blocks have one more
  // From one of a block's shares to its next: neighbours, or as many as there are blocks, so that all write near one
  // another, which memory likes.
  int32_t share_step;

  /// `blocks` at the same time.
  Arguments(const Problem& problem, const StemChoice& choice, const KernelShape& shape,
            Operands operands, int64_t blocks);

  /// The piece of that number, where rows are shared out.
  __host__ __device__ __forceinline__ Piece piece_of_row(int32_t number) const {
    const auto [row, in_row] = row_pieces.divide(number);
    return {row, in_row};
  }

  int64_t blocks() const { return filter_sets.divisor * set_blocks; }

  /// For an input that begins amid a word of two elements.
  void load_elements() { pairs = false; }

  /// For an output that is no words of 16 bytes.
  void write_elements() {
    fused::Arguments<Element>::write_elements();
    run_word = 1;
    if (row_order == RowOrder::kBoxes || row_order == RowOrder::kFilters)
      row_order = RowOrder::kOne;
  }
};

/// Of a thread, once the warpgroups have dealt anew what the block has from launch.
constexpr int staging_registers(const KernelShape& shape) {
  const int warpgroups = shape.threads() / 128;
  return warpgroups < 4 ? 136 : warpgroups == 4 ? 104 : 72;
}
constexpr int multiplying_registers(const KernelShape& shape) {
  constexpr int kAll = 65536, kEach = 8;  // of a multiprocessor, given by so many
  const int launched = kAll / shape.threads() / kEach * kEach *
                       (shape.staging_warpgroups + shape.multiplying_warpgroups);
  return (launched - shape.staging_warpgroups * staging_registers(shape)) /
         shape.multiplying_warpgroups / kEach * kEach;
}

/// Named barriers, beside those that fused/block.cuh has for all: one for each warpgroup that multiplies.
constexpr int kFirstWritingBarrier = kColumnsBarrier + 1;
constexpr int kFirstTurnBarrier = kFirstWritingBarrier + kMostWarpgroups;
/// One for each that stages.
constexpr int kFirstStagingBarrier = kFirstTurnBarrier + kMostWarpgroups;

/// Of RawBands.
struct RawStage {
  uint64_t full;
  uint32_t first;  // the address of the first column
};

/// At the start of dynamic shared memory.
struct Barriers {
  Ring<kMaxBands> bands;
  uint64_t filters;
  RawStage raw[kRawStages];
  SlabScale scales[kMaxBands];
  Magnitudes magnitudes[kMostStagingWarpgroups][2][4];  // of the staging warps, in turns
};
static_assert(sizeof(Barriers) <= kBarrierBytes);

__device__ __forceinline__ Barriers& barriers() {
  return *reinterpret_cast<Barriers*>(dynamic_shared_memory);
}

/// Where some of a row's pixels are in it: how many of a sector's the same warpgroup may have left to be
/// written with them, and may leave to those after them. Numbers, as the compiler keeps predicates for long in
/// local memory.
struct InRow {
  int32_t before, after;
};
constexpr int kSectorPixels = 8;  // of float

/// Rows of outputs that a row of a strip is.
template <class T>
__device__ __forceinline__ int output_rows(const Arguments<typename T::Element>& a) {
  return is_dense_raw(T::kShape, T::kOperands) ? a.bands.output_rows : 1;
}

/// The strips of a block, or of what of them is its own: in each, neighbouring rows from the first on, by their numbers.
template <class Element>
class StripWalk {
 public:
  __device__ __forceinline__ explicit StripWalk(const Arguments<Element>& a) : a_(a) {
    const auto [part, set] = a.filter_sets.divide(static_cast<int32_t>(blockIdx.x));
    const auto [group, in_group] = a.group_sets.divide(set);
    first_.group = group;
    first_.filter_tile = in_group * a.sets;
    const bool apart = a.share_step > 1;
    number_ = apart ? part : begin(part);
    end_ = apart ? begin(a.set_blocks) : begin(part + 1);
    enter();
  }

  __device__ __forceinline__ bool ended() const { return number_ >= end_; }
  __device__ __forceinline__ const TilePosition& first() const { return first_; }
  /// See Arguments::rows.
  __device__ __forceinline__ int rows() const {
    return min(shares_ * a_.group_rows, a_.rows - first_.p);
  }
  __device__ __forceinline__ int bands() const { return a_.bands.of_rows(rows()); }

  __device__ __forceinline__ void advance() {
    number_ += shares_ * a_.share_step;
    enter();
  }

 private:
  __device__ __forceinline__ int32_t begin(int32_t part) const {
    return part * a_.block_shares + min(part, a_.more_shares);
  }
  __device__ __forceinline__ void enter() {
    if (ended()) return;
    const auto [strip, share] = a_.strip_shares.divide(number_);
    const auto [image, column] = a_.column_tiles.divide(strip);
    first_.n = image;
    first_.p = share * a_.group_rows;
    first_.q = column * a_.tile.columns;
    first_.begin = 0;
    shares_ = a_.share_step > 1
                  ? 1
                  : min(static_cast<int>(a_.strip_shares.divisor) - share, end_ - number_);
  }

  const Arguments<Element>& a_;
  int32_t number_, end_;
  int shares_ = 0;
  TilePosition first_{};
};

}  // namespace im2win::cuda::fused::stem
