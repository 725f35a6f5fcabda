#include "cpu/im2win/division.hpp"

#include <algorithm>

#include "checked.hpp"
#include "cpu/taps.hpp"

namespace im2win::cpu {
namespace {

constexpr int64_t kTaskPixels = 384;                     // that share what they read of the filters
constexpr int64_t kPanelElements = int64_t{128} * 1024;  // if a row of outputs takes no more
constexpr int64_t kFewPixelsPanelElements = int64_t{512} * 1024;  // as filters outweigh it
constexpr int64_t kFewRows = 8;  // for a thread to have its even share of them

}  // namespace

Division divide(const Problem& problem, int64_t tiles, int32_t threads) {
  const Problem& d = problem;
  const int64_t rows = std::max<int64_t>(d.n * d.p, 1);  // an empty batch has none
  const int64_t row_elements = seen_columns(d, d.q) * d.c_per_group() * std::min(d.stride_h, d.r);
  const bool are_few = rows * d.q <= kFewPixels;
  const int64_t fitting = (are_few ? kFewPixelsPanelElements : kPanelElements) / row_elements;
  const int64_t most = std::clamp<int64_t>(std::min(ceil_div(kTaskPixels, d.q), fitting), 1, rows);
  return divide_rows({rows, most, are_few}, d.groups, tiles, threads);
}

Division divide_rows(const OutputRows& rows, int64_t groups, int64_t tiles, int32_t threads) {
  // Threads share the filters out where they would get uneven shares of the rows, or few pixels.
  const int64_t all_rows = rows.count * groups;
  const bool shares_filters =
      (all_rows < kFewRows * threads || rows.are_few) &&
      round_up(tiles, threads) * all_rows <= round_up(all_rows, threads) * tiles;
  const int64_t parts = shares_filters ? std::min<int64_t>(tiles, threads) : 1;

  const int64_t blocks =
      round_up(ceil_div(rows.count, rows.most), ceil_div(threads, parts * groups));
  return {groups, rows.count, tiles, ceil_div(rows.count, blocks), ceil_div(tiles, parts)};
}

int64_t Division::tasks() const {
  return groups * ceil_div(all_rows, rows) * ceil_div(all_tiles, tiles);
}

Share Division::share(int64_t task) const {
  const int64_t parts = ceil_div(all_tiles, tiles);
  const int64_t blocks = ceil_div(all_rows, rows);
  const int64_t begin = task / parts % blocks * rows;
  const int64_t tiles_begin = task % parts * tiles;
  return {task / parts / blocks, begin, std::min(begin + rows, all_rows), tiles_begin,
          std::min(tiles_begin + tiles, all_tiles)};
}

}  // namespace im2win::cpu
