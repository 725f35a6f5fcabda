#include "cpu/transform.hpp"

#include "cpu/parallel.hpp"

namespace im2win::cpu {
namespace {

template <class Word>
void transform_words(const Problem& problem, const void* input, void* output, int32_t threads) {
  const int64_t row_elements = problem.padded_w() * problem.r;
  const int64_t rows = problem.n * problem.c * problem.p;
  parallel_for(rows, threads, [&](int64_t row, int32_t) {
    const int64_t n = row / (problem.c * problem.p);
    const int64_t c = row / problem.p % problem.c;
    const Word* channel =
        static_cast<const Word*>(input) + n * problem.input.stride[0] + c * problem.input.stride[1];
    write_window_row(problem, channel, row % problem.p,
                     static_cast<Word*>(output) + row * row_elements);
  });
}

}  // namespace

void transform(const Problem& problem, const void* input, void* output, int32_t threads) {
  // Elements are moved, not computed with: their width is all that matters.
  switch (element_bytes(problem.dtype)) {
    case 8: return transform_words<uint64_t>(problem, input, output, threads);
    case 4: return transform_words<uint32_t>(problem, input, output, threads);
    default: return transform_words<uint16_t>(problem, input, output, threads);
  }
}

}  // namespace im2win::cpu
