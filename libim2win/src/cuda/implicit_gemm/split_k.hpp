// implicit_gemm_tiled in float32 and with 16 bits.
#pragma once

#include <memory>

#include "backend.hpp"

namespace im2win::cuda::implicit_gemm {

std::unique_ptr<Convolution> configure_split_k(const Problem& problem, const Target& target);

}  // namespace im2win::cuda::implicit_gemm
