#include "cuda/depthwise/whole_planes_tile.hpp"

#include <algorithm>

#include "checked.hpp"
#include "cuda/depthwise/tile.hpp"

namespace im2win::cuda {
namespace {

using Tile = WholePlanesTile;

constexpr int64_t kLanes = 32;

/// Of an axis's windows, how many taps lie inside the image, in the mean.
double taps_inside(int64_t size, int64_t taps, int64_t stride, int64_t padding, int64_t dilation,
                   int64_t outputs) {
  const auto before = [&](int64_t distance) {
    return std::clamp<int64_t>(ceil_div(std::max<int64_t>(distance, 0), dilation), 0, taps);
  };
  int64_t sum = 0;
  for (int64_t output = 0; output < outputs; ++output) {
    const int64_t first = output * stride - padding;
    sum += std::max<int64_t>(0, before(size - first) - before(-first));
  }
  return double(sum) / double(outputs);
}

/// Of a plane: outputs, or columns of them, that threads take in turns, and a turn's instructions, about.
struct PlaneWork {
  int64_t items;
  double instructions;

  explicit PlaneWork(const Problem& problem) {
    const double convert = problem.dtype == IM2WIN_FLOAT32 ? 0 : 1;
    if (is_summed_by_columns(problem)) {
      const int64_t combs = std::min(problem.dilation_h, problem.p);
      items = combs * problem.q;
      instructions = 155 + double(ceil_div(problem.p, combs)) * (54 + 3 * convert);
      return;
    }
    const double rows = taps_inside(problem.h, problem.r, problem.stride_h, problem.padding_top,
                                    problem.dilation_h, problem.p);
    const double columns = taps_inside(problem.w, problem.s, problem.stride_w, problem.padding_left,
                                       problem.dilation_w, problem.q);
    items = problem.p * problem.q;
    instructions = 90 + rows * (33 + columns * (9 + convert));
  }
};

Tile with_planes(const Problem& problem, int teams, int team_threads, int64_t planes) {
  Tile tile{};
  tile.teams = teams;
  tile.team_threads = team_threads;
  tile.planes = static_cast<int>(planes);
  tile.filter_bytes =
      round_up(planes * problem.r * problem.s * int64_t{sizeof(float)}, kDepthwiseWordBytes);
  // The first plane may begin anywhere within a word.
  const int64_t input_bytes = planes * problem.h * problem.w * element_bytes(problem.dtype);
  tile.shared_bytes =
      tile.filter_bytes + round_up(input_bytes + kDepthwiseWordBytes, kDepthwiseWordBytes);
  return tile;
}

/// Of all blocks in turns of those that run at a time. What instructions there are, and how long blocks wait, was fitted
/// to 140 times on an H200, of 1 to 64 images.
double cost_of(const Problem& problem, const PlaneWork& work, const Tile& tile,
               int64_t multiprocessors) {
  constexpr double kLatency = 4400, kStart = 200, kSchedulers = 4, kCycleBytes = 24;
  constexpr int64_t kSharedBytes = 227 << 10, kThreads = 2048;  // an H200's
  const int64_t blocks = problem.n * ceil_div(problem.c, tile.planes);
  const double instructions =
      double(ceil_div(tile.planes, tile.teams)) *
      (40 + double(ceil_div(work.items, tile.team_threads)) * work.instructions);
  const double moved = double(tile.planes * element_bytes(problem.dtype)) *
                       double(problem.h * problem.w + problem.p * problem.q);
  const int64_t at_once = std::min<int64_t>(
      {32, kThreads / tile.threads(), kSharedBytes / (tile.shared_bytes + (1 << 10)),
       std::max<int64_t>(1, ceil_div(blocks, multiprocessors))});
  const double alone = kLatency + 3.5 * instructions;
  const double issued = double(at_once * tile.threads() / kLanes) * instructions / kSchedulers;
  const double turn =
      std::max({alone, issued + alone / double(at_once), double(at_once) * moved / kCycleBytes});
  const double each = double(blocks) / double(multiprocessors);  // multiprocessor's blocks
  const double turns = each > double(at_once) ? each / double(at_once) + 1 : 1;
  return turns * turn + kStart * each;
}

}  // namespace

double whole_planes_cost(const Problem& problem, const Tile& tile, int64_t multiprocessors) {
  return cost_of(problem, PlaneWork(problem), tile, multiprocessors);
}

std::optional<Tile> choose_whole_planes_tile(const Problem& problem, int64_t multiprocessors) {
  constexpr int64_t kMostPlanes = 64;
  const auto fits = [](const Tile& tile) { return tile.shared_bytes <= Tile::kSharedBytes; };
  if (!has_narrow_steps(problem) || !fits(with_planes(problem, 1, int{kLanes}, 1)))
    return std::nullopt;
  const PlaneWork work(problem);
  std::optional<Tile> best;
  double best_cost = 0;
  const auto consider = [&](const Tile& tile) {
    const double cost = cost_of(problem, work, tile, multiprocessors);
    if (best && cost >= best_cost) return;
    best = tile;
    best_cost = cost;
  };
  for (int team_threads = kLanes; team_threads <= Tile::kMaxThreads; team_threads *= 2)
    for (int teams = 1; teams * team_threads <= Tile::kMaxThreads; teams *= 2)
      for (int64_t planes = teams; planes <= std::min(problem.c, kMostPlanes); planes += teams)
        if (const Tile tile = with_planes(problem, teams, team_threads, planes); fits(tile))
          consider(tile);
  return best;
}

}  // namespace im2win::cuda
