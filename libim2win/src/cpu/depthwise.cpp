#include "cpu/depthwise.hpp"

#include <algorithm>

#include "cpu/depthwise_plan.hpp"
#include "status.hpp"

namespace im2win::cpu {
namespace {

// Of one thread: beyond it, nothing would be left of a cache.
constexpr int64_t kMaxPanelElements = int64_t{1} << 24;

// Planes this small are cheaper to transpose than to cut into vectors.
constexpr int64_t kSmallPlane = 256;
constexpr int64_t kManyChannels = 16;

/// Whether vectors go along the channels.
bool is_by_channels(const Problem& problem) {
  if (problem.input.stride[1] == 1) return problem.c > 1;
  return problem.p * problem.q <= kSmallPlane && problem.c >= kManyChannels;
}

/// Elements of a thread's panel for one row of outputs, by channels or by planes.
int64_t channels_panel(const Problem& problem) {
  const int64_t rows = std::min(seen_rows(problem, 1), problem.h);
  const int64_t window = checked_multiply(rows, problem.w, "the depthwise panel");
  return checked_multiply(std::max(window, problem.q), kBlockChannels, "the depthwise panel");
}

int64_t planes_panel(const Problem& problem) {
  const int64_t rows = round_up(seen_rows(problem, 1), problem.stride_h);
  const int64_t columns = round_up(seen_columns(problem, problem.q), problem.stride_w);
  return checked_multiply(rows, columns, "the depthwise panel");
}

}  // namespace

std::string refuse_depthwise(const Problem& problem) {
  if (problem.c_per_group() != 1)
    return text("takes one input channel a group, not ", problem.c_per_group());
  const int64_t panel = is_by_channels(problem) ? channels_panel(problem) : planes_panel(problem);
  if (panel > kMaxPanelElements)
    return text("takes windows of at most ", kMaxPanelElements, " elements over a row, not ",
                panel);
  return "";
}

std::unique_ptr<Convolution> configure_depthwise(const Problem& problem, const Target& target) {
  return is_by_channels(problem) ? make_depthwise_channels(problem, target)
                                 : make_depthwise_planes(problem, target);
}

}  // namespace im2win::cpu
