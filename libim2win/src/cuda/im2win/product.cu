#include "cuda/im2win/product.cuh"

#include <algorithm>

#include "checked.hpp"
#include "cuda/device.hpp"
#include "cuda/im2win/kernel.cuh"
#include "cuda/pack_filter.hpp"

namespace im2win::cuda {
namespace {

/// The greatest distance of a window of one tile's pixels from where the first one's image begins,
/// which a kernel counts in 32 bits.
int64_t pixel_span(const Problem& problem, const WindowLayout& layout) {
  const int64_t images = ceil_div(kIm2winMaxPixels - 1, problem.p * problem.q);
  return std::clamp<int64_t>(problem.n - 1, 0, images) * layout.image +
         (problem.p - 1) * layout.row + (problem.q - 1) * layout.window;
}

}  // namespace

Im2winArguments::Im2winArguments(const Problem& problem, const WindowLayout& layout,
                                 const Im2winTile& tile)
    : outputs(problem),
      exact{Axis::vertical(problem),
            Axis::horizontal(problem),
            layout,
            problem.c_per_group(),
            problem.r * problem.s * tile.filters,
            tile.filters,
            problem.r * tile.filters},
      steps(problem, layout, tile.taps),
      q(problem.q),
      p(problem.p),
      filter_tiles(cuda::filter_tiles(problem, tile)),
      pixel_tiles(std::max<int64_t>(ceil_div(problem.output_pixels(), tile.pixels), 1)),
      blocks(problem.groups * filter_tiles.divisor * pixel_tiles.divisor),
      pixels(problem.output_pixels()),
      filters_per_group(problem.k_per_group()),
      padded_taps(cuda::padded_taps(problem)),
      taps(static_cast<int>(problem.window_elements())),
      padded(problem.is_padded()) {}

Im2winProduct::Im2winProduct(const Problem& problem, const WindowLayout& layout,
                             const Target& target, Im2winVariant variant)
    : Im2winProduct(problem, layout, choose_im2win_tile(problem, multiprocessors(target.device)),
                    variant) {}

Im2winProduct::Im2winProduct(const Problem& problem, const WindowLayout& layout, int tile,
                             Im2winVariant variant)
    : problem_(problem),
      tile_(im2win_tile(tile, variant)),
      kernel_(variant == Im2winVariant::kFull ? im2win_kernels<Im2winVariant::kFull>(tile)
                                              : ablated_im2win_kernel(tile, variant)),
      arguments_(problem, layout, tile_),
      packed_filter_bytes_(cuda::packed_filter_bytes(problem, kIm2winTiles[tile])) {}

void Im2winProduct::pack_filter(const void* filter, void* packed, void* stream) const {
  cuda::pack_filter(problem_, tile_, filter, packed, stream);
}

void Im2winProduct::run(const void* windows, const Buffers& buffers, void* stream) const {
  Im2winArguments a = arguments_;
  a.windows = static_cast<const float*>(windows);
  a.filters = static_cast<const float*>(buffers.filter);
  a.outputs.bind(buffers);
  launch("im2win_kernel", kernel_, a.blocks, tile_.threads(), stream, a);
}

std::string refuse_im2win_product(const Problem& problem, const WindowLayout& layout,
                                  int64_t windows_bytes) {
  if (problem.window_elements() >= (int64_t{1} << 31) - kIm2winTapMultiple)
    return text("takes windows of fewer than 2^31 elements, not ", problem.window_elements());
  if (pixel_span(problem, layout) >= int64_t{1} << 32)
    return text("takes problems where ", kIm2winMaxPixels, " neighbouring pixels span fewer than ",
                "2^32 elements of what windows are read from, not ", pixel_span(problem, layout));
  try {
    for (const Im2winTile& tile : kIm2winTiles)
      checked_add(windows_bytes, packed_filter_bytes(problem, tile), "the workspace");
  } catch (const Error& error) {
    return text("takes problems of a smaller workspace: ", error.what());
  }
  return "";
}

}  // namespace im2win::cuda
