// Memory-efficient convolution on the CPU.
#pragma once

#include <memory>
#include <string>

#include "backend.hpp"

namespace im2win::cpu {

std::string refuse_mec(const Problem& problem);
std::unique_ptr<Convolution> configure_mec(const Problem& problem, const Target& target);

}  // namespace im2win::cpu
