// How many stages the rings of a tile have, and who fills them. Host-only.
#pragma once

#include "cuda/fused/tile.hpp"
#include "problem.hpp"

namespace im2win::cuda::fused {

/// As many as shared memory holds, up to what hides latency. False if it holds too few.
bool fit_stages(const Problem& problem, const KernelShape& shape, Operands operands,
                const Chip& chip, Tile& tile);

/// The batches that the first warpgroup is to be ahead of the second.
int lead(const Problem& problem, const KernelShape& shape, OperandTraits traits, const Chip& chip,
         const Tile& tile);

/// Whether raw lines are to have a warp of their own. One for lines and filters takes about as long to go around as
/// products of a batch do; the other is one less to bring windows.
bool has_line_warp(const KernelShape& shape, OperandTraits traits, const Tile& tile);

}  // namespace im2win::cuda::fused
