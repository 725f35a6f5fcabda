// implicit_gemm_tiled: Algorithm 1 of the paper, tile by tile, for any strides. Nothing is faster in float64; in
// float32, small problems of small windows come here.

#include "checked.hpp"
#include "cuda/algorithms.hpp"
#include "cuda/device.hpp"
#include "cuda/implicit_gemm/choice.hpp"
#include "cuda/implicit_gemm/fma_sums.cuh"
#include "cuda/implicit_gemm/halves.hpp"
#include "cuda/implicit_gemm/halves/tile.hpp"
#include "cuda/implicit_gemm/tensor_core_sums.cuh"
#include "cuda/launch.cuh"
#include "status.hpp"

namespace im2win::cuda {
namespace implicit_gemm {
namespace {

template <class Element>
class Tiled final : public Convolution {
 public:
  using Kernel = void (*)(const Arguments<Element>);

  Tiled(const Problem& problem, Kernel kernel, int edge)
      : arguments_(problem, edge),
        kernel_(kernel),
        start_(ptx_version(kernel) >= 90 ? Start::kEarly : Start::kInOrder) {}

  void run(const Buffers& buffers, void* stream) const override {
    Arguments<Element> a = arguments_;
    a.exact.input = static_cast<const Element*>(buffers.input);
    a.exact.filter = static_cast<const Element*>(buffers.filter);
    a.exact.outputs.bind(buffers);
    launch_shared("implicit_gemm_tiled_kernel", kernel_, a.blocks, kThreads, 0, stream, start_, a);
  }

 private:
  Arguments<Element> arguments_;
  Kernel kernel_;
  Start start_;
};

template <class T, class Sums>
std::unique_ptr<Convolution> make(const Problem& problem) {
  return std::make_unique<Tiled<typename T::Element>>(problem, implicit_gemm_tiled_kernel<T, Sums>,
                                                      T::kEdge);
}

template <class T>
std::unique_ptr<Convolution> make_float32(const Problem& problem) {
  return OutputOrder(problem).filters_fastest() ? make<T, FmaSums<T, true>>(problem)
                                                : make<T, FmaSums<T, false>>(problem);
}

/// Smaller tiles where larger ones would leave multiprocessors without any.
template <bool kChannelsLast>
std::unique_ptr<Convolution> make_float32(const Problem& problem, const Target& target) {
  return blocks_of(problem, kLargeEdge) >= multiprocessors(target.device)
             ? make_float32<Tile<float, kLargeEdge, kChannelsLast>>(problem)
             : make_float32<Tile<float, kSmallEdge, kChannelsLast>>(problem);
}

template <bool kChannelsLast>
std::unique_ptr<Convolution> make_float64(const Problem& problem, const Target& target) {
  using T = Tile<double, kLargeEdge, kChannelsLast>;
  // Older code has no tensor cores for float64.
  if (ptx_version(implicit_gemm_tiled_kernel<T, TensorCoreSums<T>>) < 80)
    return configure_direct(problem, target);
  return make<T, TensorCoreSums<T>>(problem);
}

}  // namespace
}  // namespace implicit_gemm

namespace {

bool has_halves(const Problem& problem) { return element_bytes(problem.dtype) == 2; }

}  // namespace

std::string refuse_implicit_gemm_tiled(const Problem& problem) {
  constexpr int64_t kMostTaps = (int64_t{1} << 31) - 1024;
  if (problem.window_elements() >= kMostTaps)
    return text("takes windows of fewer than ", kMostTaps, " elements, not ",
                problem.window_elements());
  return has_halves(problem) ? implicit_gemm::halves::refusal(problem) : "";
}

std::unique_ptr<Convolution> configure_implicit_gemm_tiled(const Problem& problem,
                                                           const Target& target) {
  using namespace implicit_gemm;
  const CurrentDevice current(target.device);
  if (has_halves(problem)) return configure_halves(problem, target);
  const bool is_channels_last = are_channels_last(problem);
  if (problem.dtype == IM2WIN_FLOAT32)
    return is_channels_last ? make_float32<true>(problem, target)
                            : make_float32<false>(problem, target);
  return is_channels_last ? make_float64<true>(problem, target)
                          : make_float64<false>(problem, target);
}

}  // namespace im2win::cuda
