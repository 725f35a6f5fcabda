#include "cuda/implicit_gemm/split_k.hpp"

#include <algorithm>

#include "cuda/algorithms.hpp"
#include "cuda/device.hpp"
#include "cuda/implicit_gemm/split_k/kernel.cuh"
#include "cuda/launch.cuh"

namespace im2win::cuda::implicit_gemm {
namespace split_k {
namespace {

template <class T>
class Tiled final : public Convolution {
  using Element = typename T::Element;
  // What a block can have on any device that there is code for: from compute capability 7.5 on, tensor cores' from 8.0.
  static_assert(sizeof(Shared<T>) <= (T::kHasTensorCores ? 99 : 64) * 1024);

 public:
  Tiled(const Problem& problem, const Tile& tile, int32_t device)
      : arguments_(problem, tile),
        window_copy_(window_copy(problem)),
        filter_copy_(filter_copy(problem)),
        has_output_words_(has_output_words(problem)),
        start_(ptx_version(kKernel) >= 90 ? Start::kEarly : Start::kInOrder) {
    const int most = shared_bytes_of_block(device);  // of which two blocks cannot have half each
    allow_shared_memory(reinterpret_cast<const void*>(kKernel), most);
    // Clusters would take longer so.
    arguments_.is_alone =
        start_ == Start::kEarly && tile.splits == 1 && arguments_.blocks <= multiprocessors(device);
    if (arguments_.is_alone) shared_bytes_ = std::max(shared_bytes_, most / 2);
  }

  void run(const Buffers& buffers, void* stream) const override {
    Arguments<Element> a = arguments_;
    a.exact.input = static_cast<const Element*>(buffers.input);
    a.exact.filter = static_cast<const Element*>(buffers.filter);
    a.exact.outputs.bind(buffers);
    a.copies =
        copies_at(sizeof(Element), window_copy_, buffers.input, filter_copy_, buffers.filter);
    a.writes_words =
        has_output_words_ && a.exact.outputs.only_adds_bias_and_clamps() &&
        reinterpret_cast<uintptr_t>(buffers.output) % (kOutputWord * sizeof(Element)) == 0;
    launch_clusters("implicit_gemm_split_k_kernel", kKernel, a.blocks * a.splits, a.splits,
                    kThreads, static_cast<size_t>(shared_bytes_), stream, start_, a);
  }

 private:
  static constexpr auto kKernel = implicit_gemm_split_k_kernel<T>;

  Arguments<Element> arguments_;
  int window_copy_, filter_copy_;
  bool has_output_words_;
  int shared_bytes_ = sizeof(Shared<T>);
  Start start_;
};

template <class Element, bool kIsTf32, bool kChannelsLast>
std::unique_ptr<Convolution> make(const Problem& problem, const Target& target) {
  using Large = Shape<Element, kLargeEdge, kChannelsLast, kIsTf32>;
  using Small = Shape<Element, kSmallEdge, kChannelsLast, kIsTf32>;
  const int version = ptx_version(implicit_gemm_split_k_kernel<Small>);
  // Older code has no such tensor cores.
  if (version < 80 && kIsTf32) return make<Element, false, kChannelsLast>(problem, target);
  if (version < 80 && Small::kHasTensorCores) return configure_direct(problem, target);
  const Tile tile = choose_tile(problem, multiprocessors(target.device), version >= 90);
  if (tile.edge == kLargeEdge) return std::make_unique<Tiled<Large>>(problem, tile, target.device);
  return std::make_unique<Tiled<Small>>(problem, tile, target.device);
}

template <class Element, bool kIsTf32 = false>
std::unique_ptr<Convolution> make(const Problem& problem, const Target& target) {
  return are_channels_last(problem) ? make<Element, kIsTf32, true>(problem, target)
                                    : make<Element, kIsTf32, false>(problem, target);
}

}  // namespace
}  // namespace split_k

std::unique_ptr<Convolution> configure_split_k(const Problem& problem, const Target& target) {
  switch (problem.dtype) {
    case IM2WIN_FLOAT16: return split_k::make<__half>(problem, target);
    case IM2WIN_BFLOAT16: return split_k::make<__nv_bfloat16>(problem, target);
    default:
      return problem.math == IM2WIN_MATH_TF32 ? split_k::make<float, true>(problem, target)
                                              : split_k::make<float>(problem, target);
  }
}

}  // namespace im2win::cuda::implicit_gemm
