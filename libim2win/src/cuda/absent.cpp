// The CUDA backend of a build without CUDA: no algorithms, and one reason for everything else.

#include <string>

#include "backend.hpp"
#include "cuda/memory.hpp"
#include "status.hpp"

namespace im2win {
namespace {

[[noreturn]] void fail_absent() {
  fail(
      IM2WIN_NO_DEVICE,
      "this libim2win was built without CUDA: to have it, install the CUDA toolkit (13.0 or newer, "
      "with nvcc on PATH), then rebuild");
}

void require_device(int32_t) { fail_absent(); }
std::string describe(int32_t) { fail_absent(); }
void require_accessible(int32_t, const char*, const void*) { fail_absent(); }
void run(int32_t, const Convolution&, const Buffers&, void*, void*) { fail_absent(); }
void pack_filter(int32_t, const Convolution&, const void*, void*, void*) { fail_absent(); }
void transform(const Problem&, int32_t, const void*, void*, void*) { fail_absent(); }

}  // namespace

const Backend& cuda_backend() {
  static const Backend backend = {{},  require_device, describe, require_accessible,
                                  run, pack_filter,    transform};
  return backend;
}

namespace cuda {

int32_t device_count() { fail_absent(); }
void* alloc(int32_t, size_t, void*) { fail_absent(); }
void free(int32_t, void*, void*) { fail_absent(); }
void copy(int32_t, void*, const void*, size_t, void*) { fail_absent(); }
void synchronize(int32_t, void*) { fail_absent(); }

}  // namespace cuda
}  // namespace im2win
