// Algorithm 3 of the paper: the im2win transform, the packing of the filter, and their product.

#include <algorithm>

#include "checked.hpp"
#include "cuda/algorithms.hpp"
#include "cuda/device.hpp"
#include "cuda/im2win_kernel.cuh"
#include "cuda/pack_filter.hpp"
#include "cuda/transform.hpp"

namespace im2win::cuda {
namespace {

/// Whether the input serves as its own im2win tensor: with one window row and no padding that holds
/// just what a dense NCHW input does. So a 1x1 convolution has no transform and no workspace.
bool input_is_windows(const Problem& problem) {
  return problem.r == 1 && !problem.is_padded() && problem.input.is_nchw();
}

WindowLayout windows_layout(const Problem& problem) {
  WindowLayout layout(problem);
  if (input_is_windows(problem)) {
    layout.image = problem.c * problem.h * problem.w;
    layout.channel = problem.h * problem.w;
    layout.row = problem.p > 1 ? problem.stride_h * problem.w : 0;
  }
  return layout;
}

/// The greatest distance in the im2win tensor between the bases of one tile's pixels, which a
/// kernel counts in 32 bits.
int64_t pixel_span(const Problem& problem) {
  const WindowLayout layout = windows_layout(problem);
  const int64_t images = ceil_div(kIm2winMaxPixels - 1, problem.p * problem.q);
  return std::clamp<int64_t>(problem.n - 1, 0, images) * layout.image + layout.channel;
}

class Im2win final : public Convolution {
 public:
  Im2win(const Problem& problem, const Target& target, Im2winVariant variant)
      : Im2win(problem, choose_im2win_tile(problem, multiprocessors(target.device)), variant) {}

  int64_t workspace_bytes() const override {
    return input_is_windows(problem_) ? 0 : transform_bytes(problem_);
  }
  int64_t packed_filter_bytes() const override { return packed_filter_bytes_; }

  void pack_filter(const void* filter, void* packed, void* stream) const override {
    cuda::pack_filter(problem_, tile_, filter, packed, stream);
  }

  void run(const Buffers& buffers, void* stream) const override {
    Im2winArguments a = arguments_;
    a.windows = static_cast<const float*>(buffers.input);
    if (!input_is_windows(problem_)) {
      transform(problem_, buffers.input, buffers.workspace, stream);
      a.windows = static_cast<const float*>(buffers.workspace);
    }
    a.filters = static_cast<const float*>(buffers.filter);
    a.outputs.bind(buffers);
    launch("im2win_kernel", kernel_, a.blocks, tile_.threads(), stream, a);
  }

 private:
  /// Variants need the same memory: that of the whole algorithm with the tile it would choose.
  Im2win(const Problem& problem, int index, Im2winVariant variant)
      : problem_(problem),
        tile_(im2win_tile(index, variant)),
        kernel_(variant == Im2winVariant::kFull ? im2win_kernels<Im2winVariant::kFull>(index)
                                                : ablated_im2win_kernel(index, variant)),
        arguments_(problem, tile_),
        packed_filter_bytes_(cuda::packed_filter_bytes(problem, kIm2winTiles[index])) {}

  Problem problem_;
  Im2winTile tile_;
  Im2winKernel kernel_;
  Im2winArguments arguments_;
  int64_t packed_filter_bytes_;
};

}  // namespace

Im2winArguments::Im2winArguments(const Problem& problem, const Im2winTile& tile)
    : outputs(problem),
      exact{Axis::vertical(problem),
            Axis::horizontal(problem),
            windows_layout(problem),
            problem.c_per_group(),
            problem.r * problem.s * tile.filters,
            tile.filters,
            problem.r * tile.filters},
      steps(problem, exact.layout, tile.taps),
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

std::string refuse_im2win(const Problem& problem) {
  if (std::string reason = refuse_all_but_float32(problem); !reason.empty()) return reason;
  if (std::string reason = refuse_transform(problem); !reason.empty()) return reason;
  if (problem.window_elements() >= (int64_t{1} << 31) - kIm2winTapMultiple)
    return text("takes windows of fewer than 2^31 elements, not ", problem.window_elements());
  if (pixel_span(problem) >= int64_t{1} << 32)
    return text("takes problems where ", kIm2winMaxPixels, " neighbouring pixels span fewer than ",
                "2^32 elements of the im2win tensor, not ", pixel_span(problem));
  try {
    for (const Im2winTile& tile : kIm2winTiles)
      checked_add(transform_bytes(problem), packed_filter_bytes(problem, tile), "the workspace");
  } catch (const Error& error) {
    return text("takes problems of a smaller workspace: ", error.what());
  }
  return "";
}

std::unique_ptr<Convolution> configure_im2win(const Problem& problem, const Target& target,
                                              Im2winVariant variant) {
  return std::make_unique<Im2win>(problem, target, variant);
}

}  // namespace im2win::cuda
