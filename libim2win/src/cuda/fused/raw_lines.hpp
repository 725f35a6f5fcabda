// How inputs may come to a tile's slabs as lines of neighbours (see raw.cuh). Host-only.
#pragma once

#include <cstdint>

#include "cuda/fused/tile.hpp"
#include "problem.hpp"
#include "tensor.hpp"

namespace im2win::cuda::fused {

/// From a pixel to the next in raw lines, in elements: 1, or the channels, which are neighbours; 0
/// where the input has no raw lines, as rows do not follow each other.
int64_t raw_column_elements(const Problem& problem);

/// The input's planes as the lines of boxes: [image, channel of a phase, 1, pixel of its 2^phase_bits
/// channels].
Tensor plane_lines(const Tensor& input, int32_t phase_bits);

constexpr int kMaxRawForms = 5;

/// The forms that the lines of a tile may have, but for their stages: all rows under it in a line, or
/// each in its own, and either as boxes, of lines or of pixels. Returns how many there are.
int raw_forms(const Problem& problem, Operands operands, const Tile& tile,
              RawLines (&forms)[kMaxRawForms]);

}  // namespace im2win::cuda::fused
