// Sums of neighbouring pixels on their way to the output.
#pragma once

#include <algorithm>

#include "cpu/output.hpp"

namespace im2win::cpu {

/// Pixels are counted over all images, (n, p, q).
struct OutputBlock {
  int64_t first_pixel, pixels;
  int64_t first_filter, filters;
};

/// Writes a block from its rows of sums, one a pixel, `pitch` apart. With the kernel `store` the sums are
/// finished and the output has a unit stride; without it the epilogue is still to be done.
template <class Element, class Compute>
void write_sums(const Problem& problem, const Buffers& buffers,
                void (*store)(const Rows<Compute, Element>& rows), const OutputBlock& block,
                const Compute* sums, int64_t pitch, bool streams) {
  const Problem& d = problem;
  const int64_t* out = d.output.stride;
  const OutputWriter<Element, Compute> writer(d, buffers);
  const bool is_one_row = store != nullptr && out[2] == d.q * out[3];  // of an image
  const int64_t row_pixels = is_one_row ? d.p * d.q : d.q;
  const int64_t end = block.first_pixel + block.pixels;
  for (int64_t pixel = block.first_pixel; pixel < end;) {
    const int64_t count = std::min(row_pixels - pixel % row_pixels, end - pixel);
    const int64_t n = pixel / (d.p * d.q);
    const int64_t p = pixel / d.q % d.p;
    const int64_t q = pixel % d.q;
    Element* output =
        static_cast<Element*>(buffers.output) + offset(d.output, n, block.first_filter, p, q);
    if (store == nullptr) {
      for (int64_t k = 0; k < block.filters; ++k)
        writer.write(n, block.first_filter + k, p, q, sums + k, pitch, count);
    } else if (out[1] == 1 && out[3] == block.filters && pitch == block.filters) {
      store({sums, 0, 1, output, 0, 1, count * block.filters, streams});
    } else if (out[1] == 1) {
      store({sums, pitch, 1, output, out[3], count, block.filters, streams});
    } else {
      store({sums, 1, pitch, output, out[1], block.filters, count, streams});
    }
    pixel += count;
    sums += count * pitch;
  }
}

}  // namespace im2win::cpu
