#include "cpu/filter_pairs.hpp"

#include <algorithm>

#include "checked.hpp"

namespace im2win::cpu {
namespace {

/// Factor, filter.
struct Room {
  static constexpr int64_t kMostFilters =
      int64_t{kMaxTileVectors} * kMaxVectorBytes / sizeof(float);
  alignas(kMaxVectorBytes) float rows[kRoomFactors * kMostFilters];

  explicit Room(const FactorLines& lines) {
    if (lines.filters < lines.width) std::fill_n(rows, kRoomFactors * lines.width, 0.0F);
  }
};

}  // namespace

Content FilterPairs::pack_neighbours(const FactorLines& line) const {
  Room room(line);
  float* rows = room.rows;
  const int64_t width = line.width;
  Content content = {};
  for (int64_t begin = 0; begin < line.count; begin += kRoomFactors) {
    const int64_t factors = std::min(kRoomFactors, line.count - begin);
    kernels_.load({line.source + begin * line.step, line.step, line.filter_stride, rows, width,
                   factors, line.filters});
    if (factors % 2 == 1) std::fill_n(rows + factors * width, width, 0.0F);
    content += pairs_->join({rows, rows + width, 2 * width, line.target + begin * width, 2 * width,
                             ceil_div(factors, 2), width});
  }
  return content;
}

Content FilterPairs::pack_lines(const FactorLines& lines, int64_t channels) const {
  Room room(lines);
  float* rows = room.rows;
  const int64_t width = lines.width;
  const int64_t most = std::min(lines.count, kRoomFactors / round_up(channels, 2));
  const bool are_one = most == lines.count && lines.channel_stride == lines.count * lines.step;
  const int64_t loads = are_one ? 1 : channels;
  Content content = {};
  for (int64_t begin = 0; begin < lines.count; begin += most) {
    const int64_t factors = std::min(most, lines.count - begin);
    const int64_t channel_rows = factors * width;
    for (int64_t i = 0; i < loads; ++i)
      kernels_.load({lines.source + i * lines.channel_stride + begin * lines.step, lines.step,
                     lines.filter_stride, rows + i * channel_rows, width,
                     channels / loads * factors, lines.filters});
    if (channels % 2 == 1) std::fill_n(rows + channels * channel_rows, channel_rows, 0.0F);
    for (int64_t i = 0; i < channels; i += 2)
      content += pairs_->join({rows + i * channel_rows, rows + (i + 1) * channel_rows, width,
                               lines.target + (begin * lines.target_step + i) * width,
                               lines.target_step * width, factors, width});
  }
  return content;
}

}  // namespace im2win::cpu
