// implicit_gemm_tiled: Algorithm 1 of the paper, tile by tile, for any strides. Nothing is faster in float64; in
// float32 and with 16 bits, small problems come here (split_k.cu).

#include "cuda/algorithms.hpp"
#include "cuda/device.hpp"
#include "cuda/implicit_gemm/choice.hpp"
#include "cuda/implicit_gemm/split_k.hpp"
#include "cuda/implicit_gemm/split_k/tile.hpp"
#include "cuda/implicit_gemm/tile.cuh"
#include "cuda/launch.cuh"
#include "status.hpp"

namespace im2win::cuda {
namespace implicit_gemm {
namespace {

template <bool kChannelsLast>
class Tiled final : public Convolution {
 public:
  explicit Tiled(const Problem& problem) : arguments_(problem, kLargeEdge) {}

  void run(const Buffers& buffers, void* stream) const override {
    Arguments<double> a = arguments_;
    a.exact.input = static_cast<const double*>(buffers.input);
    a.exact.filter = static_cast<const double*>(buffers.filter);
    a.exact.outputs.bind(buffers);
    launch_shared("implicit_gemm_tiled_kernel", kKernel, a.blocks, kThreads, 0, stream, start_, a);
  }

  /// Older code has no tensor cores for float64.
  static bool has_tensor_cores() { return ptx_version(kKernel) >= 80; }

 private:
  static constexpr auto kKernel = implicit_gemm_tiled_kernel<Tile<kChannelsLast>>;

  Arguments<double> arguments_;
  Start start_ = ptx_version(kKernel) >= 90 ? Start::kEarly : Start::kInOrder;
};

template <bool kChannelsLast>
std::unique_ptr<Convolution> make(const Problem& problem, const Target& target) {
  if (!Tiled<kChannelsLast>::has_tensor_cores()) return configure_direct(problem, target);
  return std::make_unique<Tiled<kChannelsLast>>(problem);
}

}  // namespace
}  // namespace implicit_gemm

std::string refuse_implicit_gemm_tiled(const Problem& problem) {
  constexpr int64_t kMostTaps = (int64_t{1} << 31) - 1024;
  if (problem.window_elements() >= kMostTaps)
    return text("takes windows of fewer than ", kMostTaps, " elements, not ",
                problem.window_elements());
  return problem.dtype == IM2WIN_FLOAT64 ? "" : implicit_gemm::split_k::refusal(problem);
}

std::unique_ptr<Convolution> configure_implicit_gemm_tiled(const Problem& problem,
                                                           const Target& target) {
  using namespace implicit_gemm;
  const CurrentDevice current(target.device);
  if (problem.dtype != IM2WIN_FLOAT64) return configure_split_k(problem, target);
  return are_channels_last(problem) ? make<true>(problem, target) : make<false>(problem, target);
}

}  // namespace im2win::cuda
