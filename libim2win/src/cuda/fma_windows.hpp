// im2win_fma, where windows have few elements.
#pragma once

#include <memory>

#include "backend.hpp"

namespace im2win::cuda {

std::unique_ptr<Convolution> configure_fma_windows(const Problem& problem, const Target& target);

}  // namespace im2win::cuda
