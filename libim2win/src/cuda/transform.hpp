// The im2win transform (paper, equation 2) on CUDA.
#pragma once

#include "problem.hpp"

namespace im2win::cuda {

/// Enqueues the writing of the im2win tensor of the problem's input (see im2win_transform) on the
/// stream of the current device. n > 0.
void transform(const Problem& problem, const void* input, void* output, void* stream);

}  // namespace im2win::cuda
