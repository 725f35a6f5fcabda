// When im2win_fma is chosen. Plain host code: it can be tested without a GPU.
#pragma once

#include "problem.hpp"

namespace im2win::cuda::fma_strips {

/// Estimated, on an H200, where these are few; infinitely many for what is refused.
double microseconds(const Problem& problem);

/// Whether it is the fastest there is, but for depthwise problems.
bool is_faster(const Problem& problem);

/// Whether it is faster than kernels for depthwise problems, with a filter a channel: where a block has a small plane
/// and a multiprocessor to itself, and large windows to go through.
bool is_faster_than_depthwise(const Problem& problem);

}  // namespace im2win::cuda::fma_strips
