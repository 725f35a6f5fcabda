// When `pointwise_mma` is chosen. Plain host code: it can be tested without a GPU.
#pragma once

#include "problem.hpp"

namespace im2win::cuda::pointwise_mma {

/// Whether it is estimated to end sooner than all others.
bool is_faster(const Problem& problem);

}  // namespace im2win::cuda::pointwise_mma
