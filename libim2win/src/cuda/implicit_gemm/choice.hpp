// When implicit_gemm_tiled is chosen. Plain host code: it can be tested without a GPU.
#pragma once

#include <cstdint>

#include "problem.hpp"

namespace im2win::cuda::implicit_gemm {

/// Edges of a block's tile of filters by pixels.
inline constexpr int kLargeEdge = 64, kSmallEdge = 32;

/// How many blocks have tiles of such an edge.
int64_t blocks_of(const Problem& problem, int edge);

/// Whether a pixel's channels are nearer to each other than pixels.
bool are_channels_last(const Tensor& tensor);

/// Of the input; of a single channel, of its outputs.
bool are_channels_last(const Problem& problem);

/// Estimated, in float32 and with 16 bits, on an H200, of the best tile.
double microseconds(const Problem& problem);

/// Whether it is estimated to end sooner than all others but im2win_fma, as there is little to do. Nothing else is chosen
/// in float64.
bool is_for_tiles(const Problem& problem);

}  // namespace im2win::cuda::implicit_gemm
