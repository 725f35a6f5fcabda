// The im2win algorithm along planes (planes.hpp) where images are padded, or rows are short.
#pragma once

#include <memory>

#include "backend.hpp"

namespace im2win::cpu {

/// `multiplies_pairs`: whether it would be by dot products otherwise.
bool is_by_padded_planes(const Problem& problem, bool multiplies_pairs);
std::unique_ptr<Convolution> make_im2win_padded_planes(const Problem& problem,
                                                       const Target& target);

}  // namespace im2win::cpu
