// The im2win tensor is never whole: a thread transforms a few of its rows, all channels of each,
// into a panel that stays in its cache, and multiplies every filter with the windows that lie
// there.
//
//   workspace: a panel per thread
//   panel: im2win row (n, p), channel of the group, x * R + r
//   packed filter: group, tile of filters, tap (c, s, r), filter in the tile; and a flag: 1.0 if all
//     weights are finite. If not, a padded problem takes its sums over the taps inside the image
//     alone: the panels hold zeros for the padding, and 0 * Inf would be a NaN that is not the sum's.

#include "cpu/im2win.hpp"

#include <algorithm>
#include <atomic>
#include <cmath>

#include "checked.hpp"
#include "cpu/microkernel.hpp"
#include "cpu/output.hpp"
#include "cpu/parallel.hpp"
#include "cpu/taps.hpp"
#include "cpu/transform.hpp"

namespace im2win::cpu {
namespace {

// Half of a common second-level cache, which the filters stream through too.
constexpr int64_t kPanelBytes = 256 * 1024;
constexpr int64_t kPanelsPerThread = 2;  // at least, so that threads finish together
constexpr int64_t kAlignment = 64;

class Im2win final : public Convolution {
 public:
  Im2win(const Problem& problem, const Target& target);

  int64_t workspace_bytes() const override { return panel_bytes_ * target_.threads; }
  int64_t packed_filter_bytes() const override {
    return (filter_floats_ + 1) * int64_t{sizeof(float)};
  }
  void pack_filter(const void* filter, void* packed, void* stream) const override;
  void run(const Buffers& buffers, void* stream) const override;

 private:
  /// Filters [begin, begin + count) of a group, padded with zeros to whole vectors.
  struct FilterTile {
    int64_t begin;
    int64_t count;
    int vectors;
    int64_t offset;  // of its first tap in the packed filter
  };

  FilterTile filter_tile(int64_t group, int64_t index) const;
  /// Floats of a packed tap, and of the sums of a pixel.
  int64_t width(const FilterTile& tile) const {
    return int64_t{tile.vectors} * microkernels_.vector_floats;
  }
  bool pack_tile(const float* filter, const FilterTile& tile, int64_t group, float* packed) const;
  void fill_panel(const float* input, int64_t group, int64_t row_begin, int64_t row_end,
                  float* panel) const;
  void multiply_panel(const float* packed, const float* panel, int64_t group, int64_t row_begin,
                      int64_t row_end, const OutputWriter<float, float>& writer) const;
  void sum_inside(const FilterTile& tile, const float* filters, const float* window, int64_t pixel,
                  float* sums) const;
  void write_tile(const float* sums, const FilterTile& tile, int64_t group, int64_t pixel_begin,
                  int64_t pixel_end, const OutputWriter<float, float>& writer) const;

  Problem problem_;
  Target target_;
  const MicrokernelSet& microkernels_;
  WindowShape window_;
  int64_t tile_filters_;  // of a full tile
  int64_t tiles_per_group_;
  int64_t group_filters_;  // of a group, padded
  int64_t row_elements_;   // of an im2win row of one group: all its channels
  int64_t panel_rows_;
  int64_t filter_floats_;
  int64_t panel_bytes_;
};

Im2win::Im2win(const Problem& problem, const Target& target)
    : problem_(problem), target_(target), microkernels_(choose_microkernels()) {
  const int64_t channel_elements = problem.padded_w() * problem.r;
  window_ = {problem.c_per_group(), channel_elements, 1, 0, problem.s * problem.r};
  if (problem.dilation_w > 1) {  // a window's columns are then apart
    window_.columns = problem.s;
    window_.column_stride = problem.dilation_w * problem.r;
    window_.run = problem.r;
  }
  const int64_t vector_floats = microkernels_.vector_floats;
  tile_filters_ = vector_floats * microkernels_.max_vectors;
  tiles_per_group_ = ceil_div(problem.k_per_group(), tile_filters_);
  group_filters_ = round_up(problem.k_per_group(), vector_floats);
  filter_floats_ =
      checked_multiply(checked_multiply(group_filters_, problem.groups, "the packed filter"),
                       problem.window_elements(), "the packed filter");
  checked_multiply(filter_floats_ + 1, sizeof(float), "the packed filter");

  row_elements_ = checked_multiply(problem.c_per_group(), channel_elements, "an im2win row");
  const int64_t rows = problem.n * problem.p;
  const int64_t fitting = kPanelBytes / int64_t{sizeof(float)} / row_elements_;
  const int64_t balanced = ceil_div(rows * problem.groups, kPanelsPerThread * target.threads);
  panel_rows_ = std::max<int64_t>(1, std::min({fitting, balanced, rows}));
  panel_bytes_ = round_up(
      checked_multiply(panel_rows_ * int64_t{sizeof(float)}, row_elements_, "the im2win panel"),
      kAlignment);
  checked_multiply(panel_bytes_, target.threads, "the workspace");
}

void Im2win::run(const Buffers& buffers, void*) const {
  auto* panels = static_cast<char*>(buffers.workspace);
  const auto* packed = static_cast<const float*>(buffers.filter);
  const OutputWriter<float, float> writer(problem_, buffers);
  const int64_t rows = problem_.n * problem_.p;
  const int64_t blocks = ceil_div(rows, panel_rows_);
  parallel_for(problem_.groups * blocks, target_.threads, [&](int64_t task, int32_t thread) {
    auto* panel = reinterpret_cast<float*>(panels + thread * panel_bytes_);
    const int64_t group = task % problem_.groups;
    const int64_t row_begin = task / problem_.groups * panel_rows_;
    const int64_t row_end = std::min(row_begin + panel_rows_, rows);
    fill_panel(static_cast<const float*>(buffers.input), group, row_begin, row_end, panel);
    multiply_panel(packed, panel, group, row_begin, row_end, writer);
  });
}

Im2win::FilterTile Im2win::filter_tile(int64_t group, int64_t index) const {
  const int64_t begin = index * tile_filters_;
  const int64_t count = std::min(tile_filters_, problem_.k_per_group() - begin);
  return {begin, count, static_cast<int>(ceil_div(count, microkernels_.vector_floats)),
          (group * group_filters_ + begin) * problem_.window_elements()};
}

void Im2win::pack_filter(const void* filter, void* packed, void*) const {
  auto* target = static_cast<float*>(packed);
  std::atomic<bool> is_finite = true;
  parallel_for(problem_.groups * tiles_per_group_, target_.threads, [&](int64_t task, int32_t) {
    const int64_t group = task / tiles_per_group_;
    const FilterTile tile = filter_tile(group, task % tiles_per_group_);
    if (!pack_tile(static_cast<const float*>(filter), tile, group, target + tile.offset))
      is_finite = false;
  });
  target[filter_floats_] = is_finite ? 1.0F : 0.0F;
}

/// Whether all weights of the tile are finite.
bool Im2win::pack_tile(const float* filter, const FilterTile& tile, int64_t group,
                       float* packed) const {
  const int64_t* stride = problem_.filter.stride;
  const float* first = filter + (group * problem_.k_per_group() + tile.begin) * stride[0];
  bool is_finite = true;
  for (int64_t c = 0; c < problem_.c_per_group(); ++c) {
    for (int64_t s = 0; s < problem_.s; ++s) {
      for (int64_t r = 0; r < problem_.r; ++r) {
        const float* source = first + c * stride[1] + r * stride[2] + s * stride[3];
        for (int64_t k = 0; k < tile.count; ++k) {
          packed[k] = source[k * stride[0]];
          is_finite = is_finite && std::isfinite(packed[k]);
        }
        std::fill(packed + tile.count, packed + width(tile), 0.0F);
        packed += width(tile);
      }
    }
  }
  return is_finite;
}

void Im2win::fill_panel(const float* input, int64_t group, int64_t row_begin, int64_t row_end,
                        float* panel) const {
  for (int64_t row = row_begin; row < row_end; ++row) {
    const int64_t n = row / problem_.p;
    for (int64_t c = 0; c < problem_.c_per_group(); ++c) {
      const float* channel = input + n * problem_.input.stride[0] +
                             (group * problem_.c_per_group() + c) * problem_.input.stride[1];
      write_window_row(problem_, channel, row % problem_.p, panel);
      panel += window_.channel_stride;
    }
  }
}

void Im2win::multiply_panel(const float* packed, const float* panel, int64_t group,
                            int64_t row_begin, int64_t row_end,
                            const OutputWriter<float, float>& writer) const {
  const bool avoids_padding = problem_.is_padded() && packed[filter_floats_] == 0;
  const int64_t first_pixel = row_begin * problem_.q;
  const int64_t pixels = row_end * problem_.q - first_pixel;
  alignas(kAlignment) float sums[kTilePixels * kMaxTileFilters];
  for (int64_t index = 0; index < tiles_per_group_; ++index) {
    const FilterTile tile = filter_tile(group, index);
    const float* filters = packed + tile.offset;
    for (int64_t begin = 0; begin < pixels; begin += kTilePixels) {
      const int64_t end = std::min(begin + kTilePixels, pixels);
      const float* windows[kTilePixels];
      for (int64_t i = 0; i < kTilePixels; ++i) {
        const int64_t pixel = std::min(begin + i, end - 1);  // past the end: any valid window
        windows[i] = panel + pixel / problem_.q * row_elements_ +
                     pixel % problem_.q * problem_.stride_w * problem_.r;
      }
      microkernels_.tile[tile.vectors - 1](window_, windows, filters, sums);
      for (int64_t i = begin; avoids_padding && i < end; ++i)
        sum_inside(tile, filters, windows[i - begin], first_pixel + i,
                   sums + (i - begin) * width(tile));
      write_tile(sums, tile, group, first_pixel + begin, first_pixel + end, writer);
    }
  }
}

/// The sums of one pixel over the taps that lie inside the image, in the microkernel's order.
void Im2win::sum_inside(const FilterTile& tile, const float* filters, const float* window,
                        int64_t pixel, float* sums) const {
  const Problem& d = problem_;
  const TapRange rows =
      taps_inside(d.h, d.r, d.dilation_h, pixel / d.q % d.p * d.stride_h - d.padding_top);
  const TapRange columns =
      taps_inside(d.w, d.s, d.dilation_w, pixel % d.q * d.stride_w - d.padding_left);
  std::fill(sums, sums + tile.count, 0.0F);
  for (int64_t c = 0; c < d.c_per_group(); ++c) {
    for (int64_t s = columns.begin; s < columns.end; ++s) {
      for (int64_t r = rows.begin; r < rows.end; ++r) {
        const float x = window[c * window_.channel_stride + s * d.dilation_w * d.r + r];
        const float* weights = filters + ((c * d.s + s) * d.r + r) * width(tile);
        for (int64_t k = 0; k < tile.count; ++k) sums[k] += x * weights[k];
      }
    }
  }
}

/// Pixels are counted over all images, (n, p, q).
void Im2win::write_tile(const float* sums, const FilterTile& tile, int64_t group,
                        int64_t pixel_begin, int64_t pixel_end,
                        const OutputWriter<float, float>& writer) const {
  for (int64_t pixel = pixel_begin; pixel < pixel_end;) {
    const int64_t row = pixel / problem_.q;
    const int64_t q = pixel % problem_.q;
    const int64_t count = std::min(pixel_end - pixel, problem_.q - q);
    const float* first = sums + (pixel - pixel_begin) * width(tile);
    for (int64_t k = 0; k < tile.count; ++k)
      writer.write(row / problem_.p, group * problem_.k_per_group() + tile.begin + k,
                   row % problem_.p, q, first + k, width(tile), count);
    pixel += count;
  }
}

}  // namespace

std::string refuse_im2win(const Problem& problem) {
  if (problem.dtype != IM2WIN_FLOAT32)
    return text("takes float32 tensors, not ", dtype_name(problem.dtype));
  return "";
}

std::unique_ptr<Convolution> configure_im2win(const Problem& problem, const Target& target) {
  return std::make_unique<Im2win>(problem, target);
}

}  // namespace im2win::cpu
