#include "cpu/window_panel.hpp"

#include <algorithm>
#include <type_traits>

#include "cpu/output.hpp"
#include "cpu/taps.hpp"

namespace im2win::cpu {
namespace {

constexpr int64_t kLineBytes = 64;

template <class Element, class Factor>
auto choose_load() {
  if constexpr (kArePairs<Factor>) {
    return choose_pair_kernels()->load;
  } else {
    return choose_kernels<Element>().load;
  }
}

/// Whether planes are pages apart, so that a window's channels are all in the same few sets of a cache, and so many
/// that they drive each other out of it. A panel has them elsewhere.
template <class Factor>
bool do_planes_compete(const Problem& problem) {
  constexpr int64_t kPageBytes = 4096, kManyPlanes = 256;
  return !reads_channels_last<Factor>(problem) && problem.c_per_group() > kManyPlanes &&
         problem.input.stride[1] * int64_t{sizeof(Factor)} % kPageBytes == 0;
}

template <class Element, class Factor>
bool can_read_in_place(const Problem& problem) {
  const bool has_taps =
      !kArePairs<Factor> || (problem.input.stride[1] == 1 && problem.c_per_group() % 2 == 0);
  return std::is_same_v<Element, Factor> && !problem.is_padded() && has_taps &&
         !do_planes_compete<Factor>(problem);
}

}  // namespace

template <class Element, class Factor>
WindowPanel<Element, Factor>::WindowPanel(const Problem& problem, int64_t block_rows)
    : problem_(problem),
      pairs_(kArePairs<Factor> ? choose_pair_kernels() : nullptr),
      load_(choose_load<Element, Factor>()),
      has_channels_last_(reads_channels_last<Factor>(problem)),
      channels_(channel_taps<Factor>(problem) * kTapFactors<Factor>),
      is_in_place_(can_read_in_place<Element, Factor>(problem)),
      columns_(seen_columns(problem, problem.q)) {
  const Problem& d = problem_;
  const bool shares_rows = d.dilation_h == 1 && d.stride_h <= d.r;
  row_step_ = shares_rows ? d.stride_h : d.r;
  if (is_in_place_) {
    const int64_t* in = d.input.stride;
    strides_ = {in[1], in[2], in[3]};
    tap_row_ = d.dilation_h * in[2];
    ahead_.distance = kTilePixels * d.stride_w * in[3];
    if (!has_channels_last_) {
      ahead_ = {ahead_.distance + kLineBytes / int64_t{sizeof(Factor)}, 1};
    } else if (d.r * d.s * d.stride_w == 1) {
      ahead_.step = kTilePixels;
    }
  } else {
    lay_out(block_rows);
    tap_row_ = strides_.row;
  }
}

template <class Element, class Factor>
void WindowPanel<Element, Factor>::lay_out(int64_t block_rows) {
  const Problem& d = problem_;
  const int64_t images = std::min(block_rows, ceil_div(block_rows - 1, d.p) + 1);
  const int64_t rows = block_rows * row_step_ + images * (d.r - row_step_);
  const int64_t plane = rows * columns_;
  // Planes an odd number of lines apart do not compete for the same sets of a cache.
  constexpr int64_t kLine = kLineBytes / sizeof(Factor);
  const int64_t pitch = (ceil_div(plane, kLine) | 1) * kLine;
  strides_ = has_channels_last_ ? Strides{1, columns_ * channels_, channels_}
                                : Strides{pitch, columns_, 1};
  elements_ = (has_channels_last_ ? plane : pitch) * channels_;
}

template <class Element, class Factor>
void WindowPanel<Element, Factor>::list_offsets(int64_t* offsets) const {
  const Problem& d = problem_;
  const int64_t channels = channel_taps<Factor>(d);
  const auto add = [&](int64_t c, int64_t r, int64_t s) {
    *offsets++ = c * kTapFactors<Factor> * strides_.channel + r * tap_row_ +
                 s * d.dilation_w * strides_.column;
  };
  if (has_channels_last_) {
    for (int64_t r = 0; r < d.r; ++r)
      for (int64_t s = 0; s < d.s; ++s)
        for (int64_t c = 0; c < channels; ++c) add(c, r, s);
  } else {
    for (int64_t c = 0; c < channels; ++c)
      for (int64_t r = 0; r < d.r; ++r)
        for (int64_t s = 0; s < d.s; ++s) add(c, r, s);
  }
}

/// Where a row of outputs has its first row of the panel: a new image shares none with the last.
template <class Element, class Factor>
int64_t WindowPanel<Element, Factor>::panel_row(const RowBlock& block, int64_t row) const {
  const int64_t images = row / problem_.p - block.begin / problem_.p;
  return (row - block.begin) * row_step_ + images * (problem_.r - row_step_);
}

template <class Element, class Factor>
void WindowPanel<Element, Factor>::find_windows(const Element* input, const RowBlock& block,
                                                const Factor* panel, int64_t row, int64_t q,
                                                int64_t count, const Factor** windows) const {
  const Problem& d = problem_;
  const Factor* first = nullptr;
  if constexpr (std::is_same_v<Element, Factor>) {
    if (is_in_place_)
      first = input +
              offset(d.input, row / d.p, block.group * d.c_per_group(), row % d.p * d.stride_h, 0);
  }
  if (!is_in_place_) first = panel + panel_row(block, row) * strides_.row;
  for (int64_t i = 0; i < count; ++i) windows[i] = first + (q + i) * d.stride_w * strides_.column;
}

template <class Element, class Factor>
Content WindowPanel<Element, Factor>::fill(const Element* input, const RowBlock& block,
                                           Factor* panel) const {
  Content content = {};
  if (is_in_place_ && !kArePairs<Factor>) return content;
  const Problem& d = problem_;
  for (int64_t row = block.begin; row < block.end;) {
    const int64_t count = std::min(block.end - row, d.p - row % d.p);
    const Element* image = input + offset(d.input, row / d.p, block.group * d.c_per_group(), 0, 0);
    Factor* target = panel + panel_row(block, row) * strides_.row;
    const int64_t y = row % d.p * d.stride_h - d.padding_top;
    if (row_step_ == d.r) {
      for (int64_t i = 0; i < count; ++i)
        content += fill_rows(image, y + i * d.stride_h, d.dilation_h, d.r,
                             target + i * row_step_ * strides_.row);
    } else {
      content += fill_rows(image, y, 1, (count - 1) * row_step_ + d.r, target);
    }
    row += count;
  }
  return content;
}

/// Rows of the padded input, the first being row y of the image.
template <class Element, class Factor>
Content WindowPanel<Element, Factor>::fill_rows(const Element* image, int64_t y, int64_t y_step,
                                                int64_t rows, Factor* target) const {
  const int64_t row = problem_.input.stride[2];
  if (is_in_place_) return examine_rows(image + y * row, y_step * row, rows);
  if (problem_.is_padded() || has_odd_channel()) fill_padding(y, y_step, rows, target);
  copy_rows(image, y, y_step, rows, target);
  if constexpr (kArePairs<Factor>) return pairs_->examine({target, 0, 1, rows * strides_.row});
  return {};
}

/// Of the input, where pairs are read in place.
template <class Element, class Factor>
Content WindowPanel<Element, Factor>::examine_rows(const Element* first, int64_t stride,
                                                   int64_t rows) const {
  Content content = {};
  if constexpr (kArePairs<Factor>) {
    const int64_t step = problem_.s == 1 ? problem_.stride_w : 1;  // between columns that are seen
    const int64_t column = step * strides_.column;
    const int64_t columns = ceil_div(columns_, step);
    if (column == channels_) return pairs_->examine({first, stride, rows, columns * channels_});
    for (int64_t row = 0; row < rows; ++row)
      content += pairs_->examine({first + row * stride, column, columns, channels_});
  }
  return content;
}

template <class Element, class Factor>
void WindowPanel<Element, Factor>::fill_padding(int64_t y, int64_t y_step, int64_t rows,
                                                Factor* target) const {
  const Problem& d = problem_;
  const TapRange inside = taps_inside(d.h, rows, y_step, y);
  const int64_t planes = has_channels_last_ ? 1 : d.c_per_group();
  const int64_t left = std::min(d.padding_left, columns_) * strides_.column;
  const int64_t right = std::min(d.padding_left + d.w, columns_) * strides_.column;
  for (int64_t plane = 0; plane < planes; ++plane) {
    Factor* row = target + plane * strides_.channel;
    for (int64_t i = 0; i < rows; ++i, row += strides_.row) {
      const bool is_inside = inside.begin <= i && i < inside.end;
      const bool keeps_inside = is_inside && !has_odd_channel();
      std::fill(row, keeps_inside ? row + left : row + strides_.row, Factor(0));
      if (keeps_inside) std::fill(row + right, row + strides_.row, Factor(0));
    }
  }
}

template <class Element, class Factor>
void WindowPanel<Element, Factor>::copy_rows(const Element* image, int64_t y, int64_t y_step,
                                             int64_t rows, Factor* target) const {
  const Problem& d = problem_;
  const int64_t* in = d.input.stride;
  const TapRange inside = taps_inside(d.h, rows, y_step, y);
  const int64_t count = std::max<int64_t>(inside.end - inside.begin, 0);
  const int64_t left = std::min(d.padding_left, columns_);
  const int64_t columns = std::min(d.padding_left + d.w, columns_) - left;
  const int64_t stride = y_step * in[2];
  const Element* source = image + (y + inside.begin * y_step) * in[2];
  target += inside.begin * strides_.row + left * strides_.column;
  if (count == 0 || columns == 0) return;
  const int64_t c = d.c_per_group();
  if (!has_channels_last_) {
    for (int64_t channel = 0; channel < c; ++channel)
      load_({source + channel * in[1], stride, in[3], target + channel * strides_.channel,
             strides_.row, count, columns});
  } else if (in[1] == 1 && in[3] == c && c == channels_) {
    load_({source, stride, 1, target, strides_.row, count, columns * c});
  } else if (stride == columns * in[3] && strides_.row == columns * channels_) {
    load_({source, in[3], in[1], target, channels_, count * columns, c});
  } else {
    for (int64_t i = 0; i < count; ++i)
      load_({source + i * stride, in[3], in[1], target + i * strides_.row, channels_, columns, c});
  }
}

template class WindowPanel<double, double>;
template class WindowPanel<float, float>;
template class WindowPanel<Float16, float>;
template class WindowPanel<BFloat16, float>;
template class WindowPanel<BFloat16, BFloat16>;

}  // namespace im2win::cpu
