#include "cpu/filter_tiles.hpp"

#include <algorithm>
#include <atomic>

#include "checked.hpp"
#include "cpu/parallel.hpp"
#include "cpu/window_panel.hpp"

namespace im2win::cpu {
namespace {

constexpr int64_t kBlock =
    64;  // factors of a filter, which are looked at while they are in the first cache
constexpr int64_t kMostFilters =
    int64_t{kMaxTileVectors} * kMaxVectorBytes / sizeof(float);  // of pairs

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
    : problem_(problem),
      kernels_(choose_kernels<Element>()),
      pairs_(kArePairs<Factor> ? choose_pair_kernels() : nullptr) {
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
    lines_ = std::max<int64_t>(kBlock / axes_[2].count / 2, 1) * 2;

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
  if (tile.count < tile.width)
    std::fill_n(packed, tile.width * count * kTapFactors<Factor>, Factor(0));
  const Element* source = filter + tile.first * problem_.filter.stride[0] + first * axis.source;
  return copy_lines(source, 1, tile, factors, packed);
}

template <class Element, class Factor>
Content FilterTiles<Element, Factor>::pack_tile(const Element* filter, const FilterTile& tile,
                                                Factor* packed) const {
  if (tile.count < tile.width) std::fill_n(packed, tile.width * filter_factors_, Factor(0));
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
  Content content = {};
  if constexpr (kArePairs<Factor>) {
    content = axis.target == 1 ? pair_neighbours(source, tile, count, target)
                               : pair_lines(source, lines, tile, count, target);
  } else {
    const int64_t step = axis.target * tile.width;
    const bool looks = problem_.is_padded() && axis.target == 1;
    for (int64_t begin = 0; begin < count; begin += kBlock) {
      const int64_t rows = std::min(kBlock, count - begin);
      Factor* block = target + begin * step;
      kernels_.load({source + begin * axis.source, axis.source, problem_.filter.stride[0], block,
                     step, rows, tile.count});
      if (looks) content.has_special |= !kernels_.are_finite(block, rows * tile.width);
    }
  }
  return content;
}

/// Of a line along the channels: by way of float32, of which bfloat16 is the upper half.
template <class Element, class Factor>
Content FilterTiles<Element, Factor>::pair_neighbours(const Element* source, const FilterTile& tile,
                                                      int64_t count, Factor* target) const
  requires kArePairs<Factor>
{
  alignas(kMaxVectorBytes) float rows[kBlock * kMostFilters];
  const int64_t width = tile.width;
  if (tile.count < width) std::fill_n(rows, kBlock * width, 0.0F);
  const int64_t step = axes_[2].source;
  Content content = {};
  for (int64_t begin = 0; begin < count; begin += kBlock) {
    const int64_t factors = std::min(kBlock, count - begin);
    kernels_.load(
        {source + begin * step, step, problem_.filter.stride[0], rows, width, factors, tile.count});
    if (factors % 2 == 1) std::fill_n(rows + factors * width, width, 0.0F);
    content += pairs_->join({rows, rows + width, 2 * width, target + begin * width, 2 * width,
                             ceil_div(factors, 2), width});
  }
  return content;
}

/// Of lines of neighbouring channels, likewise.
template <class Element, class Factor>
Content FilterTiles<Element, Factor>::pair_lines(const Element* source, int64_t lines,
                                                 const FilterTile& tile, int64_t count,
                                                 Factor* target) const
  requires kArePairs<Factor>
{
  alignas(kMaxVectorBytes) float rows[kBlock * kMostFilters];
  const int64_t width = tile.width;
  if (tile.count < width) std::fill_n(rows, kBlock * width, 0.0F);
  const FactorAxis& axis = axes_[2];
  const int64_t* stride = problem_.filter.stride;
  const int64_t most = std::min(count, kBlock / round_up(lines, 2));
  const bool are_one = most == count && stride[1] == count * axis.source;
  Content content = {};
  for (int64_t begin = 0; begin < count; begin += most) {
    const int64_t factors = std::min(most, count - begin);
    const Element* first = source + begin * axis.source;
    const int64_t loads = are_one ? 1 : lines;
    for (int64_t line = 0; line < loads; ++line)
      kernels_.load({first + line * stride[1], axis.source, stride[0],
                     rows + line * factors * width, width, lines / loads * factors, tile.count});
    if (lines % 2 == 1) std::fill_n(rows + lines * factors * width, factors * width, 0.0F);
    for (int64_t line = 0; line < lines; line += 2)
      content += pairs_->join({rows + line * factors * width, rows + (line + 1) * factors * width,
                               width, target + (begin * axis.target + line) * width,
                               axis.target * width, factors, width});
  }
  return content;
}

template class FilterTiles<double>;
template class FilterTiles<float>;
template class FilterTiles<Float16>;
template class FilterTiles<BFloat16>;
template class FilterTiles<BFloat16, BFloat16>;

}  // namespace im2win::cpu
