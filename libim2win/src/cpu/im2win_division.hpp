// How the CPU's im2win algorithm divides its work among threads and caches.
#pragma once

#include <cstdint>

#include "problem.hpp"

namespace im2win::cpu {

/// Outputs of all images that a task takes at once, so that it reads each filter once.
constexpr int64_t kFewPixels = 240;

/// What a task takes.
struct Division {
  int64_t rows;   // of outputs, counted over all images
  int64_t tiles;  // of filters
};

/// `tiles` are those of a group.
Division divide(const Problem& problem, int64_t tiles, int32_t threads);

}  // namespace im2win::cpu
