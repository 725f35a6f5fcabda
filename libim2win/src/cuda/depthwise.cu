// Depthwise convolution: groups = channels. It is bound by memory: each kernel is made to move the
// input and the output across it about once.
//
// Dense NCHW and NHWC have kernels for the common windows, by FMAs, and by tensor cores where they are
// worthwhile, and for any window, of what is staged: padded, so that what is next to each other is summed
// together, or in NCHW as it is. What those do not take, by its strides, alignment or several filters a
// channel, and windows that have little in common, are read straight from memory.

#include <algorithm>
#include <memory>
#include <optional>
#include <type_traits>
#include <utility>

#include "checked.hpp"
#include "cuda/algorithms.hpp"
#include "cuda/depthwise/gather.cuh"
#include "cuda/depthwise/image_rows.cuh"
#include "cuda/depthwise/launch.cuh"
#include "cuda/depthwise/plane_matrix.cuh"
#include "cuda/depthwise/planes.cuh"
#include "cuda/depthwise/planes_mma.cuh"
#include "cuda/depthwise/slices.cuh"
#include "cuda/depthwise/slices_mma.cuh"
#include "cuda/depthwise/whole_planes.cuh"
#include "cuda/depthwise/windows.cuh"
#include "cuda/device.hpp"
#include "cuda/grouped/tile.hpp"

namespace im2win::cuda {
namespace {

constexpr int64_t kMaxBlocks = int64_t{1} << 30;  // of a grid that is a single row

/// By a kernel, and by another one what is not aligned for it.
template <class Element, class Grid, class Compute = float>
class TiledDepthwise final : public Convolution {
 public:
  using Kernel = void (*)(DepthwiseArguments<Element, Compute>, Grid);

  TiledDepthwise(const Problem& problem, Kernel kernel, const Grid& grid, int threads,
                 int64_t shared_bytes, int64_t alignment, std::unique_ptr<Convolution> any)
      : arguments_(problem),
        grid_(grid),
        kernel_(kernel),
        threads_(threads),
        shared_bytes_(static_cast<size_t>(shared_bytes)),
        alignment_(static_cast<uintptr_t>(alignment)),
        start_(Grid::kStartsEarly && ptx_version(kernel) >= 90 ? Start::kEarly : Start::kInOrder),
        any_(std::move(any)) {}

  void run(const Buffers& buffers, void* stream) const override {
    const auto addresses = reinterpret_cast<uintptr_t>(buffers.input) |
                           reinterpret_cast<uintptr_t>(buffers.filter) |
                           reinterpret_cast<uintptr_t>(buffers.output);
    if (addresses % alignment_ != 0) return any_->run(buffers, stream);
    DepthwiseArguments<Element, Compute> a = arguments_;
    a.bind(buffers);
    launch_shared("depthwise_kernel", kernel_, grid_.blocks, threads_, shared_bytes_, stream,
                  start_, a, grid_);
  }

 private:
  DepthwiseArguments<Element, Compute> arguments_;
  Grid grid_;
  Kernel kernel_;
  int threads_;
  size_t shared_bytes_;
  uintptr_t alignment_;  // of input, filter and output
  Start start_;
  std::unique_ptr<Convolution> any_;  // takes what has less
};

bool is_nchw(const Problem& problem) { return problem.input.is_nchw() && problem.output.is_nchw(); }
bool is_nhwc(const Problem& problem) {
  return problem.input.is_nhwc() && problem.output.is_nhwc() && problem.c > 1;
}

/// Whether the epilogue has kernels of its own on this GPU: see has_code.
bool has_clamp_kernels(const Problem& problem) {
  return Clamp<float>::of(problem) &&
         ptx_version(depthwise_gather_kernel<float, float, 1, uint32_t>) == 90;
}

/// `choose` for the problem's window, one of those given, stride and epilogue as constants.
template <int kTaps, int... kMoreTaps, class Choose>
auto choose_kernel_of(const Problem& problem, Choose choose) {
  using std::bool_constant;
  using std::integral_constant;
  const auto with_stride = [&](auto taps, auto stride) {
    return has_clamp_kernels(problem) ? choose(taps, stride, bool_constant<true>{})
                                      : choose(taps, stride, bool_constant<false>{});
  };
  if constexpr (sizeof...(kMoreTaps) > 0)
    if (problem.r != kTaps) return choose_kernel_of<kMoreTaps...>(problem, choose);
  const integral_constant<int, kTaps> taps;
  return problem.stride_h == 1 ? with_stride(taps, integral_constant<int, 1>{})
                               : with_stride(taps, integral_constant<int, 2>{});
}

/// `choose` for the words that such a kernel of slices copies.
template <bool kIsClamp, class Choose>
auto choose_words(const Problem& problem, Choose choose) {
  using std::integral_constant;
  if constexpr (kIsClamp)
    return slices_word_bytes(problem) == kDepthwiseWordBytes ? choose(integral_constant<int, 16>{})
                                                             : choose(integral_constant<int, 4>{});
  else
    return choose(integral_constant<int, kAnyWords>{});
}

template <class Choose>
auto choose_kernel(const Problem& problem, Choose choose) {
  return choose_kernel_of<3, 5>(problem, choose);
}

/// By the kernel of any window and any strides. Words of channels only where buffers may be aligned.
template <class Element, class Compute>
std::unique_ptr<Convolution> configure_gather(const Problem& problem, bool are_words) {
  using Kernel = typename TiledDepthwise<Element, GatherGrid, Compute>::Kernel;
  const GatherTile tile = choose_gather_tile(problem, are_words);
  const GatherGrid grid(problem, tile);
  Kernel kernel = tile.is_narrow ? depthwise_gather_kernel<Element, Compute, 1, uint32_t>
                                 : depthwise_gather_kernel<Element, Compute, 1, uint64_t>;
  if constexpr (!std::is_same_v<Element, double>) {
    if (tile.word == 4) kernel = depthwise_gather_kernel<Element, Compute, 4, uint32_t>;
    if constexpr (!std::is_same_v<Element, float>)
      if (tile.word == 8) kernel = depthwise_gather_kernel<Element, Compute, 8, uint32_t>;
  }
  auto any = tile.word > 1 ? configure_gather<Element, Compute>(problem, false) : nullptr;
  return std::make_unique<TiledDepthwise<Element, GatherGrid, Compute>>(
      problem, kernel, grid, GatherTile::kThreads, tile.weights() * int64_t{sizeof(Compute)},
      tile.word * element_bytes(problem.dtype), std::move(any));
}

template <class Element, class Grid>
std::unique_ptr<Convolution> make_tiled(const Problem& problem,
                                        typename TiledDepthwise<Element, Grid>::Kernel kernel,
                                        const Grid& grid, int threads, int64_t shared_bytes,
                                        int64_t alignment) {
  if (grid.blocks > kMaxBlocks) return nullptr;
  return std::make_unique<TiledDepthwise<Element, Grid>>(
      problem, kernel, grid, threads, shared_bytes, alignment,
      configure_gather<Element, float>(problem, false));
}

/// In NHWC, with the tile that choose_tile(problem, warps) finds for so many resident warps.
template <class Element, class ChooseTile>
std::unique_ptr<Convolution> make_slices(
    const Problem& problem, const Target& target,
    typename TiledDepthwise<Element, SlicesGrid>::Kernel kernel, int64_t warp_bytes,
    ChooseTile choose_tile) {
  if (kernel == nullptr) return nullptr;
  constexpr int kThreads = 32 * kSlicesWarps;
  const int64_t shared_bytes = kSlicesWarps * warp_bytes;
  const int64_t warps =
      kSlicesWarps * resident_blocks(target.device, kernel, kThreads, shared_bytes);
  const auto tile = choose_tile(problem, warps);
  if (!tile) return nullptr;
  const int64_t word_bytes = slices_word_bytes(problem);
  const SlicesGrid grid(problem, *tile, word_bytes, multiprocessors(target.device));
  return make_tiled<Element>(problem, kernel, grid, kThreads, shared_bytes, word_bytes);
}

template <class Element>
std::unique_ptr<Convolution> configure_slices(const Problem& problem, const Target& target) {
  using Kernel = typename TiledDepthwise<Element, SlicesGrid>::Kernel;
  const Kernel kernel =
      choose_kernel_of<3, 5, 7>(problem, [&](auto taps, auto stride, auto is_clamp) -> Kernel {
        if constexpr (is_for_slices<Element>(taps, stride))
          return choose_words<is_clamp>(problem, [&](auto word_bytes) -> Kernel {
            return depthwise_slices_kernel<Element, taps, stride, word_bytes, is_clamp>;
          });
        else
          return nullptr;
      });
  return make_slices<Element>(problem, target, kernel, kSlicesRingBytes, choose_slices_tile);
}

template <class Element>
std::unique_ptr<Convolution> configure_mma_slices(const Problem& problem, const Target& target) {
  using Kernel = typename TiledDepthwise<Element, SlicesGrid>::Kernel;
  const Kernel kernel =
      choose_kernel_of<3, 5, 7>(problem, [&](auto taps, auto stride, auto is_clamp) -> Kernel {
        if constexpr (is_for_mma_slices(taps, stride))
          return choose_words<is_clamp>(problem, [&](auto word_bytes) -> Kernel {
            return depthwise_slices_mma_kernel<Element, taps, stride, word_bytes, is_clamp>;
          });
        else
          return nullptr;
      });
  if (kernel != nullptr && ptx_version(kernel) < 80) return nullptr;
  return make_slices<Element>(problem, target, kernel, kMmaSlicesWarpBytes, choose_mma_slices_tile);
}

template <class Element>
std::unique_ptr<Convolution> configure_planes(const Problem& problem, const Target& target) {
  const auto tile = choose_planes_tile(problem, multiprocessors(target.device));
  if (!tile) return nullptr;
  const auto kernel = choose_kernel(problem, [](auto taps, auto stride, auto is_clamp) {
    return depthwise_planes_kernel<Element, taps, stride, is_clamp>;
  });
  const int threads = static_cast<int>(round_up(tile->threads(), 32));
  return make_tiled<Element>(problem, kernel, PlanesGrid(problem, *tile), threads,
                             tile->shared_bytes, 1);
}

template <class Element>
std::unique_ptr<Convolution> configure_mma_planes(const Problem& problem, const Target& target) {
  if (ptx_version(depthwise_planes_mma_kernel<Element, 3, false>) < 80 ||
      !is_for_tensor_cores(problem))
    return nullptr;
  const auto tile = choose_mma_planes_tile(problem);
  if (!tile) return nullptr;
  const auto kernel = choose_kernel_of<3, 5, 7>(problem, [](auto taps, auto, auto is_clamp) {
    return depthwise_planes_mma_kernel<Element, taps, is_clamp>;
  });
  const int threads = 32 * tile->warps();
  const int64_t resident = resident_blocks(target.device, kernel, threads, tile->shared_bytes);
  return make_tiled<Element>(problem, kernel, MmaPlanesGrid(problem, *tile, resident), threads,
                             tile->shared_bytes, mma_planes_unit_bytes(problem));
}

template <class Element>
std::unique_ptr<Convolution> configure_image_rows(const Problem& problem) {
  const auto kernel = choose_kernel(problem, [](auto taps, auto stride, auto is_clamp) {
    return depthwise_image_rows_kernel<Element, taps, stride, is_clamp>;
  });
  const auto tile = choose_image_rows_tile(problem);
  if (!tile || ptx_version(kernel) < 80) return nullptr;
  allow_shared_memory(reinterpret_cast<const void*>(kernel), ImageRowsTile::kSharedBytes);
  return make_tiled<Element>(problem, kernel, ImageRowsGrid(problem, *tile), 32 * tile->warps(),
                             tile->shared_bytes, kDepthwiseWordBytes);
}

template <class Element>
std::unique_ptr<Convolution> configure_plane_matrix(const Problem& problem, const Target& target) {
  constexpr int kThreads = 32 * PlaneMatrixTile::kChannels;
  const auto kernel = has_clamp_kernels(problem) ? depthwise_plane_matrix_kernel<Element, true>
                                                 : depthwise_plane_matrix_kernel<Element, false>;
  const auto tile = choose_plane_matrix_tile(problem);
  if (!tile || ptx_version(kernel) < 80) return nullptr;
  const int64_t resident = resident_blocks(target.device, kernel, kThreads, tile->shared_bytes);
  return make_tiled<Element>(problem, kernel, PlaneMatrixGrid(problem, *tile, resident), kThreads,
                             tile->shared_bytes, kDepthwiseWordBytes);
}

/// Of whole planes, where it costs less than `most`.
template <class Element>
std::unique_ptr<Convolution> configure_whole_planes(const Problem& problem, const Target& target,
                                                    double most) {
  const int64_t number = multiprocessors(target.device);
  const auto tile = choose_whole_planes_tile(problem, number);
  if (!tile || !is_nchw(problem) || whole_planes_cost(problem, *tile, number) >= most)
    return nullptr;
  const auto kernel = is_summed_by_columns(problem) ? depthwise_whole_planes_kernel<Element, true>
                                                    : depthwise_whole_planes_kernel<Element, false>;
  allow_shared_memory(reinterpret_cast<const void*>(kernel), WholePlanesTile::kSharedBytes);
  return make_tiled<Element>(problem, kernel, WholePlanesGrid(problem, *tile), tile->threads(),
                             tile->shared_bytes, 1);
}

/// Of any window: the cheapest kernel, or nothing where that reads windows straight from memory.
template <class Element>
std::unique_ptr<Convolution> configure_windows(const Problem& images, const Target& target) {
  const Problem problem = with_images_as_rows(images);
  const int64_t number = multiprocessors(target.device);
  const auto tile = choose_windows_tile(problem, number);
  const double from_memory = gather_cost(problem, choose_gather_tile(problem, true), number);
  const double staged = tile ? windows_cost(problem, *tile, number) : from_memory;
  if (auto planes = configure_whole_planes<Element>(images, target, std::min(staged, from_memory)))
    return planes;
  if (!tile || from_memory < staged) return nullptr;
  const auto kernel = depthwise_windows_kernel<Element>;
  allow_shared_memory(reinterpret_cast<const void*>(kernel), WindowsTile::kSharedBytes);
  return make_tiled<Element>(
      problem, kernel, WindowsGrid(problem, *tile), tile->block_threads(), tile->shared_bytes,
      std::max(tile->word, tile->output_word) * element_bytes(problem.dtype));
}

/// By tensor cores, in code for a device that has them.
template <class Element>
std::unique_ptr<Convolution> configure_mma(const Problem& problem, const Target& target,
                                           bool is_pixel_major) {
  if (is_pixel_major && grouped::is_faster_than_depthwise(problem) &&
      ptx_version(depthwise_planes_mma_kernel<Element, 3, false>) >= 80)
    return configure_grouped(problem, target);
  if (is_pixel_major)
    return has_slices_window(problem) ? configure_mma_slices<Element>(problem, target) : nullptr;
  if (auto matrix = configure_plane_matrix<Element>(problem, target)) return matrix;
  if (has_depthwise_window(problem))
    if (auto rows = configure_image_rows<Element>(problem)) return rows;
  return configure_mma_planes<Element>(problem, target);
}

/// The tiled kernel that takes the problem, if there is one.
template <class Element>
std::unique_ptr<Convolution> configure_tiled(const Problem& problem, const Target& target) {
  if (problem.k_per_group() != 1 || !problem.filter.is_nchw()) return nullptr;
  const bool is_pixel_major = is_nhwc(problem);
  if (!is_pixel_major && !is_nchw(problem)) return nullptr;
  if (!only_activates(problem)) return configure_windows<Element>(problem, target);
  if constexpr (!std::is_same_v<Element, float>) {
    if (auto mma = configure_mma<Element>(problem, target, is_pixel_major)) return mma;
  }
  if (is_pixel_major && has_slices_window(problem))
    if (auto slices = configure_slices<Element>(problem, target)) return slices;
  if (!is_pixel_major && has_depthwise_window(problem))
    if (auto planes = configure_planes<Element>(problem, target)) return planes;
  return configure_windows<Element>(problem, target);
}

template <class Element, class Compute>
std::unique_ptr<Convolution> configure(const Problem& problem, const Target& target) {
  if constexpr (!std::is_same_v<Element, double>) {
    if (auto tiled = configure_tiled<Element>(problem, target)) return tiled;
  }
  return configure_gather<Element, Compute>(problem, true);
}

}  // namespace

std::string refuse_depthwise(const Problem& problem) {
  if (problem.groups == problem.c) return "";
  return text("takes groups = channels, not ", problem.groups, " groups of ", problem.c,
              " channels");
}

std::unique_ptr<Convolution> configure_depthwise(const Problem& problem, const Target& target) {
  const CurrentDevice current(target.device);
  switch (problem.dtype) {
    case IM2WIN_FLOAT64: return configure<double, double>(problem, target);
    case IM2WIN_FLOAT32: return configure<float, float>(problem, target);
    case IM2WIN_FLOAT16: return configure<__half, float>(problem, target);
    case IM2WIN_BFLOAT16: return configure<__nv_bfloat16, float>(problem, target);
    case IM2WIN_NONE: break;
  }
  fail(IM2WIN_INTERNAL_ERROR, "depthwise has no kernel for dtype ", problem.dtype);
}

}  // namespace im2win::cuda
