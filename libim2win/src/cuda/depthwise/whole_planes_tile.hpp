// The tile of the depthwise kernel that stages whole planes as they are in memory, and the choice among
// them. Plain host code: it can be printed and tested without a GPU.
#pragma once

#include <cstdint>
#include <optional>

#include "problem.hpp"

namespace im2win::cuda {

/// NCHW: what a block computes of an image, whole planes of some channels. A team of its threads takes a
/// plane, and then that which is as many planes further on as there are teams. A thread of it has outputs of
/// which none is a neighbour: every team_threads-th, or every dilation-th of a column.
struct WholePlanesTile {
  static constexpr int kMaxThreads = 512;
  /// Of dynamic shared memory: what all devices that have its kernels can give a block.
  static constexpr int64_t kSharedBytes = 96 << 10;

  int planes;
  int teams, team_threads;
  int64_t filter_bytes;  // in shared memory, of floats, before the planes
  int64_t shared_bytes;

  constexpr int threads() const { return teams * team_threads; }
};

/// Whether columns are summed, a row of the input at a time, for three outputs each: by 3x3 windows without a stride.
constexpr bool is_summed_by_columns(const Problem& problem) {
  return problem.r == 3 && problem.s == 3 && problem.stride_h == 1 && problem.stride_w == 1;
}

/// For dense NCHW. Nothing where a plane does not fit shared memory. The device runs `multiprocessors` times
/// some blocks at a time.
std::optional<WholePlanesTile> choose_whole_planes_tile(const Problem& problem,
                                                        int64_t multiprocessors);
/// As windows_cost().
double whole_planes_cost(const Problem& problem, const WholePlanesTile& tile,
                         int64_t multiprocessors);

}  // namespace im2win::cuda
