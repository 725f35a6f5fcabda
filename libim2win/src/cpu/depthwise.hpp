// Depthwise convolution on the CPU: one input channel a group, any number of filters each.
#pragma once

#include <memory>
#include <string>

#include "backend.hpp"

namespace im2win::cpu {

std::string refuse_depthwise(const Problem& problem);
std::unique_ptr<Convolution> configure_depthwise(const Problem& problem, const Target& target);

}  // namespace im2win::cpu
