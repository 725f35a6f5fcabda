// A legal call of im2win_conv2d, on memory of its own, and what must hold after it.
#pragma once

#include <cstddef>
#include <cstdint>

#include "call.hpp"
#include "tensor.hpp"

namespace fuzz {

constexpr int64_t kMostBytes = 1 << 18;  // of a tensor, for a call to be run

inline bool is_small(const Shape& shape) {
  return shape.highest() - shape.lowest() <= kMostBytes / 8;
}

/// What a plan says of itself.
struct Sizes {
  int64_t output[4];
  size_t workspace;
  size_t packed;
};

/// With what the call has wrong about its pointers. Does nothing if a tensor is large.
void run(const Call& call, const im2win_plan* plan, const Sizes& sizes);

/// Of a problem too large to run: a call is refused for what can be seen of it, here that everything
/// is one buffer.
void run_on_nothing(const Call& call, const im2win_plan* plan);

}  // namespace fuzz
