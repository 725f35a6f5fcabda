// The filter as the im2win algorithm lays it out: group, tile of filters, tap in the order of
// WindowPanel, filter of the tile; of a tap that is a pair of channels each filter has both, the second one
// zero after an odd number of channels. Tiles are padded with zeros to whole vectors. Behind them stands
// what there is among the weights. Where a tile is used but once it need not be laid out as a whole: some
// of its taps at a time are.
#pragma once

#include <cstring>

#include "cpu/filter_pairs.hpp"
#include "cpu/kernels.hpp"
#include "problem.hpp"

namespace im2win::cpu {

/// Filters [begin, begin + count) of a group.
struct FilterTile {
  int64_t index;  // of the tile, over all groups
  int64_t first;  // of the problem's filters
  int64_t place;  // of the first one among those of all groups, padded
  int64_t begin;
  int64_t count;
  int64_t vectors;
  int64_t width;   // filters with the padding
  int64_t offset;  // of its first tap in the packed filter
};

/// Factors along an axis of the window.
struct FactorAxis {
  int64_t count;
  int64_t source;  // elements between neighbours in the filter
  int64_t target;  // factors between neighbours in a filter of the tile
};

template <class Element, class Factor = typename ComputeOf<Element>::Type>
class FilterTiles {
 public:
  explicit FilterTiles(const Problem& problem);

  int64_t bytes() const { return (elements_ + 1) * int64_t{sizeof(Factor)}; }
  int64_t per_group() const { return tiles_; }
  /// Filters of a group, padded.
  int64_t group_filters() const { return group_filters_; }
  FilterTile tile(int64_t group, int64_t index) const;

  int64_t tile_filters() const { return tile_filters_; }

  void pack(const Element* filter, Factor* packed, int32_t threads) const;
  /// What pack() has found: of weights that are not finite only where it matters, as something is padded,
  /// and of tiny ones where taps are pairs.
  Content content(const Factor* packed) const {
    static_assert(sizeof(Content) <= sizeof(Factor));
    Content content = {};
    std::memcpy(&content, packed + elements_, sizeof content);
    return content;
  }

  /// Whether a filter's taps lie side by side, in the order of the tiles.
  bool can_pack_taps() const {
    return axes_[2].count == problem_.window_elements() && axes_[2].target == 1;
  }
  /// Taps [begin, begin + count) of a tile. Says of them what content() does of all.
  Content pack_taps(const Element* filter, const FilterTile& tile, int64_t begin, int64_t count,
                    Factor* packed) const;

 private:
  /// All say of what they pack what pack_taps() says.
  Content pack_tile(const Element* filter, const FilterTile& tile, Factor* packed) const;
  Content copy_lines(const Element* source, int64_t lines, const FilterTile& tile, int64_t count,
                     Factor* target) const;

  Problem problem_;
  const Kernels<Element>& kernels_;
  FilterPairs pairs_;
  FactorAxis axes_[3];  // the last one has its factors side by side in the filter, if any has
  int64_t lines_ = 1;   // along it that are packed at a time: pairs that are not along it take two
  int64_t tiles_;
  int64_t tile_filters_;
  int64_t group_filters_;
  int64_t filter_factors_;
  int64_t elements_;
};

}  // namespace im2win::cpu
