// The im2win algorithm where outputs are of few pixels, as behind a global pooling, so that a filter serves but a few
// times: to rearrange it would take longer than to multiply by it.
#pragma once

#include <memory>

#include "backend.hpp"

namespace im2win::cpu {

bool is_by_dots(const Problem& problem);
std::unique_ptr<Convolution> make_im2win_dots(const Problem& problem, const Target& target);

}  // namespace im2win::cpu
