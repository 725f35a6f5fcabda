// Depthwise convolution with vectors along a plane. A task takes some rows of outputs of some
// planes. Its input goes to the thread's panel with its padding, cut by the strides: column x of
// the padded rows goes to phase x % stride_w, position x / stride_w, and rows likewise. Then each
// tap reads a whole plane of outputs at one offset, from row to row without a break, and the sums
// beyond the end of a row are what nobody reads.
//
//   workspace per thread: padded input, sums
//   packed filter: weights of a filter, then 1 if all are finite, else 0
//   panel: phase of row, phase of column, row, column

#include <algorithm>
#include <cmath>
#include <vector>

#include "cpu/depthwise/plan.hpp"
#include "cpu/output.hpp"
#include "cpu/parallel.hpp"

namespace im2win::cpu {
namespace {

constexpr int64_t kAlignment = 64;
constexpr int64_t kPanelElements = 4096;  // if a window fits; with the sums, a first-level cache
constexpr int64_t kTaskOutputs = 16384;   // at least, where there are enough for all threads
constexpr int64_t kPackedFilters = 64;    // by a task

template <class Element>
class DepthwisePlanes final : public Convolution {
 public:
  using Compute = typename ComputeOf<Element>::Type;

  DepthwisePlanes(const Problem& problem, const Target& target);

  int64_t workspace_bytes() const override { return thread_bytes_ * target_.threads; }
  int64_t packed_filter_bytes() const override { return filter_bytes_; }
  void pack_filter(const void* filter, void* packed, void*) const override;
  void run(const Buffers& buffers, void*) const override;

 private:
  /// Rows [p_begin, p_end) of outputs, and the thread's panels for them.
  struct Block {
    int64_t p_begin, p_end;
    Compute* panel;
    Compute* sums;
  };

  void sum_planes(const Buffers& buffers, const Block& block, int64_t begin, int64_t end) const;
  void load_plane(const Element* plane, const Block& block) const;
  void load_weights(const Element* filter, Compute* weights) const;
  void sum_plane(const Block& block, const Compute* weights, Compute bias) const;
  void sum_inside(const Block& block, const Compute* weights, Compute bias) const;
  void write_plane(const Buffers& buffers, const OutputWriter<Element, Compute>& writer, int64_t n,
                   int64_t k, const Block& block) const;

  Problem problem_;
  Target target_;
  const Kernels<Element>& kernels_;
  std::optional<Range<Compute>> range_;
  int64_t block_rows_;
  int64_t task_planes_;
  int64_t pitch_;           // of a row of a phase
  int64_t phase_elements_;  // of a panel
  std::vector<int64_t> offsets_;
  int64_t panel_elements_;
  int64_t sums_elements_;
  int64_t filter_elements_;  // of one filter
  int64_t filter_bytes_;     // of all
  int64_t thread_bytes_;
};

template <class Element>
DepthwisePlanes<Element>::DepthwisePlanes(const Problem& problem, const Target& target)
    : problem_(problem),
      target_(target),
      kernels_(choose_kernels<Element>()),
      range_(problem.output.stride[3] == 1 ? range_of<Compute>(problem) : std::nullopt) {
  const Problem& d = problem_;
  pitch_ = ceil_div(seen_columns(d, d.q), d.stride_w);
  const int64_t fitting = kPanelElements / (pitch_ * d.stride_w);
  block_rows_ = std::clamp<int64_t>((fitting - seen_rows(d, 1)) / d.stride_h + 1, 1, d.p);
  phase_elements_ = ceil_div(seen_rows(d, block_rows_), d.stride_h) * pitch_;
  for (int64_t r = 0; r < d.r; ++r) {
    for (int64_t s = 0; s < d.s; ++s) {
      const int64_t y = r * d.dilation_h;
      const int64_t x = s * d.dilation_w;
      offsets_.push_back((y % d.stride_h * d.stride_w + x % d.stride_w) * phase_elements_ +
                         y / d.stride_h * pitch_ + x / d.stride_w);
    }
  }
  const int64_t blocks = ceil_div(d.p, block_rows_);
  const int64_t balanced = ceil_div(d.n * d.c * blocks, int64_t{2} * target.threads);
  task_planes_ = std::max<int64_t>(std::min(kTaskOutputs / (block_rows_ * d.q), balanced), 1);
  // Vectors reach beyond the last sum, and read as far beyond the panel's last column.
  const int64_t vector = kernels_.vector_elements;
  sums_elements_ = round_up(block_rows_ * pitch_, vector);
  panel_elements_ = d.stride_h * d.stride_w * phase_elements_ + vector;
  constexpr int64_t kBytes = sizeof(Compute);
  filter_elements_ = d.r * d.s + 1;
  filter_bytes_ = d.k * filter_elements_ * kBytes;
  thread_bytes_ = round_up((sums_elements_ + panel_elements_) * kBytes, kAlignment);
}

template <class Element>
void DepthwisePlanes<Element>::pack_filter(const void* filter, void* packed, void*) const {
  const Problem& d = problem_;
  parallel_for(ceil_div(d.k, kPackedFilters), target_.threads, [&](int64_t task, int32_t) {
    const int64_t begin = task * kPackedFilters;
    for (int64_t k = begin; k < std::min(begin + kPackedFilters, d.k); ++k)
      load_weights(static_cast<const Element*>(filter) + k * d.filter.stride[0],
                   static_cast<Compute*>(packed) + k * filter_elements_);
  });
}

template <class Element>
void DepthwisePlanes<Element>::run(const Buffers& buffers, void*) const {
  const Problem& d = problem_;
  const int64_t blocks = ceil_div(d.p, block_rows_);
  const int64_t planes = d.n * d.c;
  char* panels = static_cast<char*>(buffers.workspace);
  parallel_for(
      blocks * ceil_div(planes, task_planes_), target_.threads, [&](int64_t task, int32_t thread) {
        auto* panel = reinterpret_cast<Compute*>(panels + thread * thread_bytes_);
        const int64_t p = task % blocks * block_rows_;
        const Block block = {p, std::min(p + block_rows_, d.p), panel, panel + panel_elements_};
        const int64_t begin = task / blocks * task_planes_;
        sum_planes(buffers, block, begin, std::min(begin + task_planes_, planes));
      });
}

/// Planes [begin, end), counted over all images.
template <class Element>
void DepthwisePlanes<Element>::sum_planes(const Buffers& buffers, const Block& block, int64_t begin,
                                          int64_t end) const {
  const Problem& d = problem_;
  const OutputWriter<Element, Compute> writer(d, buffers);
  const auto* filters = static_cast<const Compute*>(buffers.filter);
  std::fill_n(block.panel, panel_elements_, Compute(0));
  for (int64_t plane = begin; plane < end; ++plane) {
    const int64_t n = plane / d.c;
    const int64_t c = plane % d.c;
    load_plane(static_cast<const Element*>(buffers.input) + offset(d.input, n, c, 0, 0), block);
    for (int64_t k = c * d.k_per_group(); k < (c + 1) * d.k_per_group(); ++k) {
      const Compute* weights = filters + k * filter_elements_;
      const bool is_finite = weights[filter_elements_ - 1] != 0;
      const Compute bias = range_ ? writer.bias_of(k) : Compute(0);
      // The panel holds zeros for the padding, and 0 * Inf would be a NaN that the sum has not.
      is_finite ? sum_plane(block, weights, bias) : sum_inside(block, weights, bias);
      write_plane(buffers, writer, n, k, block);
    }
  }
}

/// Whatever else the panel holds stays: the padding's zeros.
template <class Element>
void DepthwisePlanes<Element>::load_plane(const Element* plane, const Block& block) const {
  const Problem& d = problem_;
  const int64_t top = block.p_begin * d.stride_h - d.padding_top;  // y of the panel's first row
  const int64_t bottom = std::min(top + seen_rows(d, block.p_end - block.p_begin), d.h);
  const int64_t right = std::min(seen_columns(d, d.q) - d.padding_left, d.w);
  for (int64_t phase_y = 0; phase_y < d.stride_h; ++phase_y) {
    const int64_t first_row = std::max<int64_t>(ceil_div(-top - phase_y, d.stride_h), 0);
    const int64_t y = top + phase_y + first_row * d.stride_h;
    for (int64_t phase_x = 0; phase_x < d.stride_w; ++phase_x) {
      const int64_t first_column =
          std::max<int64_t>(ceil_div(d.padding_left - phase_x, d.stride_w), 0);
      const int64_t x = phase_x + first_column * d.stride_w - d.padding_left;
      if (y >= bottom || x >= right) continue;
      kernels_.load({plane + y * d.input.stride[2] + x * d.input.stride[3],
                     d.stride_h * d.input.stride[2], d.stride_w * d.input.stride[3],
                     block.panel + (phase_y * d.stride_w + phase_x) * phase_elements_ +
                         first_row * pitch_ + first_column,
                     pitch_, ceil_div(bottom - y, d.stride_h), ceil_div(right - x, d.stride_w)});
    }
  }
}

template <class Element>
void DepthwisePlanes<Element>::load_weights(const Element* filter, Compute* weights) const {
  bool is_finite = true;
  for (int64_t r = 0; r < problem_.r; ++r) {
    for (int64_t s = 0; s < problem_.s; ++s, ++weights) {
      *weights = static_cast<Compute>(
          filter[r * problem_.filter.stride[2] + s * problem_.filter.stride[3]]);
      is_finite = is_finite && std::isfinite(*weights);
    }
  }
  *weights = is_finite ? 1 : 0;
}

template <class Element>
void DepthwisePlanes<Element>::sum_plane(const Block& block, const Compute* weights,
                                         Compute bias) const {
  const int64_t count = (block.p_end - block.p_begin - 1) * pitch_ + problem_.q;
  kernels_.sum_plane({block.panel, offsets_.data(), weights, static_cast<int64_t>(offsets_.size()),
                      bias, range_.value_or(unbounded<Compute>()), block.sums,
                      round_up(count, kernels_.vector_elements)});
}

/// The same, leaving out the taps that lie on the padding.
template <class Element>
void DepthwisePlanes<Element>::sum_inside(const Block& block, const Compute* weights,
                                          Compute bias) const {
  const Problem& d = problem_;
  const Range<Compute> range = range_.value_or(unbounded<Compute>());
  for (int64_t p = block.p_begin; p < block.p_end; ++p) {
    for (int64_t q = 0; q < d.q; ++q) {
      const int64_t start = (p - block.p_begin) * pitch_ + q;
      Compute sum = 0;
      for (int64_t tap = 0; tap < d.r * d.s; ++tap) {
        const int64_t y = p * d.stride_h + tap / d.s * d.dilation_h - d.padding_top;
        const int64_t x = q * d.stride_w + tap % d.s * d.dilation_w - d.padding_left;
        if (y < 0 || y >= d.h || x < 0 || x >= d.w) continue;
        sum += block.panel[start + offsets_[static_cast<size_t>(tap)]] * weights[tap];
      }
      sum += bias;
      block.sums[start] = sum < range.low ? range.low : sum > range.high ? range.high : sum;
    }
  }
}

template <class Element>
void DepthwisePlanes<Element>::write_plane(const Buffers& buffers,
                                           const OutputWriter<Element, Compute>& writer, int64_t n,
                                           int64_t k, const Block& block) const {
  const Problem& d = problem_;
  const int64_t rows = block.p_end - block.p_begin;
  if (range_) {
    Element* output =
        static_cast<Element*>(buffers.output) + offset(d.output, n, k, block.p_begin, 0);
    kernels_.store({block.sums, pitch_, 1, output, d.output.stride[2], rows, d.q});
    return;
  }
  for (int64_t row = 0; row < rows; ++row)
    writer.write(n, k, block.p_begin + row, 0, block.sums + row * pitch_, 1, d.q);
}

}  // namespace

std::unique_ptr<Convolution> make_depthwise_planes(const Problem& problem, const Target& target) {
  return make_form<DepthwisePlanes>(problem, target);
}

}  // namespace im2win::cpu
