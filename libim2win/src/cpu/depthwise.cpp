#include "cpu/depthwise.hpp"

#include <algorithm>

#include "cpu/depthwise/plan.hpp"
#include "cpu/im2win.hpp"
#include "status.hpp"

namespace im2win::cpu {
namespace {

// Of one thread: beyond it, nothing would be left of a cache.
constexpr int64_t kMaxPanelElements = int64_t{1} << 24;

// Below it, all sizes that follow fit 64 bits.
constexpr int64_t kMaxFilterElements = int64_t{1} << 36;

// Fewer neighbouring channels leave so much of a vector idle that it takes longer than to part them.
constexpr int64_t kFewNeighbours = 6;

// Planes this small are cheaper to transpose than to cut into vectors: small ones anyway, others if their channels
// fill vectors.
constexpr int64_t kSmallPlane = 256;
constexpr int64_t kFillingPlane = 800;
constexpr int64_t kManyChannels = 16;

// So is any plane if it meets that many taps: along it nearly every load would cross a line of the cache,
// while channels are aligned, and neighbouring outputs share them.
constexpr int64_t kManyTaps = 25;

/// Whether a thread's panel for one row of outputs is too large, by channels or by planes.
bool exceeds_by_channels(const Problem& problem) {
  const int64_t rows = std::min(seen_rows(problem, 1), problem.h);
  return exceeds(kMaxPanelElements, {rows, problem.w, kBlockChannels}) ||
         exceeds(kMaxPanelElements, {problem.q, kBlockChannels});
}

bool exceeds_by_planes(const Problem& problem) {
  const Problem& d = problem;
  return exceeds(kMaxPanelElements, {ceil_div(seen_rows(d, 1), d.stride_h), d.stride_h,
                                     ceil_div(seen_columns(d, d.q), d.stride_w), d.stride_w});
}

/// Whether vectors go along the channels.
bool is_by_channels(const Problem& problem) {
  if (problem.input.stride[1] == 1)
    return problem.c > kFewNeighbours || (problem.c > 1 && exceeds_by_planes(problem));
  const int64_t outputs = problem.p * problem.q;
  if (problem.c < kManyChannels || outputs <= kSmallPlane) return problem.c >= kManyChannels;
  const bool are_filled = problem.c >= 4 * (round_up(problem.c, kManyChannels) - problem.c);
  // Kernels that share inputs and weights among neighbouring outputs.
  const bool are_shared =
      problem.stride_w == 1 ||
      (problem.stride_w == 2 && problem.dilation_w == 1 && (problem.s == 3 || problem.s == 5));
  return problem.k == problem.c && are_filled && are_shared && !exceeds_by_channels(problem) &&
         (outputs <= kFillingPlane || problem.r * problem.s >= kManyTaps);
}

}  // namespace

std::string refuse_depthwise(const Problem& problem) {
  if (problem.c_per_group() != 1)
    return text("takes one input channel a group, not ", problem.c_per_group());
  if (is_by_channels(problem) ? exceeds_by_channels(problem) : exceeds_by_planes(problem))
    return text("takes windows of at most ", kMaxPanelElements, " elements over a row");
  if (exceeds(kMaxFilterElements, {problem.k, problem.r, problem.s}))
    return text("takes filters of at most ", kMaxFilterElements, " elements");
  return "";
}

bool is_depthwise_worthwhile(const Problem& problem) {
  // Filters of the one channel that there is are im2win's, which reads it once for several.
  if (problem.groups == 1 && problem.k > 1) return !is_im2win_worthwhile(problem);
  const int64_t few = is_by_channels(problem) ? 4 : 16;
  return problem.k_per_group() <= few || !is_im2win_worthwhile(problem);
}

bool takes_groups(const Problem& problem) {
  const Problem& d = problem;
  const auto takes = [&](const auto& kernels) {
    // Two groups a vector, at least: one gains nothing. In NCHW four vectors: for fewer, planes take less.
    const int64_t vectors = d.input.stride[1] == 1 ? 1 : 4;
    return kernels.sum_groups != nullptr && kernels.vector_elements / 2 % d.c_per_group() == 0 &&
           d.c >= vectors * kernels.vector_elements;
  };
  return d.c_per_group() > 1 && d.k == d.c && d.s == 3 && d.dilation_w == 1 && d.stride_w <= 2 &&
         !exceeds_by_channels(d) &&
         (d.dtype == IM2WIN_FLOAT64 ? takes(choose_kernels<double>())
                                    : takes(choose_kernels<float>()));
}

std::unique_ptr<Convolution> configure_depthwise(const Problem& problem, const Target& target) {
  return is_by_channels(problem) ? make_depthwise_channels(problem, target)
                                 : make_depthwise_planes(problem, target);
}

}  // namespace im2win::cpu
