#include "cpu/winograd_filter.hpp"

#include <algorithm>

#include "checked.hpp"
#include "cpu/parallel.hpp"
#include "cpu/winograd_evenness.hpp"

namespace im2win::cpu {
namespace {

constexpr int64_t kAlignment = 64;

template <class Compute>
constexpr int64_t kLine = kAlignment / sizeof(Compute);

bool have_taps_first(const Problem& problem) {
  const int64_t* stride = problem.filter.stride;
  return stride[3] == 1 && stride[2] == 3 && stride[1] == kWinogradTaps;
}

}  // namespace

template <class Element>
WinogradFilter<Element>::WinogradFilter(const Problem& problem)
    : problem_(problem),
      kernels_(choose_kernels<Element>()),
      tiles_(problem),
      has_taps_first_(have_taps_first(problem)) {
  const int64_t tiles = problem.groups * tiles_.per_group();
  const int64_t weights = problem.groups * tiles_.group_filters() * problem.c_per_group();
  const auto bytes = [](int64_t elements) {
    return round_up(elements * int64_t{sizeof(Compute)}, kAlignment);
  };
  kinds_begin_ = bytes(kWinogradPoints * (weights + tiles * kLine<Compute>));
  blocks_begin_ = kinds_begin_ + round_up(tiles, kAlignment);
  bytes_with_blocks_ = blocks_begin_ + bytes(kWinogradTaps * weights);
}

/// A line more than the weights: points a power of two apart would compete for the same sets of a cache.
template <class Element>
int64_t WinogradFilter<Element>::point_stride(int64_t width, int64_t channels) {
  return channels * width + kLine<Compute>;
}

template <class Element>
int64_t WinogradFilter<Element>::points_of(const FilterTile& tile) const {
  return kWinogradPoints * (tile.place * problem_.c_per_group() + tile.index * kLine<Compute>);
}

template <class Element>
TileKind WinogradFilter<Element>::kind(const void* packed, const FilterTile& tile) const {
  return reinterpret_cast<const TileKind*>(static_cast<const char*>(packed) +
                                           kinds_begin_)[tile.index];
}

template <class Element>
auto WinogradFilter<Element>::points(const void* packed, const FilterTile& tile,
                                     int64_t channel) const -> Points {
  return {static_cast<const Compute*>(packed) + points_of(tile) + channel * tile.width,
          point_stride(tile.width, problem_.c_per_group())};
}

template <class Element>
int64_t WinogradFilter<Element>::part_elements(int64_t channels) const {
  return kWinogradPoints * point_stride(tiles_.tile_filters(), channels);
}

template <class Element>
auto WinogradFilter<Element>::block(const void* packed, const Element* filter,
                                    const FilterTile& tile, int64_t begin, Block& room) const
    -> const Compute* {
  if (filter == nullptr)
    return reinterpret_cast<const Compute*>(static_cast<const char*>(packed) + blocks_begin_) +
           tile.offset + begin * kWinogradTaps * tile.width;
  copy_block(filter, tile, begin, room.weights);
  return room.weights;
}

template <class Element>
void WinogradFilter<Element>::list_offsets(int64_t channels, int64_t row_stride,
                                           int64_t column_stride, int64_t* offsets) const {
  for (int64_t i = 0; i < kWinogradTaps * channels; ++i) {
    const int64_t tap = has_taps_first_ ? i % kWinogradTaps : i / channels;
    const int64_t channel = has_taps_first_ ? i / kWinogradTaps : i % channels;
    offsets[i] = tap / 3 * row_stride + tap % 3 * column_stride + channel;
  }
}

template <class Element>
void WinogradFilter<Element>::transform(const Element* filter, bool keeps_blocks, int32_t threads,
                                        void* packed) const {
  auto* bytes = static_cast<char*>(packed);
  auto* kinds = reinterpret_cast<TileKind*>(bytes + kinds_begin_);
  auto* blocks = keeps_blocks ? reinterpret_cast<Compute*>(bytes + blocks_begin_) : nullptr;
  const int64_t per_group = tiles_.per_group();
  parallel_for(problem_.groups * per_group, threads, [&](int64_t index, int32_t) {
    const FilterTile tile = tiles_.tile(index / per_group, index % per_group);
    const int64_t c = problem_.c_per_group();
    Spreads spreads = {};
    transform_channels(filter, tile, 0, c, static_cast<Compute*>(packed) + points_of(tile),
                       point_stride(tile.width, c), keeps_blocks ? blocks + tile.offset : nullptr,
                       spreads);
    kinds[index] = kind(tile, spreads);
  });
}

template <class Element>
auto WinogradFilter<Element>::transform_part(const Element* filter, const FilterTile& tile,
                                             int64_t begin, int64_t count, Compute* part,
                                             Spreads& spreads) const -> Points {
  const int64_t stride = point_stride(tile.width, count);
  transform_channels(filter, tile, begin, count, part, stride, nullptr, spreads);
  return {part, stride};
}

/// By blocks, which are transformed while they are in the first cache.
template <class Element>
void WinogradFilter<Element>::transform_channels(const Element* filter, const FilterTile& tile,
                                                 int64_t begin, int64_t count, Compute* points,
                                                 int64_t stride, Compute* blocks,
                                                 Spreads& spreads) const {
  Block room;
  for (int64_t i = 0; i < count; i += kBlockChannels) {
    const int64_t channels = std::min(kBlockChannels, count - i);
    Compute* weights = blocks == nullptr ? room.weights : blocks + i * kWinogradTaps * tile.width;
    copy_block(filter, tile, begin + i, weights);
    const int64_t channel = (has_taps_first_ ? kWinogradTaps : 1) * tile.width;
    const int64_t column = (has_taps_first_ ? 1 : channels) * tile.width;
    kernels_.transform_filter[problem_.stride_h - 1]({weights, channel, 3 * column, column,
                                                      channels, tile.width, points + i * tile.width,
                                                      stride, spreads});
  }
}

template <class Element>
TileKind WinogradFilter<Element>::kind(const FilterTile& tile, const Spreads& spreads) const {
  TileKind kind = TileKind::kEven;
  for (int64_t k = 0; k < tile.width; ++k) {
    if (spreads[k].sum - spreads[k].sum != 0) return TileKind::kNotFinite;
    if (!is_even(spreads[k], kWinogradTaps * problem_.c_per_group(), kMostUnevenWeights))
      kind = TileKind::kUneven;
  }
  return kind;
}

template <class Element>
void WinogradFilter<Element>::copy_block(const Element* filter, const FilterTile& tile,
                                         int64_t begin, Compute* weights) const {
  const int64_t* stride = problem_.filter.stride;
  const int64_t channels = std::min(kBlockChannels, problem_.c_per_group() - begin);
  const Element* source = filter + tile.first * stride[0] + begin * stride[1];
  if (tile.count < tile.width)
    std::fill_n(weights, kWinogradTaps * channels * tile.width, Compute(0));
  if (has_taps_first_) {
    kernels_.load(
        {source, 1, stride[0], weights, tile.width, kWinogradTaps * channels, tile.count});
    return;
  }
  for (int64_t tap = 0; tap < kWinogradTaps; ++tap)
    kernels_.load({source + tap / 3 * stride[2] + tap % 3 * stride[3], stride[1], stride[0],
                   weights + tap * channels * tile.width, tile.width, channels, tile.count});
}

template class WinogradFilter<double>;
template class WinogradFilter<float>;
template class WinogradFilter<Float16>;
template class WinogradFilter<BFloat16>;

}  // namespace im2win::cpu
