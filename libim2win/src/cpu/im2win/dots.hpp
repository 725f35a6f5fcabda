// The im2win algorithm where outputs are of few pixels, as behind a global pooling, or of few filters, as of a head:
// to rearrange filters for the few times that they serve would take longer than to multiply by them, and vectors
// along few filters would be idle for the most part.
#pragma once

#include <memory>

#include "backend.hpp"

namespace im2win::cpu {

bool is_by_dots(const Problem& problem);
std::unique_ptr<Convolution> make_im2win_dots(const Problem& problem, const Target& target);

}  // namespace im2win::cpu
