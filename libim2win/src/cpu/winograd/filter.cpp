#include "cpu/winograd/filter.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

#include "checked.hpp"
#include "cpu/parallel.hpp"

namespace im2win::cpu {
namespace {

constexpr int64_t kAlignment = 64;
constexpr int64_t kMostBlockChannels = 16;

/// Between points, besides what they have: a power of two apart they would compete for the same sets of a cache.
template <class Compute>
constexpr int64_t kLine = kAlignment / sizeof(Compute);

bool have_taps_first(const Problem& problem) {
  const int64_t* stride = problem.filter.stride;
  return stride[3] == 1 && stride[2] == problem.s && stride[1] == problem.r * problem.s;
}

}  // namespace

template <class Element>
WinogradFilter<Element>::WinogradFilter(const Problem& problem)
    : problem_(problem),
      kernels_(choose_kernels<Element>()),
      tiles_(problem),
      window_(winograd_window(problem)),
      block_channels_(std::min<int64_t>(
          kMostBlockChannels, std::bit_floor(static_cast<uint64_t>(kBlockTaps / window_.taps())))),
      has_taps_first_(have_taps_first(problem)) {
  const int64_t tiles = problem.groups * tiles_.per_group();
  const int64_t weights = problem.groups * tiles_.group_filters() * problem.c_per_group();
  const auto bytes = [](int64_t elements) {
    return round_up(elements * int64_t{sizeof(Compute)}, kAlignment);
  };
  const int64_t parts = ceil_div(problem.c_per_group(), kMostPartChannels);
  unevenness_begin_ =
      bytes(window_.entries() * weights + tiles * parts * kWinogradPoints * kLine<Compute>);
  blocks_begin_ =
      unevenness_begin_ + round_up(tiles * int64_t{sizeof(WeightUnevenness)}, kAlignment);
  bytes_with_blocks_ = blocks_begin_ + bytes(window_.taps() * weights);
}

template <class Element>
int64_t WinogradFilter<Element>::point_offset(int64_t point, int64_t width,
                                              int64_t channels) const {
  return window_.entries_before(point) * channels * width + point * kLine<Compute>;
}

template <class Element>
int64_t WinogradFilter<Element>::part_offset(const FilterTile& tile, int64_t channel) const {
  const int64_t c = problem_.c_per_group();
  const int64_t parts = tile.index * ceil_div(c, kMostPartChannels) + channel / kMostPartChannels;
  return window_.entries() * (tile.place * c + channel * tile.width) +
         parts * kWinogradPoints * kLine<Compute>;
}

template <class Element>
WeightUnevenness WinogradFilter<Element>::unevenness(const void* packed,
                                                     const FilterTile& tile) const {
  return reinterpret_cast<const WeightUnevenness*>(static_cast<const char*>(packed) +
                                                   unevenness_begin_)[tile.index];
}

template <class Element>
auto WinogradFilter<Element>::part(const void* packed, const FilterTile& tile,
                                   int64_t channel) const -> const Compute* {
  return static_cast<const Compute*>(packed) + part_offset(tile, channel);
}

template <class Element>
int64_t WinogradFilter<Element>::part_elements(int64_t channels) const {
  return point_offset(kWinogradPoints, tiles_.tile_filters(), channels);
}

template <class Element>
auto WinogradFilter<Element>::block(const void* packed, const Element* filter,
                                    const FilterTile& tile, int64_t begin, Block& room) const
    -> const Compute* {
  if (filter == nullptr)
    return reinterpret_cast<const Compute*>(static_cast<const char*>(packed) + blocks_begin_) +
           tile.offset + begin * window_.taps() * tile.width;
  const int64_t channels = std::min(block_channels_, problem_.c_per_group() - begin);
  copy_block(filter, tile, begin, channels, room.weights);
  return room.weights;
}

template <class Element>
void WinogradFilter<Element>::list_offsets(int64_t channels, int64_t row_stride,
                                           int64_t column_stride, int64_t* offsets) const {
  const int64_t taps = window_.taps();
  for (int64_t i = 0; i < taps * channels; ++i) {
    const int64_t tap = has_taps_first_ ? i % taps : i / channels;
    const int64_t channel = has_taps_first_ ? i / taps : i % channels;
    offsets[i] = tap / problem_.s * row_stride + tap % problem_.s * column_stride + channel;
  }
}

template <class Element>
void WinogradFilter<Element>::transform(const Element* filter, bool keeps_blocks, int32_t threads,
                                        void* packed) const {
  auto* bytes = static_cast<char*>(packed);
  auto* unevennesses = reinterpret_cast<WeightUnevenness*>(bytes + unevenness_begin_);
  auto* blocks = keeps_blocks ? reinterpret_cast<Compute*>(bytes + blocks_begin_) : nullptr;
  const int64_t per_group = tiles_.per_group();
  parallel_for(problem_.groups * per_group, threads, [&](int64_t index, int32_t) {
    const FilterTile tile = tiles_.tile(index / per_group, index % per_group);
    const int64_t c = problem_.c_per_group();
    Spreads spreads = {};
    for (int64_t begin = 0; begin < c; begin += kMostPartChannels)
      transform_part(filter, tile, begin, std::min(kMostPartChannels, c - begin),
                     static_cast<Compute*>(packed) + part_offset(tile, begin),
                     keeps_blocks ? blocks + tile.offset : nullptr, spreads);
    unevennesses[index] = unevenness(tile, spreads);
  });
}

/// By blocks, which are transformed while they are in the first cache.
template <class Element>
void WinogradFilter<Element>::transform_part(const Element* filter, const FilterTile& tile,
                                             int64_t begin, int64_t count, Compute* part,
                                             Compute* blocks, Spreads& spreads) const {
  Block room;
  for (int64_t i = 0; i < count; i += block_channels_) {
    const int64_t channels = std::min(block_channels_, count - i);
    Compute* weights =
        blocks == nullptr ? room.weights : blocks + (begin + i) * window_.taps() * tile.width;
    copy_block(filter, tile, begin + i, channels, weights);
    transform_block(tile, weights, channels, part + i * tile.width, count, spreads);
  }
}

/// To some channels of a part that has `part_channels`.
template <class Element>
void WinogradFilter<Element>::transform_block(const FilterTile& tile, const Compute* weights,
                                              int64_t channels, Compute* part,
                                              int64_t part_channels, Spreads& spreads) const {
  const Problem& d = problem_;
  const int64_t channel_stride = (has_taps_first_ ? window_.taps() : 1) * tile.width;
  const int64_t column_stride = (has_taps_first_ ? 1 : channels) * tile.width;
  const int64_t row_stride = d.s * column_stride;
  Compute least_taps[Block::kMostFilters];
  std::fill_n(least_taps, tile.width, std::numeric_limits<Compute>::max());
  for (int64_t i = 0; i < window_.pieces(); ++i) {
    const WindowPiece piece = window_.piece(i);
    const WinogradPiece &row = piece.row, &column = piece.column;
    FilterTaps<Compute> taps = {weights + row.first * row_stride + column.first * column_stride,
                                channel_stride,
                                d.stride_h * row_stride,
                                d.stride_w * column_stride,
                                channels,
                                tile.width,
                                {},
                                spreads.all,
                                least_taps};
    for (int64_t point = 0; point < kWinogradPoints; ++point)
      taps.points[point] = part + point_offset(point, tile.width, part_channels) +
                           window_.entry(point, piece) * part_channels * tile.width;
    kernels_.transform_filter[row.taps - 1][column.taps - 1](taps);
  }
  // The sum of the blocks' least is that of one tap's, or less.
  for (int64_t k = 0; k < tile.width; ++k) spreads.least_taps[k] += least_taps[k];
}

template <class Element>
WeightUnevenness WinogradFilter<Element>::unevenness(const FilterTile& tile,
                                                     const Spreads& spreads) const {
  const int64_t weights = window_.taps() * problem_.c_per_group();
  WeightUnevenness most;
  for (int64_t k = 0; k < tile.count; ++k) {
    const double all = cpu::unevenness(spreads.all[k], weights);
    const double mean =
        static_cast<double>(spreads.all[k].sum) / static_cast<double>(window_.taps());
    const double ratio = mean / static_cast<double>(spreads.least_taps[k]);
    if (!(all <= most.all)) most.all = all;
    if (std::isnan(all)) break;
    if (mean > 0) most.taps = std::max(most.taps, all * ratio * ratio);
  }
  return most;
}

template <class Element>
void WinogradFilter<Element>::copy_block(const Element* filter, const FilterTile& tile,
                                         int64_t begin, int64_t channels, Compute* weights) const {
  const int64_t taps = window_.taps();
  const int64_t* stride = problem_.filter.stride;
  const Element* source = filter + tile.first * stride[0] + begin * stride[1];
  if (tile.count < tile.width) std::fill_n(weights, taps * channels * tile.width, Compute(0));
  if (has_taps_first_) {
    kernels_.load({source, 1, stride[0], weights, tile.width, taps * channels, tile.count});
    return;
  }
  for (int64_t tap = 0; tap < taps; ++tap)
    kernels_.load({source + tap / problem_.s * stride[2] + tap % problem_.s * stride[3], stride[1],
                   stride[0], weights + tap * channels * tile.width, tile.width, channels,
                   tile.count});
}

template class WinogradFilter<double>;
template class WinogradFilter<float>;
template class WinogradFilter<Float16>;
template class WinogradFilter<BFloat16>;

}  // namespace im2win::cpu
