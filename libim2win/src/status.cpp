#include "status.hpp"

#include <cstdio>
#include <new>

namespace im2win {
namespace {

thread_local char message[1024] = "";

im2win_status record(im2win_status status, const char* what) noexcept {
  std::snprintf(message, sizeof message, "%s", what);
  return status;
}

}  // namespace

const char* status_name(im2win_status status) noexcept {
  switch (status) {
    case IM2WIN_SUCCESS: return "IM2WIN_SUCCESS";
    case IM2WIN_INVALID_ARGUMENT: return "IM2WIN_INVALID_ARGUMENT";
    case IM2WIN_UNSUPPORTED: return "IM2WIN_UNSUPPORTED";
    case IM2WIN_WORKSPACE_TOO_SMALL: return "IM2WIN_WORKSPACE_TOO_SMALL";
    case IM2WIN_OUT_OF_MEMORY: return "IM2WIN_OUT_OF_MEMORY";
    case IM2WIN_NO_DEVICE: return "IM2WIN_NO_DEVICE";
    case IM2WIN_CUDA_ERROR: return "IM2WIN_CUDA_ERROR";
    case IM2WIN_INTERNAL_ERROR: return "IM2WIN_INTERNAL_ERROR";
  }
  return "not an im2win_status";
}

const char* last_error() noexcept { return message; }

im2win_status record_current_exception() noexcept {
  try {
    throw;
  } catch (const Error& error) {
    return record(error.status(), error.what());
  } catch (const std::bad_alloc&) {
    return record(IM2WIN_OUT_OF_MEMORY, "out of host memory");
  } catch (const std::exception& error) {
    return record(IM2WIN_INTERNAL_ERROR, error.what());
  } catch (...) {
    return record(IM2WIN_INTERNAL_ERROR, "unknown exception");
  }
}

}  // namespace im2win
