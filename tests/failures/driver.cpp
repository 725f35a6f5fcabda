// A CUDA driver to stand in for the real one (libcuda.so.1), found first by LD_LIBRARY_PATH.
//
// Where IM2WIN_TEST_DRIVER is the path of the real one, it forwards every call, and fails one of them
// on demand. Otherwise it is a driver of version IM2WIN_TEST_DRIVER_VERSION whose initialisation gives
// IM2WIN_TEST_DRIVER_ERROR and which can do nothing else. tests/test_driver_failures.py drives it.

#include <dlfcn.h>

#include <array>
#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <utility>

namespace {

using Word = uintptr_t;
using Function = int (*)(Word, Word, Word, Word, Word, Word, Word, Word, Word, Word, Word, Word);
using GetProcAddress = int (*)(const char*, void**, int, uint64_t, int*);

constexpr size_t kFunctions = 512;
constexpr int kNotFound = 500;  // CUDA_ERROR_NOT_FOUND

std::atomic<int> calls_until_failure{-1};  // negative: none is to come
std::atomic<int> error{0};
const char* names[kFunctions];  // those of the functions handed out
Function functions[kFunctions];
const char* failed = "";

/// Stands for the i-th function: its arguments are pointers and integers, at most 12.
template <size_t kIndex>
int call(Word a, Word b, Word c, Word d, Word e, Word f, Word g, Word h, Word i, Word j, Word k,
         Word l) {
  if (calls_until_failure.load() >= 0 && calls_until_failure.fetch_sub(1) == 0) {
    failed = names[kIndex];
    return error.load();
  }
  return functions[kIndex](a, b, c, d, e, f, g, h, i, j, k, l);
}

template <size_t... kIndices>
constexpr std::array<Function, kFunctions> make_stand_ins(std::index_sequence<kIndices...>) {
  return {call<kIndices>...};
}
constexpr auto kStandIns = make_stand_ins(std::make_index_sequence<kFunctions>());

/// The stand-in of a function; itself where there are no more.
void* stand_in(const char* name, void* function) {
  static std::mutex mutex;
  static size_t count = 0;
  const std::lock_guard lock(mutex);
  for (size_t i = 0; i < count; ++i)
    if (reinterpret_cast<void*>(functions[i]) == function)
      return reinterpret_cast<void*>(kStandIns[i]);
  if (count == kFunctions) return function;
  names[count] = strdup(name);
  functions[count] = reinterpret_cast<Function>(function);
  return reinterpret_cast<void*>(kStandIns[count++]);
}

int setting(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? 0 : std::atoi(value);
}

int initialize(unsigned) { return setting("IM2WIN_TEST_DRIVER_ERROR"); }
int get_version(int* version) {
  *version = setting("IM2WIN_TEST_DRIVER_VERSION");
  return 0;
}
int find_nothing() { return kNotFound; }

/// Of the driver that can do nothing.
void* own_function(const char* name) {
  if (std::strcmp(name, "cuInit") == 0) return reinterpret_cast<void*>(initialize);
  if (std::strcmp(name, "cuDriverGetVersion") == 0) return reinterpret_cast<void*>(get_version);
  return reinterpret_cast<void*>(find_nothing);
}

}  // namespace

extern "C" {

/// The call after `calls` others gives the error, a CUresult; -1 calls it off.
void im2win_test_fail(int calls, int result) {
  failed = "";
  error = result;
  calls_until_failure = calls;
}

/// The name of the function that has failed since; "" if none has.
const char* im2win_test_failed() { return failed; }

int cuGetProcAddress_v2(const char* name, void** function, int version, uint64_t flags,
                        int* status) {
  if (std::strcmp(name, "cuGetProcAddress") == 0) {
    *function = reinterpret_cast<void*>(cuGetProcAddress_v2);
    return 0;
  }
  const char* path = std::getenv("IM2WIN_TEST_DRIVER");
  if (path == nullptr) {
    *function = own_function(name);
    return 0;
  }
  static void* const real = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  if (real == nullptr) return kNotFound;
  static const auto find = reinterpret_cast<GetProcAddress>(dlsym(real, "cuGetProcAddress_v2"));
  const int result = find(name, function, version, flags, status);
  if (result == 0 && *function != nullptr) *function = stand_in(name, *function);
  return result;
}

}  // extern "C"
