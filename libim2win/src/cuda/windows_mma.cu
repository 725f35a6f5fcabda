// windows_mma: windows of few channels that are neighbours, by the kernel of `pointwise_mma`, which copies each window for
// itself: what they have in common comes from a cache.

#include <cstdint>
#include <memory>

#include "cuda/algorithms.hpp"
#include "cuda/device.hpp"
#include "cuda/launch.cuh"
#include "cuda/pointwise_mma/kernel.cuh"
#include "cuda/windows_mma/tile.hpp"

namespace im2win::cuda {
namespace windows_mma {
namespace {

using namespace pointwise_mma;

template <class Element>
using Kernel = void (*)(const Arguments<Element>);

template <class Element>
Kernel<Element> kernel_of(int sixteens) {
  static_assert(windows_mma::kMostSixteens == 2);
  constexpr auto kBits = Operands::kSixteenBits;
  return sixteens == 1 ? pointwise_mma_kernel<Rows<Element, kBits, 1, Form::kWindows>>
                       : pointwise_mma_kernel<Rows<Element, kBits, 2, Form::kWindows>>;
}

template <class Element>
class WindowsMma final : public Convolution {
 public:
  WindowsMma(const Problem& problem, const Tile& tile, const DeviceLimits& device)
      : problem_(problem),
        arguments_(problem, tile, Form::kWindows),
        kernel_(kernel_of<Element>(tile.sixteens)) {
    allow_shared_memory(reinterpret_cast<const void*>(kernel_), device.shared_bytes);
    start_ = ptx_version(kernel_) >= 90 ? Start::kEarly : Start::kInOrder;
  }

  void run(const Buffers& buffers, void* stream) const override {
    constexpr int kWord = kMostWordBytes / kBytes, kLaneFilters = 4;
    Arguments<Element> a = arguments_;
    a.bind(problem_, buffers);
    a.input_bytes = window_word(problem_.input, begin<Element>(buffers.input), kWord) * kBytes;
    a.output_word = row_word(problem_.output, begin<Element>(buffers.output), kLaneFilters);
    launch_shared("pointwise_mma_kernel", kernel_, int64_t{a.tile.blocks} * a.tile.parts,
                  block_warps(a.tile.sixteens, Operands::kSixteenBits) * 32,
                  static_cast<size_t>(a.tile.shared_bytes), stream, start_, a);
  }

 private:
  static constexpr int kBytes = static_cast<int>(sizeof(Element));

  Problem problem_;
  Arguments<Element> arguments_;
  Kernel<Element> kernel_;
  Start start_;
};

template <class Element>
std::unique_ptr<Convolution> make(const Problem& problem, const Target& target) {
  const DeviceLimits device = {multiprocessors(target.device),
                               shared_bytes_of_block(target.device)};
  return std::make_unique<WindowsMma<Element>>(problem, windows_mma::choose_tile(problem, device),
                                               device);
}

}  // namespace
}  // namespace windows_mma

std::string refuse_windows_mma(const Problem& problem) { return windows_mma::refusal(problem); }

std::unique_ptr<Convolution> configure_windows_mma(const Problem& problem, const Target& target) {
  const CurrentDevice current(target.device);
  return problem.dtype == IM2WIN_FLOAT16 ? windows_mma::make<__half>(problem, target)
                                         : windows_mma::make<__nv_bfloat16>(problem, target);
}

}  // namespace im2win::cuda
