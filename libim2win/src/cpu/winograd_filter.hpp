// The filter of Winograd's algorithm: tile of filters, point, channel, filter of the tile. For what is
// summed as the definition has it there are blocks of its weights besides: tile, block of channels, tap,
// filter of the tile; made when they are needed, or kept with the points.
#pragma once

#include "cpu/filter_tiles.hpp"
#include "cpu/kernels.hpp"
#include "cpu/sum_inside.hpp"
#include "problem.hpp"

namespace im2win::cpu {

constexpr int64_t kWinogradPoints = 16;  // that 3 x 3 taps are transformed to
constexpr int64_t kWinogradTaps = 9;
constexpr int64_t kBlockChannels = 16;
constexpr int64_t kBlockTaps = kWinogradTaps * kBlockChannels;

/// What a tile of filters may be used for.
enum class TileKind : unsigned char { kEven, kUneven, kNotFinite };

template <class Element>
class WinogradFilter {
 public:
  using Compute = typename ComputeOf<Element>::Type;

  /// Room for the weights of a block.
  struct Block {
    static constexpr int64_t kMostFilters =
        int64_t{kMaxTileVectors} * kMaxVectorBytes / sizeof(Compute);
    alignas(64) Compute weights[kBlockTaps * kMostFilters];
  };

  explicit WinogradFilter(const Problem& problem);

  const FilterTiles<Element>& tiles() const { return tiles_; }
  int64_t bytes() const { return blocks_begin_; }
  int64_t bytes_with_blocks() const { return bytes_with_blocks_; }

  /// With `keeps_blocks` it takes bytes_with_blocks().
  void transform(const Element* filter, bool keeps_blocks, int32_t threads, void* packed) const;

  TileKind kind(const void* packed, const FilterTile& tile) const;
  const Compute* points(const void* packed, const FilterTile& tile, int64_t point) const;
  /// The weights of channels [begin, begin + kBlockChannels) of a tile, or fewer at the end: those kept,
  /// or, of a filter that is not null, copies in `room`.
  const Compute* block(const void* packed, const Element* filter, const FilterTile& tile,
                       int64_t begin, Block& room) const;
  /// How the weights of a block lie, of its `channels`.
  TapOrder order(int64_t channels) const { return {0, has_taps_first_ ? 1 : channels}; }
  /// Where in a panel (winograd_strips.hpp) each of them finds its input.
  void list_offsets(int64_t channels, int64_t row_stride, int64_t column_stride,
                    int64_t* offsets) const;

 private:
  TileKind transform_tile(const Element* filter, const FilterTile& tile, Compute* points,
                          Compute* blocks) const;
  void copy_block(const Element* filter, const FilterTile& tile, int64_t begin,
                  Compute* weights) const;
  int64_t point_stride(const FilterTile& tile) const;
  int64_t points_of(const FilterTile& tile) const;

  Problem problem_;
  const Kernels<Element>& kernels_;
  FilterTiles<Element> tiles_;
  /// Whether taps lie side by side, in the filter and in blocks: channel, tap; else tap, channel.
  bool has_taps_first_;
  int64_t kinds_begin_;
  int64_t blocks_begin_;
  int64_t bytes_with_blocks_;
};

}  // namespace im2win::cpu
