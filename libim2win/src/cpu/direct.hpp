// Direct convolution: takes every legal problem, accumulates wider than it stores.
#pragma once

#include <memory>
#include <string>

#include "backend.hpp"

namespace im2win::cpu {

std::string refuse_direct(const Problem& problem);
std::unique_ptr<Convolution> configure_direct(const Problem& problem, const Target& target);

}  // namespace im2win::cpu
