// A batch in parts, one after the other, so that a workspace that grows with the batch keeps a limit
// (the idea of u-cuDNN: Oyama et al., "Accelerating Deep Learning Frameworks with Micro-batches").
#pragma once

#include <cstdint>
#include <memory>

#include "backend.hpp"

namespace im2win {

/// The algorithm on the largest parts of the batch that need at most `limit_bytes`; null if there are
/// none.
std::unique_ptr<const Convolution> split_batch(const Algorithm& algorithm, const Problem& problem,
                                               const Target& target, uint64_t limit_bytes);

/// The least that the algorithm needs for the problem, the batch split as far as it can be.
int64_t least_bytes(const Algorithm& algorithm, const Problem& problem, const Target& target);

}  // namespace im2win
