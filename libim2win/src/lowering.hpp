// Memory-efficient convolution (Cho and Brand, "MEC: Memory-efficient Convolution for Deep Neural
// Network", ICML 2017), as far as it is the same on all backends. Windows are lowered along the width
// alone, to
//
//   L[n, q, h, s, c] = input[n, c, h, q * stride_w + s],
//
// so that the window of output (p, q) is R * S * C neighbours, from row h = p * stride_h on: windows
// overlap along the height. The product of L's partition of a row of outputs with the filter is a
// small GEMM, of which there is one for each row.
#pragma once

#include <cstdint>
#include <string>

#include "problem.hpp"

namespace im2win {

/// Of L; throws where they do not fit 64 bits.
int64_t lowered_bytes(const Problem& problem);

/// Elements between neighbours of L, where it is not refused. The taps of a window are one apart.
struct LoweredStrides {
  int64_t n, q, h;

  explicit LoweredStrides(const Problem& problem)
      : n(problem.q * problem.h * problem.s * problem.c),
        q(problem.h * problem.s * problem.c),
        h(problem.s * problem.c) {}
};

/// Why there is no L of the problem; "" if there is, of at most kMaxExtent bytes.
std::string refuse_lowering(const Problem& problem);

}  // namespace im2win
