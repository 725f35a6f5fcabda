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

  /// Of the filters of a tile.
  using Spreads = Spread<Compute>[Block::kMostFilters];

  /// Where channels of a tile begin, and what lies between the points.
  struct Points {
    const Compute* first;
    int64_t stride;
  };

  explicit WinogradFilter(const Problem& problem);

  const FilterTiles<Element>& tiles() const { return tiles_; }
  int64_t bytes() const { return blocks_begin_; }
  int64_t bytes_with_blocks() const { return bytes_with_blocks_; }

  /// With `keeps_blocks` it takes bytes_with_blocks().
  void transform(const Element* filter, bool keeps_blocks, int32_t threads, void* packed) const;

  TileKind kind(const void* packed, const FilterTile& tile) const;
  /// Those of the channels from `channel` on.
  Points points(const void* packed, const FilterTile& tile, int64_t channel) const;

  /// Room for `channels` of a tile.
  int64_t part_elements(int64_t channels) const;
  /// Transforms channels [begin, begin + count) of a tile to such room, and adds to the spreads what it finds.
  Points transform_part(const Element* filter, const FilterTile& tile, int64_t begin, int64_t count,
                        Compute* part, Spreads& spreads) const;
  /// Of a tile of which all channels were transformed.
  TileKind kind(const FilterTile& tile, const Spreads& spreads) const;

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
  /// Their weights are kept in `blocks`, the tile's, unless that is null.
  void transform_channels(const Element* filter, const FilterTile& tile, int64_t begin,
                          int64_t count, Compute* points, int64_t stride, Compute* blocks,
                          Spreads& spreads) const;
  void copy_block(const Element* filter, const FilterTile& tile, int64_t begin,
                  Compute* weights) const;
  static int64_t point_stride(int64_t width, int64_t channels);
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
