// Where lanes of a warp are among rows of few words: they have neighbours, and then the next row's.
#pragma once

#include "cuda/divisor.hpp"

namespace im2win::cuda::pointwise {

/// Of a lane.
struct Walk {
  int words;  // of a row
  int row, word;
  int rows_on, words_on;  // from a word to the one after those of all lanes

  __device__ __forceinline__ Walk(int words_of_row, int lane)
      : words(words_of_row),
        row(lane / words),
        word(lane % words),
        rows_on(32 / words),
        words_on(32 % words) {}
  /// Likewise, in fewer instructions.
  __device__ __forceinline__ Walk(const Divisor& words_of_row, int lane)
      : words(static_cast<int>(words_of_row.divisor)),
        row(words_of_row.quotient(lane)),
        word(lane - row * words),
        rows_on(words_of_row.quotient(32)),
        words_on(32 - rows_on * words) {}

  __device__ __forceinline__ void advance() {
    word += words_on;
    row += rows_on + (word >= words ? 1 : 0);
    word -= word >= words ? words : 0;
  }
};

}  // namespace im2win::cuda::pointwise
