// How im2win_stem shares a problem out: which of its filters and of its rows' pixels a block has. Host-only.
#pragma once

#include <cstdint>
#include <vector>

#include "cuda/fused/tile.hpp"
#include "problem.hpp"

namespace im2win::cuda::fused::stem {

/// Of a row or run.
int64_t row_chunks(const Problem& problem, const KernelShape& shape);

/// How many of a tile's filters a block may have, the best for it first. Split ones have scales, which are in registers.
std::vector<int32_t> sets_of(const Problem& problem, const KernelShape& shape, Operands operands,
                             const Chip& chip, int chunks);

/// How many chunks a strip may have, the best first: those of whole rows, whose parts leave for memory together, unless
/// there are few, or else as many as can be.
std::vector<int> chunks_of(const Problem& problem, const KernelShape& shape, Operands operands,
                           const Chip& chip);

}  // namespace im2win::cuda::fused::stem
