// When `windows_mma` is chosen. Plain host code: it can be tested without a GPU.
#pragma once

#include "problem.hpp"

namespace im2win::cuda::windows_mma {

bool is_faster(const Problem& problem);

}  // namespace im2win::cuda::windows_mma
