// Fewer rows of outputs than threads, as in one dimension, in parts side by side.
#pragma once

#include <memory>

#include "backend.hpp"

namespace im2win::cpu {

/// Whether threads would be without work, or wait for those that have more of it: where `tiles` of a group's
/// filters are shared out among them, these are no even shares either.
bool is_by_row_parts(const Problem& problem, int64_t tiles, int32_t threads);

/// What makes a part's convolution, as it would the whole's.
using Configure = decltype(Algorithm::configure);

/// Each part as a problem of its own, on a thread. Sums are the same as those of whole rows, bit by bit, if
/// `configure` makes them alike whatever the width.
std::unique_ptr<Convolution> make_row_parts(const Problem& problem, const Target& target,
                                            Configure configure);

}  // namespace im2win::cpu
