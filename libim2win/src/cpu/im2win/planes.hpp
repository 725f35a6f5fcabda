// The im2win algorithm where few products make an output and outputs lie side by side along the rows, as
// inputs do: with vectors along the filters, to transpose them would take as long as to sum them.
#pragma once

#include <memory>

#include "backend.hpp"

namespace im2win::cpu {

/// Above, transposing outputs takes little beside their sums.
inline constexpr int64_t kMostPlanesTaps = 192;

bool is_by_planes(const Problem& problem);
std::unique_ptr<Convolution> make_im2win_planes(const Problem& problem, const Target& target);

}  // namespace im2win::cpu
