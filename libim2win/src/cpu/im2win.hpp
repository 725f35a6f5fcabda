// Convolution by windows on the CPU.
#pragma once

#include <memory>
#include <string>

#include "backend.hpp"

namespace im2win::cpu {

std::string refuse_im2win(const Problem& problem);
/// Not where its panels would hold little but padding.
bool is_im2win_worthwhile(const Problem& problem);
/// Whether bfloat16 is multiplied as it is, two products at a time.
bool multiplies_pairs(const Problem& problem);
std::unique_ptr<Convolution> configure_im2win(const Problem& problem, const Target& target);

}  // namespace im2win::cpu
