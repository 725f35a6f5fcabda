// How `windows_mma` shares a convolution out: as `pointwise_mma` does, of whose channels its windows' elements take the place.
// Plain host code: it can be tested without a GPU.
#pragma once

#include <cstdint>
#include <string>

#include "cuda/device_limits.hpp"
#include "cuda/pointwise_mma/tile.hpp"
#include "problem.hpp"

namespace im2win::cuda::windows_mma {

using pointwise_mma::Tile;

/// Of filters, of a pass: with more, registers are too few for a block's warps.
constexpr int kMostSixteens = 2;

/// "" or why not.
std::string refusal(const Problem& problem);

/// How many elements are neighbours at a time, at most `word`, in an input that begins after so many.
int window_word(const Tensor& input, int64_t begin, int word);

/// The tile that is estimated to be the fastest.
Tile choose_tile(const Problem& problem, const DeviceLimits& device);

/// Estimated, on an H200.
double microseconds(const Problem& problem, const Tile& tile, const DeviceLimits& device);

}  // namespace im2win::cuda::windows_mma
