// What both forms of the CPU's depthwise algorithm are made of.
#pragma once

#include <algorithm>
#include <memory>

#include "backend.hpp"
#include "checked.hpp"
#include "cpu/form.hpp"
#include "cpu/kernels.hpp"
#include "cpu/output.hpp"
#include "cpu/taps.hpp"

namespace im2win::cpu {

/// Channels of a panel, at most; whole vectors on any machine.
constexpr int64_t kBlockChannels = 64;

std::unique_ptr<Convolution> make_depthwise_channels(const Problem& problem, const Target& target);
std::unique_ptr<Convolution> make_depthwise_planes(const Problem& problem, const Target& target);

}  // namespace im2win::cpu
