// When im2win_fma holds windows of few elements. Plain host code: it can be tested without a GPU.
#pragma once

#include "problem.hpp"

namespace im2win::cuda::fma_windows {

/// Whether it is faster than the other kernels of im2win_fma.
bool is_faster_than_strips(const Problem& problem);

/// Whether it is the fastest there is.
bool is_faster(const Problem& problem);

}  // namespace im2win::cuda::fma_windows
