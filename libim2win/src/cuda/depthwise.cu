// Depthwise convolution: groups = channels. It is bound by memory: each kernel is made to move the
// input and the output across it about once.
//
// Dense NCHW and NHWC have kernels for the common windows; what they do not take, by its shape,
// strides or alignment, one thread an output does. All of them sum in the same order.

#include <memory>
#include <optional>
#include <type_traits>

#include "checked.hpp"
#include "cuda/algorithms.hpp"
#include "cuda/depthwise_planes.cuh"
#include "cuda/depthwise_slices.cuh"
#include "cuda/output_order.cuh"

namespace im2win::cuda {
namespace {

constexpr int kThreads = 256;

template <class Element, class Compute>
__global__ void __launch_bounds__(kThreads)
    depthwise_kernel(const __grid_constant__ DepthwiseArguments<Element, Compute> a,
                     const __grid_constant__ OutputOrder order) {
  const int64_t number = thread_index();
  if (number >= order.count()) return;
  const OutputIndex at = order.locate(number);
  a.outputs.write(a.outputs.filter(at.k), a.outputs.pixel(at.n, at.p, at.q),
                  depthwise_sum(a, at.n, at.k, at.p, at.q));
}

template <class Element, class Compute>
struct PlanesKernel {
  using Grid = PlanesGrid;
  template <int kTaps, int kStride, bool kIsClamp>
  static constexpr auto kernel =
      depthwise_planes_kernel<Element, Compute, kTaps, kStride, kIsClamp>;
};

template <class Element, class Compute>
struct SlicesKernel {
  using Grid = SlicesGrid;
  template <int kTaps, int kStride, bool kIsClamp>
  static constexpr auto kernel =
      depthwise_slices_kernel<Element, Compute, kTaps, kStride, kIsClamp>;
};

template <class Element, class Compute>
class Depthwise final : public Convolution {
 public:
  explicit Depthwise(const Problem& problem) : arguments_(problem), order_(problem) {}

  void run(const Buffers& buffers, void* stream) const override {
    DepthwiseArguments<Element, Compute> a = arguments_;
    a.bind(buffers);
    launch("depthwise_kernel", depthwise_kernel<Element, Compute>,
           ceil_div(order_.count(), kThreads), kThreads, stream, a, order_);
  }

 private:
  DepthwiseArguments<Element, Compute> arguments_;
  OutputOrder order_;
};

/// By a kernel that takes a tile a block. `Kernel` is PlanesKernel or SlicesKernel.
template <class Element, class Compute, class Kernel>
class TiledDepthwise final : public Convolution {
 public:
  TiledDepthwise(const Problem& problem, const DepthwiseTile& tile, int item_threads)
      : arguments_(problem),
        grid_(problem, tile),
        kernel_(Clamp<Compute>::of(problem) ? choose_kernel<true>(problem)
                                            : choose_kernel<false>(problem)),
        threads_(static_cast<int>(std::min<int64_t>(
            round_up(int64_t{tile.items()} * item_threads, 32), kDepthwiseMaxThreads))),
        shared_bytes_(static_cast<size_t>(tile.shared_bytes)),
        any_(problem) {}

  void run(const Buffers& buffers, void* stream) const override {
    const bool is_aligned = reinterpret_cast<uintptr_t>(buffers.input) % 16 == 0;
    if (std::is_same_v<typename Kernel::Grid, SlicesGrid> && !is_aligned)
      return any_.run(buffers, stream);
    DepthwiseArguments<Element, Compute> a = arguments_;
    a.bind(buffers);
    launch_shared("depthwise_tile_kernel", kernel_, grid_.blocks, threads_, shared_bytes_, stream,
                  a, grid_);
  }

 private:
  using Function = void (*)(DepthwiseArguments<Element, Compute>, typename Kernel::Grid);

  template <bool kIsClamp>
  static Function choose_kernel(const Problem& problem) {
    if (problem.stride_h == 1)
      return problem.r == 3 ? Kernel::template kernel<3, 1, kIsClamp>
                            : Kernel::template kernel<5, 1, kIsClamp>;
    return problem.r == 3 ? Kernel::template kernel<3, 2, kIsClamp>
                          : Kernel::template kernel<5, 2, kIsClamp>;
  }

  DepthwiseArguments<Element, Compute> arguments_;
  typename Kernel::Grid grid_;
  Function kernel_;
  int threads_;
  size_t shared_bytes_;
  Depthwise<Element, Compute> any_;
};

/// The tiled kernel that takes the problem, if there is one.
template <class Element, class Compute>
std::unique_ptr<Convolution> configure_tiled(const Problem& problem) {
  if (problem.k_per_group() != 1 || !problem.filter.is_nchw() || !has_depthwise_window(problem))
    return nullptr;
  using Planes = TiledDepthwise<Element, Compute, PlanesKernel<Element, Compute>>;
  using Slices = TiledDepthwise<Element, Compute, SlicesKernel<Element, Compute>>;
  if (problem.input.is_nhwc() && problem.output.is_nhwc() && problem.c > 1) {
    if (const auto tile = choose_slices_tile(problem))
      return std::make_unique<Slices>(problem, *tile, 32);
  }
  if (problem.input.is_nchw() && problem.output.is_nchw()) {
    if (const auto tile = choose_planes_tile(problem))
      return std::make_unique<Planes>(problem, *tile, 1);
  }
  return nullptr;
}

template <class Element, class Compute>
std::unique_ptr<Convolution> configure(const Problem& problem) {
  if constexpr (!std::is_same_v<Element, double>) {
    if (auto tiled = configure_tiled<Element, Compute>(problem)) return tiled;
  }
  return std::make_unique<Depthwise<Element, Compute>>(problem);
}

}  // namespace

std::string refuse_depthwise(const Problem& problem) {
  if (problem.groups == problem.c) return "";
  return text("takes groups = channels, not ", problem.groups, " groups of ", problem.c,
              " channels");
}

std::unique_ptr<Convolution> configure_depthwise(const Problem& problem, const Target&) {
  switch (problem.dtype) {
    case IM2WIN_FLOAT64: return configure<double, double>(problem);
    case IM2WIN_FLOAT32: return configure<float, float>(problem);
    case IM2WIN_FLOAT16: return configure<__half, float>(problem);
    case IM2WIN_BFLOAT16: return configure<__nv_bfloat16, float>(problem);
    case IM2WIN_NONE: break;
  }
  fail(IM2WIN_INTERNAL_ERROR, "depthwise has no kernel for dtype ", problem.dtype);
}

}  // namespace im2win::cuda
