#include "cpu/winograd_filter.hpp"

#include <algorithm>

#include "checked.hpp"
#include "cpu/parallel.hpp"
#include "cpu/winograd_evenness.hpp"

namespace im2win::cpu {
namespace {

constexpr int64_t kAlignment = 64;
constexpr int64_t kLine = kAlignment / sizeof(float);

bool have_taps_first(const Problem& problem) {
  const int64_t* stride = problem.filter.stride;
  return stride[3] == 1 && stride[2] == 3 &&
         (problem.c_per_group() == 1 || stride[1] == kWinogradTaps);
}

}  // namespace

WinogradFilter::WinogradFilter(const Problem& problem)
    : problem_(problem),
      kernels_(choose_kernels<float>()),
      winograd_(choose_winograd_kernels()),
      tiles_(problem),
      has_taps_first_(have_taps_first(problem)) {
  const int64_t tiles = problem.groups * tiles_.per_group();
  const int64_t weights = problem.groups * tiles_.group_filters() * problem.c_per_group();
  const auto bytes = [](int64_t floats) {
    return round_up(floats * int64_t{sizeof(float)}, kAlignment);
  };
  kinds_begin_ = bytes(kWinogradPoints * (weights + tiles * kLine));
  blocks_begin_ = kinds_begin_ + round_up(tiles, kAlignment);
  bytes_with_blocks_ = blocks_begin_ + bytes(kWinogradTaps * weights);
}

/// A line more than its weights: points a power of two apart would compete for the same sets of a cache.
int64_t WinogradFilter::point_stride(const FilterTile& tile) const {
  return problem_.c_per_group() * tile.width + kLine;
}

int64_t WinogradFilter::points_of(const FilterTile& tile) const {
  return kWinogradPoints * (tile.offset / kWinogradTaps + tile.index * kLine);
}

TileKind WinogradFilter::kind(const void* packed, const FilterTile& tile) const {
  return reinterpret_cast<const TileKind*>(static_cast<const char*>(packed) +
                                           kinds_begin_)[tile.index];
}

const float* WinogradFilter::points(const void* packed, const FilterTile& tile,
                                    int64_t point) const {
  return static_cast<const float*>(packed) + points_of(tile) + point * point_stride(tile);
}

const float* WinogradFilter::block(const void* packed, const float* filter, const FilterTile& tile,
                                   int64_t begin, Block& room) const {
  if (filter == nullptr)
    return reinterpret_cast<const float*>(static_cast<const char*>(packed) + blocks_begin_) +
           tile.offset + begin * kWinogradTaps * tile.width;
  copy_block(filter, tile, begin, room.weights);
  return room.weights;
}

void WinogradFilter::list_offsets(int64_t channels, int64_t row_stride, int64_t column_stride,
                                  int64_t* offsets) const {
  for (int64_t i = 0; i < kWinogradTaps * channels; ++i) {
    const int64_t tap = has_taps_first_ ? i % kWinogradTaps : i / channels;
    const int64_t channel = has_taps_first_ ? i / kWinogradTaps : i % channels;
    offsets[i] = tap / 3 * row_stride + tap % 3 * column_stride + channel;
  }
}

void WinogradFilter::transform(const float* filter, bool keeps_blocks, int32_t threads,
                               void* packed) const {
  auto* bytes = static_cast<char*>(packed);
  auto* kinds = reinterpret_cast<TileKind*>(bytes + kinds_begin_);
  auto* blocks = keeps_blocks ? reinterpret_cast<float*>(bytes + blocks_begin_) : nullptr;
  const int64_t per_group = tiles_.per_group();
  parallel_for(problem_.groups * per_group, threads, [&](int64_t index, int32_t) {
    const FilterTile tile = tiles_.tile(index / per_group, index % per_group);
    kinds[index] = transform_tile(filter, tile, static_cast<float*>(packed) + points_of(tile),
                                  keeps_blocks ? blocks + tile.offset : nullptr);
  });
}

/// By blocks, which are transformed while they are in the first cache.
TileKind WinogradFilter::transform_tile(const float* filter, const FilterTile& tile, float* points,
                                        float* blocks) const {
  Block room;
  Spread<float> spreads[Block::kMostFilters] = {};
  const int64_t c = problem_.c_per_group();
  for (int64_t begin = 0; begin < c; begin += kBlockChannels) {
    const int64_t channels = std::min(kBlockChannels, c - begin);
    float* weights = blocks == nullptr ? room.weights : blocks + begin * kWinogradTaps * tile.width;
    copy_block(filter, tile, begin, weights);
    const int64_t channel = (has_taps_first_ ? kWinogradTaps : 1) * tile.width;
    const int64_t column = (has_taps_first_ ? 1 : channels) * tile.width;
    winograd_.transform_filter({weights, channel, 3 * column, column, channels, tile.width,
                                points + begin * tile.width, point_stride(tile), spreads});
  }
  TileKind kind = TileKind::kEven;
  for (int64_t k = 0; k < tile.width; ++k) {
    if (spreads[k].sum - spreads[k].sum != 0) return TileKind::kNotFinite;
    if (!is_even(spreads[k], kWinogradTaps * c, kMostUnevenWeights)) kind = TileKind::kUneven;
  }
  return kind;
}

void WinogradFilter::copy_block(const float* filter, const FilterTile& tile, int64_t begin,
                                float* weights) const {
  const int64_t* stride = problem_.filter.stride;
  const int64_t channels = std::min(kBlockChannels, problem_.c_per_group() - begin);
  const float* source = filter + tile.first * stride[0] + begin * stride[1];
  if (tile.count < tile.width) std::fill_n(weights, kWinogradTaps * channels * tile.width, 0.0F);
  if (has_taps_first_) {
    kernels_.load(
        {source, 1, stride[0], weights, tile.width, kWinogradTaps * channels, tile.count});
    return;
  }
  for (int64_t tap = 0; tap < kWinogradTaps; ++tap)
    kernels_.load({source + tap / 3 * stride[2] + tap % 3 * stride[3], stride[1], stride[0],
                   weights + tap * channels * tile.width, tile.width, channels, tile.count});
}

}  // namespace im2win::cpu
