// The filter in the order in which Algorithm 3 reads it: [group][tile of M_B filters][tap][M_B],
// where tap = (c * S + s) * R + r as in the im2win tensor, with zeros for what pads filters to
// whole tiles and taps to a multiple. A tile's K_B taps are then consecutive 16-byte words.
#pragma once

#include <cstdint>

#include "checked.hpp"
#include "cuda/im2win/tile.hpp"
#include "problem.hpp"

namespace im2win::cuda {

inline int64_t filter_tiles(const Problem& problem, const Im2winTile& tile) {
  return ceil_div(problem.k_per_group(), tile.filters);
}

inline int64_t padded_taps(const Problem& problem) {
  return round_up(problem.window_elements(), kIm2winTapMultiple);
}

/// Throws where it does not fit 64 bits.
int64_t packed_filter_bytes(const Problem& problem, const Im2winTile& tile);

/// Enqueues the packing of a float32 filter.
void pack_filter(const Problem& problem, const Im2winTile& tile, const void* filter, void* packed,
                 void* stream);

}  // namespace im2win::cuda
