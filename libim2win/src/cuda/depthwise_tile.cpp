#include "cuda/depthwise_tile.hpp"

#include <algorithm>
#include <bit>

#include "checked.hpp"

namespace im2win::cuda {
namespace {

constexpr int64_t kWordBytes = 16;

/// Rows of the input under `rows` of the output.
int64_t rows_below(const Problem& problem, int64_t rows) {
  return (rows - 1) * problem.stride_h + problem.r;
}

int64_t filter_bytes(const Problem& problem, int64_t channels) {
  return round_up(channels * problem.r * problem.s * element_bytes(problem.dtype), kWordBytes);
}

/// Sizes that 32-bit arithmetic within an image takes, whatever the tile.
bool is_narrow(const Problem& problem) {
  constexpr int64_t kMaxSize = 1 << 24;
  return problem.c < kMaxSize && problem.h < kMaxSize && problem.w < kMaxSize &&
         std::max({problem.padding_top, problem.padding_bottom, problem.padding_left,
                   problem.padding_right}) < 5;
}

/// Of the input and the output of a tile of planes, which may start anywhere within a word.
int64_t planes_bytes(const Problem& problem, const DepthwiseTile& tile) {
  const int64_t size = element_bytes(problem.dtype);
  const bool whole = tile.rows() >= problem.p;
  const int64_t input_rows =
      whole ? problem.h : std::min(problem.h, rows_below(problem, tile.rows()));
  const int64_t output_rows = whole ? problem.p : tile.rows();
  return round_up(tile.channels * input_rows * problem.w * size, kWordBytes) + kWordBytes +
         round_up(tile.channels * output_rows * problem.q * size, kWordBytes) + kWordBytes +
         filter_bytes(problem, tile.channels);
}

int64_t slices_bytes(const Problem& problem, const DepthwiseTile& tile) {
  const int64_t columns = (tile.columns() - 1) * problem.stride_w + problem.s;
  return tile.channels * kDepthwiseSlice * columns * rows_below(problem, tile.rows()) *
             element_bytes(problem.dtype) +
         filter_bytes(problem, tile.channels * kDepthwiseSlice);
}

/// The most channels with which the tile fits shared memory; 0 if not even one does.
template <class Bytes>
int most_channels(DepthwiseTile tile, int limit, Bytes bytes) {
  for (tile.channels = limit; tile.channels > 0; --tile.channels)
    if (bytes(tile) <= kDepthwiseSharedBytes) break;
  return tile.channels;
}

/// Rows in bands of at most `limit`, all but the last of the same height.
int even_share(int64_t rows, int64_t limit) {
  return static_cast<int>(ceil_div(rows, ceil_div(rows, limit)));
}

}  // namespace

bool has_depthwise_window(const Problem& problem) {
  return problem.r == problem.s && (problem.r == 3 || problem.r == 5) &&
         problem.stride_h == problem.stride_w && (problem.stride_h == 1 || problem.stride_h == 2) &&
         problem.dilation_h == 1 && problem.dilation_w == 1;
}

std::optional<DepthwiseTile> choose_planes_tile(const Problem& problem) {
  constexpr int kItems = 128;
  if (!is_narrow(problem)) return std::nullopt;
  const int64_t strips = ceil_div(problem.q, kDepthwiseColumns);
  if (strips * kDepthwiseColumns > kDepthwiseSharedBytes) return std::nullopt;
  const auto bytes = [&](const DepthwiseTile& tile) { return planes_bytes(problem, tile); };
  const bool is_tall = problem.stride_h == 1 && element_bytes(problem.dtype) == 2;
  for (int64_t limit = is_tall ? 14 : 7; limit > 0; limit /= 2) {
    const int rows = even_share(problem.p, limit);
    const int64_t bands = ceil_div(problem.p, rows);
    DepthwiseTile tile{1, static_cast<int>(strips), 0, rows, 0};
    for (tile.bands = static_cast<int>(std::min<int64_t>(bands, kItems)); tile.bands > 0;
         tile.bands = even_share(bands, tile.bands - 1)) {
      const int64_t planes = tile.bands == bands ? ceil_div(kItems, strips * bands) : 1;
      tile.channels = most_channels(tile, static_cast<int>(planes), bytes);
      if (tile.channels > 0) {
        tile.shared_bytes = bytes(tile);
        return tile;
      }
      if (tile.bands == 1) break;
    }
  }
  return std::nullopt;
}

std::optional<DepthwiseTile> choose_slices_tile(const Problem& problem) {
  constexpr int kWarps = 4;
  const int64_t size = element_bytes(problem.dtype);
  if (!is_narrow(problem) || problem.c * size % kWordBytes != 0) return std::nullopt;
  const auto bytes = [&](const DepthwiseTile& tile) { return slices_bytes(problem, tile); };
  const int strips = even_share(ceil_div(problem.q, kDepthwiseColumns), kWarps);
  const int slices = static_cast<int>(std::bit_floor(static_cast<uint64_t>(
      std::min<int64_t>(kWarps / strips, ceil_div(problem.c, kDepthwiseSlice)))));
  const int rows = even_share(problem.p, problem.stride_h == 1 ? 14 : 4);
  DepthwiseTile tile{slices, strips, problem.stride_h == 1 ? 1 : 2, rows, 0};
  while (bytes(tile) > kDepthwiseSharedBytes) {
    if (tile.channels > 1)
      tile.channels /= 2;
    else if (tile.strips > 2)
      tile.strips = even_share(tile.strips, tile.strips - 1);
    else if (tile.thread_rows > 7)
      tile.thread_rows = even_share(tile.thread_rows, 7);
    else if (tile.bands > 1)
      tile.bands = 1;
    else if (tile.strips > 1)
      tile.strips = 1;
    else
      return std::nullopt;
  }
  tile.shared_bytes = bytes(tile);
  return tile;
}

}  // namespace im2win::cuda
