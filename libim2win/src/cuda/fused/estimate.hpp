// What im2win_fused and im2win_stem take where there is little to do: to be compared with what others take then. Plain
// host code: it can be tested without a GPU.
#pragma once

#include "problem.hpp"

namespace im2win::cuda::fused {

/// Estimated, on an H200, of the one that is chosen.
double microseconds(const Problem& problem);

/// Likewise of windows of few elements, however many there are: operands are made of them for longer than these are
/// multiplied.
double microseconds_of_few_taps(const Problem& problem);

/// Likewise of single pixels in planes, of one group.
double microseconds_of_planes(const Problem& problem);
/// Or where channels are neighbours, of it or `pointwise`.
double microseconds_of_rows(const Problem& problem);

/// Likewise of windows of few channels that are neighbours, of one group, with 16 bits.
double microseconds_of_few_channels(const Problem& problem);

}  // namespace im2win::cuda::fused
