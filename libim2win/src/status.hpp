// Errors inside the library are exceptions; guarded() turns them into a status and a message at the
// C boundary, and nothing else does.
#pragma once

#include <exception>
#include <sstream>
#include <string>
#include <utility>

#include "im2win/im2win.h"

namespace im2win {

class Error : public std::exception {
 public:
  Error(im2win_status status, std::string message)
      : status_(status), message_(std::move(message)) {}
  im2win_status status() const noexcept { return status_; }
  const char* what() const noexcept override { return message_.c_str(); }

 private:
  im2win_status status_;
  std::string message_;
};

/// The parts, streamed one after the other.
template <class... Parts>
std::string text(const Parts&... parts) {
  std::ostringstream stream;
  stream.exceptions(std::ios::badbit);  // or a text that finds no memory would be cut
  (stream << ... << parts);
  return stream.str();
}

template <class... Parts>
[[noreturn]] void fail(im2win_status status, const Parts&... parts) {
  throw Error(status, text(parts...));
}

/// Throws INVALID_ARGUMENT with the parts as its message unless `condition` holds.
template <class... Parts>
void require(bool condition, const Parts&... parts) {
  if (!condition) fail(IM2WIN_INVALID_ARGUMENT, parts...);
}

const char* status_name(im2win_status status) noexcept;

/// The calling thread's message; it is a fixed buffer, so that recording one cannot fail.
const char* last_error() noexcept;

/// Records the exception in flight as the thread's message. Call it in a catch block only.
im2win_status record_current_exception() noexcept;

template <class Body>
im2win_status guarded(Body&& body) noexcept {
  try {
    std::forward<Body>(body)();
    return IM2WIN_SUCCESS;
  } catch (...) {
    return record_current_exception();
  }
}

}  // namespace im2win
