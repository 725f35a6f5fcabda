// How the CPU's im2win algorithm, and Winograd's, divide their work among threads and caches.
#pragma once

#include <cstdint>

#include "problem.hpp"

namespace im2win::cpu {

/// Outputs of all images that a task takes at once, so that it reads each filter once.
constexpr int64_t kFewPixels = 240;

/// What a task takes: rows, and tiles of filters, of a group.
struct Share {
  int64_t group;
  int64_t begin, end;  // rows, counted over all images
  int64_t tiles_begin, tiles_end;
};

/// All tasks.
struct Division {
  int64_t groups;
  int64_t all_rows, all_tiles;  // of a group
  int64_t rows, tiles;          // of a task, at most

  int64_t tasks() const;
  Share share(int64_t task) const;
};

/// Of outputs, or of tiles of them, counted over all images.
struct OutputRows {
  int64_t count;
  int64_t most;  // of a task
  bool are_few;  // for a task to take all of them
};

/// `tiles` are those of a group.
Division divide_rows(const OutputRows& rows, int64_t groups, int64_t tiles, int32_t threads);
Division divide(const Problem& problem, int64_t tiles, int32_t threads);

}  // namespace im2win::cpu
