// What must be so, and what libFuzzer keeps an input for if it is not.
#pragma once

#include <cstdio>
#include <cstdlib>

#include "im2win/im2win.h"

namespace fuzz {

inline void expect(bool condition, const char* what) {
  if (condition) return;
  std::fprintf(stderr, "not so: %s (last error: %s)\n", what, im2win_last_error());
  std::abort();
}

inline void expect_message(im2win_status status) {
  if (status == IM2WIN_SUCCESS) return;
  expect(*im2win_last_error() != '\0', "a failure has a message");
  expect(status != IM2WIN_INTERNAL_ERROR, "nothing is a defect of the library");
  expect(status != IM2WIN_CUDA_ERROR, "nothing here is about CUDA");
}

}  // namespace fuzz
