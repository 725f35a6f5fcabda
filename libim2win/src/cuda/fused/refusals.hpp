// Why kernels that multiply on tensor cores refuse a problem, whatever its tiles. Host-only.
#pragma once

#include <cstdint>
#include <string>

#include "problem.hpp"

namespace im2win::cuda::fused {

constexpr int64_t kMaxSize = int64_t{1} << 20;

/// Its dtype and math mode, or its sizes; "" if nothing.
std::string refuse_operands(const Problem& problem);

}  // namespace im2win::cuda::fused
