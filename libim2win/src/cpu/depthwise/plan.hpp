// What both forms of the CPU's depthwise algorithm are made of.
#pragma once

#include <algorithm>
#include <memory>

#include "backend.hpp"
#include "checked.hpp"
#include "cpu/form.hpp"
#include "cpu/kernels.hpp"
#include "cpu/output.hpp"
#include "cpu/taps.hpp"

namespace im2win::cpu {

/// Rows of outputs that a task takes: few enough for all threads to have some tasks, and at least 1,
/// also for an empty batch.
inline int64_t balanced_rows(int64_t rows, int64_t rows_per_image, int32_t threads) {
  constexpr int64_t kTasksPerThread = 4;
  const int64_t balanced = ceil_div(rows, kTasksPerThread * threads);
  return std::clamp<int64_t>(balanced, 1, rows_per_image);
}

/// Channels of a panel, at most; whole vectors on any machine.
constexpr int64_t kBlockChannels = 64;

std::unique_ptr<Convolution> make_depthwise_channels(const Problem& problem, const Target& target);
std::unique_ptr<Convolution> make_depthwise_planes(const Problem& problem, const Target& target);

}  // namespace im2win::cpu
