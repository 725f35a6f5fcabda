// How many elements can be moved at a time.
#pragma once

#include <cstdint>
#include <initializer_list>

namespace im2win::cuda {

/// The most elements of a word, a power of two and at most the one `most`, that all of these are multiples of.
constexpr int64_t word_of(std::initializer_list<int64_t> elements, int64_t most) {
  for (const int64_t x : elements)
    while (x % most != 0) most /= 2;
  return most;
}

}  // namespace im2win::cuda
