// Depthwise convolution with vectors along a plane. A task takes some rows of outputs of some planes. Its input
// goes to the thread's panel (phase_panel.hpp), where each tap reads a whole plane of outputs at one offset.
//
//   workspace per thread: padded input, sums
//   packed filter: plane_sums.hpp

#include <algorithm>
#include <vector>

#include "cpu/depthwise/plan.hpp"
#include "cpu/output.hpp"
#include "cpu/parallel.hpp"
#include "cpu/phase_panel.hpp"
#include "cpu/plane_sums.hpp"

namespace im2win::cpu {
namespace {

constexpr int64_t kAlignment = 64;
constexpr int64_t kPanelElements = 4096;  // if a window fits; with the sums, a first-level cache
constexpr int64_t kTaskOutputs = 16384;   // at least, where there are enough for all threads

template <class Element>
class DepthwisePlanes final : public Convolution {
 public:
  using Compute = typename ComputeOf<Element>::Type;

  DepthwisePlanes(const Problem& problem, const Target& target);

  int64_t workspace_bytes() const override { return thread_bytes_ * target_.threads; }
  int64_t packed_filter_bytes() const override { return filter_bytes_; }
  void pack_filter(const void* filter, void* packed, void*) const override {
    pack_plane_filters(problem_, static_cast<const Element*>(filter), static_cast<Compute*>(packed),
                       target_.threads);
  }
  void run(const Buffers& buffers, void*) const override;

 private:
  /// Rows [p_begin, p_end) of outputs, and the thread's panels for them.
  struct Block {
    int64_t p_begin, p_end;
    Compute* panel;
    Compute* sums;
  };

  void sum_planes(const Buffers& buffers, const Block& block, int64_t begin, int64_t end) const;
  void sum_plane(const Block& block, const Compute* weights, Compute bias) const;
  void sum_inside(const Block& block, const Compute* weights, Compute bias) const;

  Problem problem_;
  Target target_;
  const Kernels<Element>& kernels_;
  std::optional<Range<Compute>> range_;
  int64_t block_rows_;
  int64_t task_planes_;
  int64_t pitch_;  // of a row of a phase
  std::optional<PhasePanel> panel_;
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
  pitch_ = phase_pitch(d);
  const int64_t fitting = kPanelElements / (pitch_ * d.stride_w);
  block_rows_ = std::clamp<int64_t>((fitting - seen_rows(d, 1)) / d.stride_h + 1, 1, d.p);
  panel_.emplace(d, block_rows_);
  offsets_ = panel_->offsets();
  const int64_t blocks = ceil_div(d.p, block_rows_);
  const int64_t balanced = ceil_div(d.n * d.c * blocks, int64_t{2} * target.threads);
  task_planes_ = std::max<int64_t>(std::min(kTaskOutputs / (block_rows_ * d.q), balanced), 1);
  // Vectors reach beyond the last sum, and read as far beyond the panel's last column.
  const int64_t vector = kernels_.vector_elements;
  sums_elements_ = round_up(block_rows_ * pitch_, vector);
  panel_elements_ = panel_->plane_elements() + vector;
  constexpr int64_t kBytes = sizeof(Compute);
  filter_elements_ = plane_filter_elements(d);
  filter_bytes_ = d.k * filter_elements_ * kBytes;
  thread_bytes_ = round_up((sums_elements_ + panel_elements_) * kBytes, kAlignment);
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
    panel_->load(kernels_, static_cast<const Element*>(buffers.input) + offset(d.input, n, c, 0, 0),
                 block.p_begin, block.p_end, block.panel);
    for (int64_t k = c * d.k_per_group(); k < (c + 1) * d.k_per_group(); ++k) {
      const Compute* weights = filters + k * filter_elements_;
      const bool is_finite = weights[filter_elements_ - 1] != 0;
      const Compute bias = range_ ? writer.bias_of(k) : Compute(0);
      is_finite ? sum_plane(block, weights, bias) : sum_inside(block, weights, bias);
      write_plane_sums(d, buffers, kernels_, writer, range_, n, k, block.p_begin, block.p_end,
                       block.sums, pitch_);
    }
  }
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
  for (int64_t p = block.p_begin; p < block.p_end; ++p) {
    for (int64_t q = 0; q < problem_.q; ++q) {
      const int64_t start = (p - block.p_begin) * pitch_ + q;
      block.sums[start] = sum_plane_inside(problem_, p, q, block.panel + start, offsets_.data(),
                                           weights, bias, range_.value_or(unbounded<Compute>()));
    }
  }
}

}  // namespace

std::unique_ptr<Convolution> make_depthwise_planes(const Problem& problem, const Target& target) {
  return make_form<DepthwisePlanes>(problem, target);
}

}  // namespace im2win::cpu
