// A parallel loop over independent tasks.
#pragma once

#include <algorithm>
#include <cstdint>
#include <type_traits>

#include "checked.hpp"

namespace im2win::cpu {

/// OpenMP ends the process where it cannot start as many threads as it is asked for.
constexpr int32_t kMaxThreads = 1024;

/// OpenMP's number of threads, which OMP_NUM_THREADS sets, up to kMaxThreads; 1 without OpenMP.
int32_t default_threads();

/// Rows of outputs that a task takes: few enough for all threads to have some tasks, and at least 1,
/// also for an empty batch.
inline int64_t balanced_rows(int64_t rows, int64_t rows_per_image, int32_t threads) {
  constexpr int64_t kTasksPerThread = 4;
  const int64_t balanced = ceil_div(rows, kTasksPerThread * threads);
  return std::clamp<int64_t>(balanced, 1, rows_per_image);
}

namespace detail {
void run_tasks(int64_t tasks, int32_t threads, void (*task)(void* context, int64_t, int32_t),
               void* context);
}

/// Calls task(index, thread) for every index in [0, tasks), on up to `threads` threads, thread
/// being in [0, threads). The tasks must be independent, and must not throw.
template <class Task>
void parallel_for(int64_t tasks, int32_t threads, Task&& task) {
  detail::run_tasks(
      tasks, threads,
      [](void* context, int64_t index, int32_t thread) {
        (*static_cast<std::remove_reference_t<Task>*>(context))(index, thread);
      },
      const_cast<void*>(static_cast<const void*>(&task)));
}

}  // namespace im2win::cpu
