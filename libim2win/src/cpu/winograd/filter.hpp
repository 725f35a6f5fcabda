// The filter of Winograd's algorithm: tile of filters, part of the channels, point, entry of the point, channel,
// filter of the tile. For what is summed as the definition has it there are blocks of its weights besides: tile,
// block of channels, tap, filter of the tile; made when they are needed, or kept with the points.
#pragma once

#include "cpu/filter_tiles.hpp"
#include "cpu/kernels.hpp"
#include "cpu/sum_inside.hpp"
#include "cpu/winograd/axis.hpp"
#include "cpu/winograd/evenness.hpp"
#include "problem.hpp"

namespace im2win::cpu {

constexpr int64_t kMostPartChannels = 128;
constexpr int64_t kBlockTaps = kMostAxisTaps * kMostAxisTaps;  // at most, of all its channels

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

  /// Of the filters of a tile: what is known of their weights.
  struct Spreads {
    Spread<Compute> all[Block::kMostFilters] = {};
    Compute least_taps[Block::kMostFilters] = {};  // sums of magnitudes, or less
  };

  explicit WinogradFilter(const Problem& problem);

  const FilterTiles<Element>& tiles() const { return tiles_; }
  int64_t bytes() const { return blocks_begin_; }
  int64_t bytes_with_blocks() const { return bytes_with_blocks_; }

  /// With `keeps_blocks` it takes bytes_with_blocks().
  void transform(const Element* filter, bool keeps_blocks, int32_t threads, void* packed) const;

  /// The most that any filter of a tile has.
  WeightUnevenness unevenness(const void* packed, const FilterTile& tile) const;
  /// Of the channels from `channel` on, kMostPartChannels or what there are, what is transformed.
  const Compute* part(const void* packed, const FilterTile& tile, int64_t channel) const;
  /// Where a point of a part is, of so many channels.
  int64_t point_offset(int64_t point, int64_t width, int64_t channels) const;

  /// Room for a part of `channels` of a tile.
  int64_t part_elements(int64_t channels) const;
  /// Transforms channels [begin, begin + count) of a tile to such room, and adds to the spreads what it finds.
  /// Their weights are kept in `blocks`, the tile's, unless that is null.
  void transform_part(const Element* filter, const FilterTile& tile, int64_t begin, int64_t count,
                      Compute* part, Compute* blocks, Spreads& spreads) const;
  /// Of a tile of which all channels were transformed.
  WeightUnevenness unevenness(const FilterTile& tile, const Spreads& spreads) const;

  /// The weights of channels [begin, begin + block_channels()) of a tile, or fewer at the end: those kept,
  /// or, of a filter that is not null, copies in `room`.
  const Compute* block(const void* packed, const Element* filter, const FilterTile& tile,
                       int64_t begin, Block& room) const;
  int64_t block_channels() const { return block_channels_; }
  /// How the weights of a block lie, of its `channels`.
  TapOrder order(int64_t channels) const { return {0, has_taps_first_ ? 1 : channels}; }
  /// Where in a panel (winograd/strips.hpp) each of them finds its input.
  void list_offsets(int64_t channels, int64_t row_stride, int64_t column_stride,
                    int64_t* offsets) const;

 private:
  void transform_block(const FilterTile& tile, const Compute* weights, int64_t channels,
                       Compute* part, int64_t part_channels, Spreads& spreads) const;
  void copy_block(const Element* filter, const FilterTile& tile, int64_t begin, int64_t channels,
                  Compute* weights) const;
  int64_t part_offset(const FilterTile& tile, int64_t channel) const;

  Problem problem_;
  const Kernels<Element>& kernels_;
  FilterTiles<Element> tiles_;
  WinogradWindow window_;
  int64_t block_channels_;
  /// Whether taps lie side by side, in the filter and in blocks: channel, tap; else tap, channel.
  bool has_taps_first_;
  int64_t unevenness_begin_;
  int64_t blocks_begin_;
  int64_t bytes_with_blocks_;
};

}  // namespace im2win::cpu
