// pointwise_planes: windows of single pixels, of few channels and filters, whose pixels are neighbours in memory.

#include <cstdint>
#include <memory>

#include "cuda/algorithms.hpp"
#include "cuda/device.hpp"
#include "cuda/launch.cuh"
#include "cuda/pointwise_planes/kernel.cuh"
#include "cuda/pointwise_planes/tile.hpp"

namespace im2win::cuda {
namespace pointwise_planes {
namespace {

template <class Element>
using Kernel = void (*)(const Arguments<Element>);

/// A kernel for each size of words.
template <class Element>
struct Kernels {
  static constexpr int kWord = kMostWordBytes / static_cast<int>(sizeof(Element)),
                       kHalfWord = kWord / 2;
  Kernel<Element> all[3];

  Kernel<Element> of(int word) const { return all[word == kWord ? 0 : word == kHalfWord ? 1 : 2]; }
};

template <class Element, int kSixteens>
Kernels<Element> kernels_of_pass() {
  using K = Kernels<Element>;
  const Kernel<Element> elements = pointwise_planes_kernel<Shape<Element, kSixteens, 1>>;
  const Kernel<Element> words = pointwise_planes_kernel<Shape<Element, kSixteens, K::kWord>>;
  if constexpr (sizeof(Element) == 4)
    return {{words, elements, elements}};
  else
    return {{words, pointwise_planes_kernel<Shape<Element, kSixteens, K::kHalfWord>>, elements}};
}

template <class Element>
Kernels<Element> kernels(int sixteens) {
  switch (sixteens) {
    case 1: return kernels_of_pass<Element, 1>();
    case 2: return kernels_of_pass<Element, 2>();
    default: return kernels_of_pass<Element, kMostSixteens>();
  }
}

template <class Element>
class PointwisePlanes final : public Convolution {
 public:
  PointwisePlanes(const Problem& problem, const Tile& tile, const Device& device)
      : problem_(problem), arguments_(problem, tile), kernels_(kernels<Element>(tile.sixteens)) {
    for (const Kernel<Element> kernel : kernels_.all)
      allow_shared_memory(reinterpret_cast<const void*>(kernel), device.shared_bytes);
    start_ = ptx_version(kernels_.all[0]) >= 90 ? Start::kEarly : Start::kInOrder;
  }

  void run(const Buffers& buffers, void* stream) const override {
    Arguments<Element> a = arguments_;
    a.input = static_cast<const Element*>(buffers.input);
    a.filter = static_cast<const Element*>(buffers.filter);
    a.outputs.bind(buffers);
    a.filter_bytes = filter_bytes(buffers.filter);
    int word = word_of(problem_.input, buffers.input, Kernels<Element>::kWord);
    word = word_of(problem_.output, buffers.output, word);
    if (buffers.residual != nullptr) word = word_of(problem_.residual, buffers.residual, word);
    launch_shared("pointwise_planes_kernel", kernels_.of(word),
                  int64_t{a.tile.blocks} * a.tile.parts, a.tile.warps * 32,
                  static_cast<size_t>(a.tile.shared_bytes), stream, start_, a);
  }

 private:
  /// That can be copied at a time.
  int32_t filter_bytes(const void* filter) const {
    const auto begin = static_cast<int64_t>(reinterpret_cast<uintptr_t>(filter));
    if (problem_.filter.stride[1] != 1) return sizeof(Element);
    int64_t bytes = 16;
    for (const int64_t elements : {problem_.c, problem_.filter.stride[0]})
      while ((begin | elements * int64_t{sizeof(Element)}) % bytes != 0) bytes /= 2;
    return static_cast<int32_t>(bytes);
  }
  static int word_of(const Tensor& tensor, const void* data, int word) {
    const auto begin = static_cast<int64_t>(reinterpret_cast<uintptr_t>(data) / sizeof(Element));
    return pointwise_planes::word_of(tensor, begin, word);
  }

  Problem problem_;
  Arguments<Element> arguments_;
  Kernels<Element> kernels_;
  Start start_;
};

template <class Element>
std::unique_ptr<Convolution> make(const Problem& problem, const Target& target) {
  const Device device = {multiprocessors(target.device), shared_bytes_of_block(target.device)};
  return std::make_unique<PointwisePlanes<Element>>(problem, choose_tile(problem, device), device);
}

}  // namespace
}  // namespace pointwise_planes

std::string refuse_pointwise_planes(const Problem& problem) {
  return pointwise_planes::refusal(problem);
}

std::unique_ptr<Convolution> configure_pointwise_planes(const Problem& problem,
                                                        const Target& target) {
  const CurrentDevice current(target.device);
  switch (problem.dtype) {
    case IM2WIN_FLOAT16: return pointwise_planes::make<__half>(problem, target);
    case IM2WIN_BFLOAT16: return pointwise_planes::make<__nv_bfloat16>(problem, target);
    default: return pointwise_planes::make<float>(problem, target);
  }
}

}  // namespace im2win::cuda
