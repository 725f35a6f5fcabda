#include "cuda/fma_windows.hpp"

#include "cuda/device.hpp"
#include "cuda/fma_windows/kernel.cuh"

namespace im2win::cuda {
namespace fma_windows {
namespace {

template <class T, template <class> class Side>
class Windows final : public Convolution {
  using Element = typename T::Element;

 public:
  Windows(const Problem& problem, const Tile& tile)
      : arguments_(problem, tile),
        has_words_(has_words(problem)),
        start_(ptx_version(kKernel) >= 90 ? Start::kEarly : Start::kInOrder) {
    allow_shared_memory(reinterpret_cast<const void*>(kKernel), kSharedBytes);
  }

  void run(const Buffers& buffers, void* stream) const override {
    constexpr uintptr_t kWordBytes = kHeld * sizeof(Element);
    Arguments<Element> a = arguments_;
    a.exact.input = static_cast<const Element*>(buffers.input);
    a.exact.filter = static_cast<const Element*>(buffers.filter);
    a.exact.outputs.bind(buffers);
    a.has_words = has_words_ && reinterpret_cast<uintptr_t>(buffers.output) % kWordBytes == 0;
    launch_shared("im2win_fma_windows_kernel", kKernel, a.blocks, kThreads, kSharedBytes, stream,
                  start_, a);
  }

 private:
  static constexpr auto kKernel = im2win_fma_windows_kernel<T, Side>;
  static constexpr size_t kSharedBytes = sizeof(typename Side<T>::Shared);

  Arguments<Element> arguments_;
  bool has_words_;
  Start start_;
};

template <class Element, int kDepth>
std::unique_ptr<Convolution> make(const Problem& problem, const Tile& tile) {
  using T = Shape<Element, kDepth>;
  if constexpr (sizeof(Element) == 4) {
    if (are_filters_neighbours(problem))
      return std::make_unique<Windows<T, HeldFilters>>(problem, tile);
  }
  return std::make_unique<Windows<T, HeldWindows>>(problem, tile);
}

template <class Element>
std::unique_ptr<Convolution> make(const Problem& problem, const Tile& tile) {
  switch (tile.depth) {
    case kDepths[0]: return make<Element, kDepths[0]>(problem, tile);
    case kDepths[1]: return make<Element, kDepths[1]>(problem, tile);
    case kDepths[2]: return make<Element, kDepths[2]>(problem, tile);
    case kDepths[3]: return make<Element, kDepths[3]>(problem, tile);
    default: return make<Element, kMostTaps>(problem, tile);
  }
}

}  // namespace
}  // namespace fma_windows

std::unique_ptr<Convolution> configure_fma_windows(const Problem& problem, const Target& target) {
  using namespace fma_windows;
  const Tile tile = choose_tile(problem, multiprocessors(target.device));
  switch (problem.dtype) {
    case IM2WIN_FLOAT16: return make<__half>(problem, tile);
    case IM2WIN_BFLOAT16: return make<__nv_bfloat16>(problem, tile);
    default: return make<float>(problem, tile);
  }
}

}  // namespace im2win::cuda
