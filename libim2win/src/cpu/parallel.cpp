#include "cpu/parallel.hpp"

#include <algorithm>
#include <atomic>

#if defined(_OPENMP)
#include <omp.h>
#endif
#if defined(__unix__) || defined(__APPLE__)
#include <pthread.h>
#endif

namespace im2win::cpu {
namespace {

// A forked child inherits OpenMP's state but not its threads, and the next parallel region would
// wait for them for ever (GNU libgomp). The child therefore runs its loops on the one thread it
// has.
std::atomic<bool> is_forked_child{false};

[[maybe_unused]] const bool watches_forks = []() noexcept {
#if defined(__unix__) || defined(__APPLE__)
  return pthread_atfork(nullptr, nullptr, [] { is_forked_child = true; }) == 0;
#else
  return false;
#endif
}();

}  // namespace

int32_t default_threads() {
#if defined(_OPENMP)
  return std::min(omp_get_max_threads(), kMaxThreads);
#else
  return 1;
#endif
}

namespace detail {

void run_tasks(int64_t tasks, [[maybe_unused]] int32_t threads,
               void (*task)(void* context, int64_t, int32_t), void* context) {
#if defined(_OPENMP)
  if (threads > 1 && tasks > 1 && !is_forked_child) {
#pragma omp parallel for num_threads(threads) schedule(dynamic)
    for (int64_t index = 0; index < tasks; ++index) task(context, index, omp_get_thread_num());
    return;
  }
#endif
  for (int64_t index = 0; index < tasks; ++index) task(context, index, 0);
}

}  // namespace detail
}  // namespace im2win::cpu
