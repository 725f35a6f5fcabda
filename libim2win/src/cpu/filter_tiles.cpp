#include "cpu/filter_tiles.hpp"

#include <algorithm>
#include <atomic>

#include "checked.hpp"
#include "cpu/parallel.hpp"
#include "cpu/window_panel.hpp"

namespace im2win::cpu {
namespace {

/// Makes two axes one, `inner`, if their factors follow each other evenly in both places.
bool merge(const FactorAxis& outer, FactorAxis& inner) {
  if (outer.count == 1) return true;
  if (inner.count > 1) {
    if (outer.source != inner.count * inner.source) return false;
    if (outer.target != inner.count * inner.target) return false;
  }
  inner =
      inner.count == 1 ? outer : FactorAxis{outer.count * inner.count, inner.source, inner.target};
  return true;
}

}  // namespace

template <class Element, class Factor>
FilterTiles<Element, Factor>::FilterTiles(const Problem& problem)
    : problem_(problem), kernels_(choose_kernels<Element>()) {
  const Problem& d = problem_;
  const int64_t* stride = d.filter.stride;
  const int64_t c = channel_taps<Factor>(d) * kTapFactors<Factor>;
  const bool has_channels_last = reads_channels_last<Factor>(d);
  const FactorAxis channels = {d.c_per_group(), stride[1], has_channels_last ? 1 : d.r * d.s};
  const FactorAxis rows = {d.r, stride[2], has_channels_last ? d.s * c : d.s};
  const FactorAxis columns = {d.s, stride[3], has_channels_last ? c : 1};
  const bool starts_by_channels = stride[1] < stride[3];
  axes_[0] = starts_by_channels ? rows : channels;
  axes_[1] = starts_by_channels ? columns : rows;
  axes_[2] = starts_by_channels ? channels : columns;
  for (int i = 1; i >= 0 && merge(axes_[i], axes_[2]); --i) axes_[i] = {1, 0, 0};

  if (kArePairs<Factor> && axes_[2].target != 1)
    lines_ = std::max<int64_t>(kRoomFactors / axes_[2].count / 2, 1) * 2;

  const int64_t vectors = ceil_div(d.k_per_group(), kernels_.vector_elements);
  const int64_t tile_vectors = ceil_div(vectors, ceil_div(vectors, kernels_.max_tile_vectors));
  tiles_ = ceil_div(vectors, tile_vectors);
  tile_filters_ = tile_vectors * kernels_.vector_elements;
  group_filters_ = vectors * kernels_.vector_elements;
  filter_factors_ = window_taps<Factor>(d) * kTapFactors<Factor>;
  elements_ = group_filters_ * d.groups * filter_factors_;
}

template <class Element, class Factor>
FilterTile FilterTiles<Element, Factor>::tile(int64_t group, int64_t index) const {
  const int64_t begin = index * tile_filters_;
  const int64_t count = std::min(tile_filters_, problem_.k_per_group() - begin);
  const int64_t vectors = ceil_div(count, kernels_.vector_elements);
  return {group * tiles_ + index,
          group * problem_.k_per_group() + begin,
          group * group_filters_ + begin,
          begin,
          count,
          vectors,
          vectors * kernels_.vector_elements,
          (group * group_filters_ + begin) * filter_factors_};
}

template <class Element, class Factor>
void FilterTiles<Element, Factor>::pack(const Element* filter, Factor* packed,
                                        int32_t threads) const {
  std::atomic<bool> has_special = false;
  std::atomic<bool> has_tiny = false;
  parallel_for(problem_.groups * tiles_, threads, [&](int64_t task, int32_t) {
    const FilterTile tile = this->tile(task / tiles_, task % tiles_);
    const Content content =
        pack_tile(filter + tile.first * problem_.filter.stride[0], tile, packed + tile.offset);
    if (content.has_special) has_special = true;
    if (content.has_tiny) has_tiny = true;
  });
  const Content all = {has_special, has_tiny};
  std::memcpy(packed + elements_, &all, sizeof all);
}

template <class Element, class Factor>
Content FilterTiles<Element, Factor>::pack_taps(const Element* filter, const FilterTile& tile,
                                                int64_t begin, int64_t count,
                                                Factor* packed) const {
  const FactorAxis& axis = axes_[2];
  const int64_t first = begin * kTapFactors<Factor>;
  const int64_t factors = std::min(count * kTapFactors<Factor>, axis.count - first);
  if (tile.count < tile.width && !kArePairs<Factor>)
    std::fill_n(packed, tile.width * count, Factor(0));
  const Element* source = filter + tile.first * problem_.filter.stride[0] + first * axis.source;
  return copy_lines(source, 1, tile, factors, packed);
}

template <class Element, class Factor>
Content FilterTiles<Element, Factor>::pack_tile(const Element* filter, const FilterTile& tile,
                                                Factor* packed) const {
  if (tile.count < tile.width && !kArePairs<Factor>)
    std::fill_n(packed, tile.width * filter_factors_, Factor(0));
  const auto& [outer, middle, inner] = axes_;
  Content content = {};
  for (int64_t i = 0; i < outer.count; i += lines_)
    for (int64_t j = 0; j < middle.count; ++j)
      content += copy_lines(filter + i * outer.source + j * middle.source,
                            std::min(lines_, outer.count - i), tile, inner.count,
                            packed + (i * outer.target + j * middle.target) * tile.width);
  if constexpr (!kArePairs<Factor>) {
    if (problem_.is_padded() && inner.target != 1)
      content.has_special = !kernels_.are_finite(packed, tile.width * filter_factors_);
  }
  return content;
}

/// Lines along the last axis, neighbours along the first. What does not lie side by side in the tile is not
/// looked at, but for pairs.
template <class Element, class Factor>
Content FilterTiles<Element, Factor>::copy_lines(const Element* source, int64_t lines,
                                                 const FilterTile& tile, int64_t count,
                                                 Factor* target) const {
  const FactorAxis& axis = axes_[2];
  const int64_t* stride = problem_.filter.stride;
  if constexpr (kArePairs<Factor>) {
    const FactorLines all = {source,     axis.source, stride[0], stride[1],  count,
                             tile.count, tile.width,  target,    axis.target};
    return axis.target == 1 ? pairs_.pack_neighbours(all) : pairs_.pack_lines(all, lines);
  } else {
    constexpr int64_t kBlock = 64;  // taps, which are looked at while they are in the first cache
    const int64_t step = axis.target * tile.width;
    const bool looks = problem_.is_padded() && axis.target == 1;
    Content content = {};
    for (int64_t tap = 0; tap < count; tap += kBlock) {
      const int64_t taps = std::min(kBlock, count - tap);
      kernels_.load({source + tap * axis.source, axis.source, stride[0], target + tap * step, step,
                     taps, tile.count});
      if (looks)
        content.has_special |= !kernels_.are_finite(target + tap * step, taps * tile.width);
    }
    return content;
  }
}

template class FilterTiles<double>;
template class FilterTiles<float>;
template class FilterTiles<Float16>;
template class FilterTiles<BFloat16>;
template class FilterTiles<BFloat16, BFloat16>;

}  // namespace im2win::cpu
