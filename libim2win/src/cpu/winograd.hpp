// Winograd's convolution on the CPU.
#pragma once

#include <memory>
#include <string>

#include "backend.hpp"

namespace im2win::cpu {

std::string refuse_winograd(const Problem& problem);
/// Where it saves more products than its transforms cost.
bool is_winograd_worthwhile(const Problem& problem);
std::unique_ptr<Convolution> configure_winograd(const Problem& problem, const Target& target);

}  // namespace im2win::cpu
