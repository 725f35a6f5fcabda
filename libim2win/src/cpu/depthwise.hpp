// Depthwise convolution on the CPU: one input channel a group, any number of filters each.
#pragma once

#include <memory>
#include <string>

#include "backend.hpp"

namespace im2win::cpu {

std::string refuse_depthwise(const Problem& problem);
std::unique_ptr<Convolution> configure_depthwise(const Problem& problem, const Target& target);

/// Many filters share the windows of their channel, which im2win reads once for all of them: from 16 on, or 4
/// where channels are last, it takes a third of the time to as much (single thread, 16 problems).
bool is_depthwise_worthwhile(const Problem& problem);

/// Whether channels of groups that are as many channels as filters, and several of which fit a vector, are to be
/// summed likewise (depthwise/channels.hpp): im2win would leave most of its vectors idle.
bool takes_groups(const Problem& problem);

}  // namespace im2win::cpu
