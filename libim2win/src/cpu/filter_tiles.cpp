#include "cpu/filter_tiles.hpp"

#include <algorithm>
#include <atomic>

#include "checked.hpp"
#include "cpu/parallel.hpp"
#include "cpu/window_panel.hpp"

namespace im2win::cpu {
namespace {

/// Makes two axes one, `inner`, if their taps follow each other evenly in both places.
bool merge(const TapAxis& outer, TapAxis& inner) {
  if (outer.taps == 1) return true;
  if (inner.taps > 1) {
    if (outer.source != inner.taps * inner.source) return false;
    if (outer.target != inner.taps * inner.target) return false;
  }
  inner = inner.taps == 1 ? outer : TapAxis{outer.taps * inner.taps, inner.source, inner.target};
  return true;
}

}  // namespace

template <class Element>
FilterTiles<Element>::FilterTiles(const Problem& problem)
    : problem_(problem), kernels_(choose_kernels<Element>()) {
  const Problem& d = problem_;
  const int64_t* stride = d.filter.stride;
  const int64_t c = d.c_per_group();
  const bool has_channels_last = reads_channels_last(d);
  const TapAxis channels = {c, stride[1], has_channels_last ? 1 : d.r * d.s};
  const TapAxis rows = {d.r, stride[2], has_channels_last ? d.s * c : d.s};
  const TapAxis columns = {d.s, stride[3], has_channels_last ? c : 1};
  const bool starts_by_channels = stride[1] < stride[3];
  axes_[0] = starts_by_channels ? rows : channels;
  axes_[1] = starts_by_channels ? columns : rows;
  axes_[2] = starts_by_channels ? channels : columns;
  for (int i = 1; i >= 0 && merge(axes_[i], axes_[2]); --i) axes_[i] = {1, 0, 0};

  const int64_t vectors = ceil_div(d.k_per_group(), kernels_.vector_elements);
  const int64_t tile_vectors = ceil_div(vectors, ceil_div(vectors, kernels_.max_tile_vectors));
  tiles_ = ceil_div(vectors, tile_vectors);
  tile_filters_ = tile_vectors * kernels_.vector_elements;
  group_filters_ = vectors * kernels_.vector_elements;
  elements_ = group_filters_ * d.groups * d.window_elements();
}

template <class Element>
FilterTile FilterTiles<Element>::tile(int64_t group, int64_t index) const {
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
          (group * group_filters_ + begin) * problem_.window_elements()};
}

template <class Element>
void FilterTiles<Element>::pack(const Element* filter, Compute* packed, int32_t threads) const {
  std::atomic<bool> is_finite = true;
  parallel_for(problem_.groups * tiles_, threads, [&](int64_t task, int32_t) {
    const FilterTile tile = this->tile(task / tiles_, task % tiles_);
    if (!pack_tile(filter + tile.first * problem_.filter.stride[0], tile, packed + tile.offset))
      is_finite = false;
  });
  packed[elements_] = is_finite ? 1 : 0;
}

template <class Element>
bool FilterTiles<Element>::pack_taps(const Element* filter, const FilterTile& tile, int64_t begin,
                                     int64_t count, Compute* packed) const {
  if (tile.count < tile.width) std::fill_n(packed, tile.width * count, Compute(0));
  const Element* source = filter + tile.first * problem_.filter.stride[0] + begin * axes_[2].source;
  return copy_line(source, tile, count, packed);
}

template <class Element>
bool FilterTiles<Element>::pack_tile(const Element* filter, const FilterTile& tile,
                                     Compute* packed) const {
  if (tile.count < tile.width)
    std::fill_n(packed, tile.width * problem_.window_elements(), Compute(0));
  const auto& [outer, middle, inner] = axes_;
  bool is_finite = true;
  for (int64_t i = 0; i < outer.taps; ++i)
    for (int64_t j = 0; j < middle.taps; ++j)
      is_finite &= copy_line(filter + i * outer.source + j * middle.source, tile, inner.taps,
                             packed + (i * outer.target + j * middle.target) * tile.width);
  if (problem_.is_padded() && inner.target != 1)
    is_finite = kernels_.are_finite(packed, tile.width * problem_.window_elements());
  return is_finite;
}

/// Neighbours along the last axis. Those that do not lie side by side in the tile are not looked at.
template <class Element>
bool FilterTiles<Element>::copy_line(const Element* source, const FilterTile& tile, int64_t taps,
                                     Compute* target) const {
  constexpr int64_t kBlock = 64;  // taps, which are looked at while they are in the first cache
  const TapAxis& axis = axes_[2];
  const int64_t step = axis.target * tile.width;
  const bool looks = problem_.is_padded() && axis.target == 1;
  bool is_finite = true;
  for (int64_t tap = 0; tap < taps; tap += kBlock) {
    const int64_t count = std::min(kBlock, taps - tap);
    kernels_.load({source + tap * axis.source, axis.source, problem_.filter.stride[0],
                   target + tap * step, step, count, tile.count});
    if (looks) is_finite &= kernels_.are_finite(target + tap * step, count * tile.width);
  }
  return is_finite;
}

template class FilterTiles<double>;
template class FilterTiles<float>;
template class FilterTiles<Float16>;
template class FilterTiles<BFloat16>;

}  // namespace im2win::cpu
