// Windows, which are few, are copied to the order in which a filter's taps lie in memory. Then outputs are dot
// products of them and of the filters as these are. A task takes some filters, all pixels of them.
//
//   workspace: bias of each filter | windows: pixel, group, tap

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

constexpr int64_t kMostPixels = 8;
constexpr int64_t kFewestTaps =
    64;  // a pixel; with fewer, adding up lanes takes longer than rearranging
constexpr int64_t kTaskFilters = 64;
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
                {d.r, filter[2], d.dilation_h * d.input.stride[2]},
                {d.s, filter[3], d.dilation_w * d.input.stride[3]}}};
  std::ranges::sort(axes, [](const Axis& a, const Axis& b) {
    return a.count == 1 || b.count == 1 ? a.count < b.count : a.filter > b.filter;
  });
  int64_t taps = 1;
  for (size_t i = axes.size(); i-- > 0; taps *= axes[i].count)
    if (axes[i].count > 1 && axes[i].filter != taps) return std::nullopt;
  if (filter[0] != taps) return std::nullopt;
  auto& [outer, middle, inner] = axes;
  for (int i = 0; i < 2; ++i) {
    if (middle.input != inner.count * inner.input) break;
    inner.count *= middle.count;
    middle = outer;
    outer = {1, 0, 0};
  }
  return axes;
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
        bias_bytes_(round_up(problem.k * int64_t{sizeof(Compute)}, kAlignment)) {
    const int64_t balanced = ceil_div(problem.k, kTasksOfThread * target.threads);
    task_filters_ = std::clamp<int64_t>(balanced, 1, kTaskFilters);
  }

  int64_t workspace_bytes() const override {
    const int64_t window = problem_.groups * problem_.window_elements();
    return bias_bytes_ + problem_.output_pixels() * window * int64_t{sizeof(Compute)};
  }
  void run(const Buffers& buffers, void*) const override;

 private:
  Compute* window_of(const Buffers& buffers, int64_t pixel, int64_t group) const {
    auto* windows = reinterpret_cast<Compute*>(static_cast<char*>(buffers.workspace) + bias_bytes_);
    return windows + (pixel * problem_.groups + group) * problem_.window_elements();
  }
  void copy_window(const Buffers& buffers, int64_t pixel, int64_t group) const;
  void sum_filters(const Buffers& buffers, int64_t group, int64_t begin, int64_t end) const;
  void finish(const Buffers& buffers, int64_t first, int64_t count, Compute* sums) const;

  Problem problem_;
  Target target_;
  const Kernels<Compute>& kernels_;
  std::optional<Range<Compute>> range_;
  Axes axes_;
  int64_t bias_bytes_;
  int64_t task_filters_;
};

template <class Compute>
void Im2winDots<Compute>::run(const Buffers& buffers, void*) const {
  const Problem& d = problem_;
  fill_bias<Compute>(d, buffers, range_.has_value(), d.k_per_group(),
                     static_cast<Compute*>(buffers.workspace));
  for (int64_t pixel = 0; pixel < d.output_pixels(); ++pixel)
    for (int64_t group = 0; group < d.groups; ++group) copy_window(buffers, pixel, group);
  const int64_t parts = ceil_div(d.k_per_group(), task_filters_);
  parallel_for(d.groups * parts, target_.threads, [&](int64_t task, int32_t) {
    const int64_t begin = task % parts * task_filters_;
    sum_filters(buffers, task / parts, begin, std::min(begin + task_filters_, d.k_per_group()));
  });
}

template <class Compute>
void Im2winDots<Compute>::copy_window(const Buffers& buffers, int64_t pixel, int64_t group) const {
  const Problem& d = problem_;
  const auto& [outer, middle, inner] = axes_;
  const Compute* source = static_cast<const Compute*>(buffers.input) +
                          offset(d.input, pixel / (d.p * d.q), group * d.c_per_group(),
                                 pixel / d.q % d.p * d.stride_h, pixel % d.q * d.stride_w);
  Compute* target = window_of(buffers, pixel, group);
  for (int64_t i = 0; i < outer.count; ++i, target += middle.count * inner.count)
    kernels_.load({source + i * outer.input, middle.input, inner.input, target, inner.count,
                   middle.count, inner.count});
}

/// Filters [begin, end) of the group. Where a register tile has more, and more pixels, it sums the last ones again.
template <class Compute>
void Im2winDots<Compute>::sum_filters(const Buffers& buffers, int64_t group, int64_t begin,
                                      int64_t end) const {
  const Problem& d = problem_;
  const int64_t pixels = d.output_pixels();
  const int64_t first = group * d.k_per_group();
  const int64_t stride = d.filter.stride[0];
  const auto* filters = static_cast<const Compute*>(buffers.filter) + first * stride;
  Compute sums[(kMostPixels + kDotPixels - 1) * kTaskFilters];
  DotTile<Compute> tile;
  tile.taps = d.window_elements();
  tile.sums_stride = kTaskFilters;
  for (int64_t k = begin; k < end; k += kDotFilters) {
    for (int64_t i = 0; i < kDotFilters; ++i)
      tile.filters[i] = filters + std::min(k + i, end - 1) * stride;
    for (int64_t pixel = 0; pixel < pixels; pixel += kDotPixels) {
      for (int64_t i = 0; i < kDotPixels; ++i)
        tile.windows[i] = window_of(buffers, std::min(pixel + i, pixels - 1), group);
      tile.sums = sums + pixel * kTaskFilters + (k - begin);
      tile.ahead = pixel == 0 ? kDotFilters * stride : 0;
      kernels_.sum_dots[std::min<int64_t>(kDotPixels, pixels - pixel) - 1](tile);
    }
  }
  for (int64_t pixel = 0; range_ && pixel < pixels; ++pixel)
    finish(buffers, first + begin, end - begin, sums + pixel * kTaskFilters);
  write_sums<Compute>(d, buffers, range_ ? kernels_.store : nullptr,
                      {0, pixels, first + begin, end - begin}, sums, kTaskFilters, false);
}

/// NaN stays.
template <class Compute>
void Im2winDots<Compute>::finish(const Buffers& buffers, int64_t first, int64_t count,
                                 Compute* sums) const {
  const auto* bias = static_cast<const Compute*>(buffers.workspace) + first;
  for (int64_t i = 0; i < count; ++i) {
    const Compute x = sums[i] + bias[i];
    sums[i] = x < range_->low ? range_->low : x > range_->high ? range_->high : x;
  }
}

}  // namespace

bool is_by_dots(const Problem& problem) {
  const Problem& d = problem;
  return (d.dtype == IM2WIN_FLOAT32 || d.dtype == IM2WIN_FLOAT64) && !d.is_padded() &&
         d.output_pixels() <= kMostPixels &&
         d.window_elements() >= kFewestTaps * d.output_pixels() && dense_axes(d);
}

std::unique_ptr<Convolution> make_im2win_dots(const Problem& problem, const Target& target) {
  if (problem.dtype == IM2WIN_FLOAT64) return std::make_unique<Im2winDots<double>>(problem, target);
  return std::make_unique<Im2winDots<float>>(problem, target);
}

}  // namespace im2win::cpu
