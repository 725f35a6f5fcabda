// Outputs are dot products of windows and of filters as these are. Few windows are copied to the order in which a
// filter's taps lie in memory, and a task takes some filters and all pixels. Of few filters, windows are pixels with
// their channels last, read in place, and a task takes some pixels and all filters.
//
//   workspace: bias of each filter | windows that are copied: pixel, group, tap

#include "cpu/im2win/dots.hpp"

#include <algorithm>
#include <array>
#include <optional>

#include "checked.hpp"
#include "cpu/kernels.hpp"
#include "cpu/output.hpp"
#include "cpu/parallel.hpp"
#include "cpu/write_sums.hpp"

namespace im2win::cpu {
namespace {

// With fewer taps for each of the few, adding up lanes takes longer than what is saved.
constexpr int64_t kMostPixels = 8;
constexpr int64_t kTapsOfPixel = 64;
constexpr int64_t kMostFilters = 4;
constexpr int64_t kTapsOfFilter = 32;
constexpr int64_t kTaskOutputs = 64;  // of the filters, or pixels, that are not few
constexpr int64_t kTasksOfThread = 4;
constexpr int64_t kAlignment = 64;

/// Of a window, in the order of a filter's memory, the innermost last; several may be one.
struct Axis {
  int64_t count;
  int64_t filter, input;  // from tap to tap
};
using Axes = std::array<Axis, 3>;

/// Nothing if filters' taps do not lie side by side.
std::optional<Axes> dense_axes(const Problem& problem) {
  const Problem& d = problem;
  const int64_t* filter = d.filter.stride;
  Axes axes = {{{d.c_per_group(), filter[1], d.input.stride[1]},
                {d.r, filter[2], d.r > 1 ? d.dilation_h * d.input.stride[2] : 0},
                {d.s, filter[3], d.s > 1 ? d.dilation_w * d.input.stride[3] : 0}}};
  std::ranges::sort(axes, [](const Axis& a, const Axis& b) {
    return a.count == 1 || b.count == 1 ? a.count < b.count : a.filter > b.filter;
  });
  int64_t taps = 1;
  for (size_t i = axes.size(); i-- > 0; taps *= axes[i].count)
    if (axes[i].count > 1 && axes[i].filter != taps) return std::nullopt;
  if (d.k > 1 && filter[0] != taps) return std::nullopt;
  auto& [outer, middle, inner] = axes;
  for (int i = 0; i < 2; ++i) {
    if (middle.input != inner.count * inner.input) break;
    inner.count *= middle.count;
    middle = outer;
    outer = {1, 0, 0};
  }
  return axes;
}

bool has_few_pixels(const Problem& problem) {
  return problem.output_pixels() <= kMostPixels &&
         problem.window_elements() >= kTapsOfPixel * problem.output_pixels();
}

/// Whether windows, of few filters, are pixels with their channels side by side, any two neighbours as far apart.
bool has_few_filters(const Problem& problem) {
  const Problem& d = problem;
  const int64_t* in = d.input.stride;
  return d.k <= kMostFilters && d.c_per_group() >= kTapsOfFilter * d.k && d.groups == 1 &&
         d.r == 1 && d.s == 1 && d.stride_h == 1 && d.stride_w == 1 && in[1] == 1 &&
         in[2] == d.w * in[3] && (d.n == 1 || in[0] == d.h * in[2]) && has_unit_stride(d.output);
}

template <class Compute>
class Im2winDots final : public Convolution {
 public:
  Im2winDots(const Problem& problem, const Target& target)
      : problem_(problem),
        target_(target),
        kernels_(choose_kernels<Compute>()),
        range_(has_unit_stride(problem.output) ? range_of<Compute>(problem) : std::nullopt),
        axes_(*dense_axes(problem)),
        copies_(has_few_pixels(problem)),
        pitch_(copies_ ? kTaskOutputs + kDotRows : problem.k),
        bias_bytes_(round_up(problem.k * int64_t{sizeof(Compute)}, kAlignment)) {
    const int64_t outputs = copies_ ? problem.k_per_group() : problem.output_pixels();
    task_outputs_ =
        std::clamp<int64_t>(ceil_div(outputs, kTasksOfThread * target.threads), 1, kTaskOutputs);
  }

  int64_t workspace_bytes() const override {
    const int64_t window = problem_.groups * problem_.window_elements();
    const int64_t copied = copies_ ? problem_.output_pixels() * window : 0;
    return bias_bytes_ + copied * int64_t{sizeof(Compute)};
  }
  void run(const Buffers& buffers, void*) const override;

 private:
  /// Outputs of a group: its filters [k_begin, k_end), pixels of all images.
  struct Block {
    int64_t group;
    int64_t k_begin, k_end;
    int64_t begin, end;
  };

  Compute* copied_window(const Buffers& buffers, int64_t pixel, int64_t group) const {
    auto* windows = reinterpret_cast<Compute*>(static_cast<char*>(buffers.workspace) + bias_bytes_);
    return windows + (pixel * problem_.groups + group) * problem_.window_elements();
  }
  void copy_window(const Buffers& buffers, int64_t pixel, int64_t group) const;
  void sum_block(const Buffers& buffers, const Block& block) const;
  template <class Row, class Column>
  void sum_products(int64_t rows, const Row& row, int64_t columns, const Column& column,
                    DotTile<Compute> tile) const;
  void finish(const Buffers& buffers, int64_t first, int64_t count, Compute* sums) const;

  Problem problem_;
  Target target_;
  const Kernels<Compute>& kernels_;
  std::optional<Range<Compute>> range_;
  Axes axes_;
  bool copies_;    // the windows
  int64_t pitch_;  // of sums, from pixel to pixel
  int64_t bias_bytes_;
  int64_t task_outputs_;
};

template <class Compute>
void Im2winDots<Compute>::run(const Buffers& buffers, void*) const {
  const Problem& d = problem_;
  const int64_t pixels = d.output_pixels();
  fill_bias<Compute>(d, buffers, range_.has_value(), d.k_per_group(),
                     static_cast<Compute*>(buffers.workspace));
  for (int64_t pixel = 0; copies_ && pixel < pixels; ++pixel)
    for (int64_t group = 0; group < d.groups; ++group) copy_window(buffers, pixel, group);
  const int64_t outputs = copies_ ? d.k_per_group() : pixels;
  const int64_t parts = ceil_div(outputs, task_outputs_);
  parallel_for(d.groups * parts, target_.threads, [&](int64_t task, int32_t) {
    const int64_t begin = task % parts * task_outputs_;
    const int64_t end = std::min(begin + task_outputs_, outputs);
    sum_block(buffers,
              copies_ ? Block{task / parts, begin, end, 0, pixels} : Block{0, 0, d.k, begin, end});
  });
}

template <class Compute>
void Im2winDots<Compute>::copy_window(const Buffers& buffers, int64_t pixel, int64_t group) const {
  const Problem& d = problem_;
  const auto& [outer, middle, inner] = axes_;
  const Compute* source = static_cast<const Compute*>(buffers.input) +
                          offset(d.input, pixel / (d.p * d.q), group * d.c_per_group(),
                                 pixel / d.q % d.p * d.stride_h, pixel % d.q * d.stride_w);
  Compute* target = copied_window(buffers, pixel, group);
  for (int64_t i = 0; i < outer.count; ++i, target += middle.count * inner.count)
    kernels_.load({source + i * outer.input, middle.input, inner.input, target, inner.count,
                   middle.count, inner.count});
}

template <class Compute>
void Im2winDots<Compute>::sum_block(const Buffers& buffers, const Block& block) const {
  const Problem& d = problem_;
  const int64_t stride = d.filter.stride[0];
  const int64_t first = block.group * d.k_per_group() + block.k_begin;
  const int64_t filters = block.k_end - block.k_begin;
  const int64_t pixels = block.end - block.begin;
  const auto filter = [&](int64_t k) {
    return static_cast<const Compute*>(buffers.filter) + (first + k) * stride;
  };
  const auto window = [&](int64_t pixel) -> const Compute* {
    if (copies_) return copied_window(buffers, block.begin + pixel, block.group);
    return static_cast<const Compute*>(buffers.input) + (block.begin + pixel) * d.input.stride[3];
  };
  Compute sums[kMostPixels * (kTaskOutputs + kDotRows)];
  DotTile<Compute> tile = {};
  tile.taps = d.window_elements();
  tile.sums = sums;
  tile.row_stride = copies_ ? 1 : pitch_;
  tile.column_stride = copies_ ? pitch_ : 1;
  tile.ahead = kDotRows * (copies_ ? stride : d.input.stride[3]);
  if (copies_) {
    sum_products(filters, filter, pixels, window, tile);
  } else {
    sum_products(pixels, window, filters, filter, tile);
  }
  for (int64_t pixel = 0; range_ && pixel < pixels; ++pixel)
    finish(buffers, first, filters, sums + pixel * pitch_);
  write_sums<Compute>(d, buffers, range_ ? kernels_.store : nullptr,
                      {block.begin, pixels, first, filters}, sums, pitch_, false);
}

/// Of all rows and columns. Where a register tile has more rows, it sums the last one again, beyond the others.
template <class Compute>
template <class Row, class Column>
void Im2winDots<Compute>::sum_products(int64_t rows, const Row& row, int64_t columns,
                                       const Column& column, DotTile<Compute> tile) const {
  Compute* const sums = tile.sums;
  const int64_t ahead = tile.ahead;
  for (int64_t i = 0; i < rows; i += kDotRows) {
    for (int64_t j = 0; j < kDotRows; ++j) tile.rows[j] = row(std::min(i + j, rows - 1));
    for (int64_t j = 0; j < columns; j += kDotColumns) {
      const int64_t count = std::min<int64_t>(kDotColumns, columns - j);
      for (int64_t l = 0; l < count; ++l) tile.columns[l] = column(j + l);
      tile.sums = sums + i * tile.row_stride + j * tile.column_stride;
      tile.ahead = j == 0 ? ahead : 0;
      kernels_.sum_dots[count - 1](tile);
    }
  }
}

template <class Compute>
void Im2winDots<Compute>::finish(const Buffers& buffers, int64_t first, int64_t count,
                                 Compute* sums) const {
  const auto* bias = static_cast<const Compute*>(buffers.workspace) + first;
  for (int64_t i = 0; i < count; ++i) sums[i] = range_->bounded(sums[i] + bias[i]);
}

}  // namespace

bool is_by_dots(const Problem& problem) {
  const Problem& d = problem;
  return (d.dtype == IM2WIN_FLOAT32 || d.dtype == IM2WIN_FLOAT64) && !d.is_padded() &&
         (has_few_pixels(d) || has_few_filters(d)) && dense_axes(d);
}

std::unique_ptr<Convolution> make_im2win_dots(const Problem& problem, const Target& target) {
  if (problem.dtype == IM2WIN_FLOAT64) return std::make_unique<Im2winDots<double>>(problem, target);
  return std::make_unique<Im2winDots<float>>(problem, target);
}

}  // namespace im2win::cpu
