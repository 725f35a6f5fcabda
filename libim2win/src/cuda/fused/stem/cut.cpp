#include "cuda/fused/stem/cut.hpp"

#include <algorithm>

#include "checked.hpp"
#include "cuda/fused/stem/tile.hpp"

namespace im2win::cuda::fused::stem {
namespace {

/// Of a group.
int64_t filter_tiles(const Problem& problem, const KernelShape& shape) {
  return ceil_div(problem.k_per_group(), int64_t{shape.filters});
}

/// Of the block that has most to do, in pieces: these, what a row takes beside, and filters that come. (It fits the times
/// of 450 problems at 1 to 8 images, each cut in up to ten ways, on an H200: what is chosen takes 1 % longer than the
/// fastest.)
double block_cost(const Problem& problem, const KernelShape& shape, const Chip& chip, int chunks,
                  int64_t sets) {
  constexpr double kRow = 0.1, kFilters = 0.25;
  const int64_t all_sets = problem.groups * filter_tiles(problem, shape) / sets;
  const int64_t at_a_time = int64_t{chip.multiprocessors};
  const int64_t waves = ceil_div(all_sets, at_a_time);
  const int64_t blocks = std::max<int64_t>(at_a_time / all_sets, 1);
  const int64_t strips = problem.n * ceil_div(row_chunks(problem, shape), int64_t{chunks});
  const auto rows = static_cast<double>(ceil_div(strips * problem.p, blocks));
  const auto pieces = static_cast<double>(chunks * sets);
  return static_cast<double>(waves) *
         (rows * (kRow + pieces) + kFilters * static_cast<double>(sets));
}

}  // namespace

int64_t row_chunks(const Problem& problem, const KernelShape& shape) {
  return ceil_div(problem.q, int64_t{shape.columns});
}

std::vector<int32_t> sets_of(const Problem& problem, const KernelShape& shape, Operands operands,
                             const Chip& chip, int chunks) {
  constexpr int32_t kMaxSets = 8;
  const int64_t all = filter_tiles(problem, shape);
  std::vector<int32_t> sets = {1};
  if (operands == Operands::kSplit) return sets;
  for (int32_t some = 2; some <= kMaxSets; ++some)
    if (all % some == 0) sets.push_back(some);
  const auto cost = [&](int32_t some) { return block_cost(problem, shape, chip, chunks, some); };
  std::ranges::stable_sort(sets, {}, cost);
  return sets;
}

std::vector<int> chunks_of(const Problem& problem, const KernelShape& shape, Operands operands,
                           const Chip& chip) {
  constexpr double kPartsOfRows = 1.05;
  const int64_t all = row_chunks(problem, shape);
  if (shape.runs) return {static_cast<int>(all)};
  std::vector<int> chunks;
  for (int64_t most = kMaxChunks; most > 0; --most)
    chunks.push_back(static_cast<int>(ceil_div(all, ceil_div(all, most))));
  chunks.erase(std::unique(chunks.begin(), chunks.end()), chunks.end());
  const int widest = chunks.front();
  const auto cost = [&](int some) {
    const int32_t sets = sets_of(problem, shape, operands, chip, some).front();
    return block_cost(problem, shape, chip, some, sets) * (some == widest ? 1 : kPartsOfRows);
  };
  std::ranges::stable_sort(chunks, {}, cost);
  return chunks;
}

}  // namespace im2win::cuda::fused::stem
