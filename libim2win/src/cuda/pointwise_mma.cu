// pointwise_mma: windows of single pixels, of few channels and filters.

#include <cstdint>
#include <memory>

#include "cuda/algorithms.hpp"
#include "cuda/device.hpp"
#include "cuda/launch.cuh"
#include "cuda/pointwise_mma/kernel.cuh"
#include "cuda/pointwise_mma/tile.hpp"
#include "cuda/words.hpp"

namespace im2win::cuda {
namespace pointwise_mma {
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

template <class Element, Operands kOperands, int kSixteens>
Kernels<Element> kernels_of_pass(bool are_rows) {
  using K = Kernels<Element>;
  if (are_rows) {
    const Kernel<Element> kernel = pointwise_mma_kernel<Rows<Element, kOperands, kSixteens>>;
    return {{kernel, kernel, kernel}};
  }
  const Kernel<Element> elements = pointwise_mma_kernel<Planes<Element, kOperands, kSixteens, 1>>;
  const Kernel<Element> words =
      pointwise_mma_kernel<Planes<Element, kOperands, kSixteens, K::kWord>>;
  if constexpr (sizeof(Element) == 4)
    return {{words, elements, elements}};
  else
    return {{words, pointwise_mma_kernel<Planes<Element, kOperands, kSixteens, K::kHalfWord>>,
             elements}};
}

template <class Element, Operands kOperands>
Kernels<Element> kernels(int sixteens, bool are_rows) {
  switch (sixteens) {
    case 1: return kernels_of_pass<Element, kOperands, 1>(are_rows);
    case 2: return kernels_of_pass<Element, kOperands, 2>(are_rows);
    default: return kernels_of_pass<Element, kOperands, kMostSixteens>(are_rows);
  }
}

template <class Element, Operands kOperands>
class PointwiseMma final : public Convolution {
 public:
  PointwiseMma(const Problem& problem, const Tile& tile, const DeviceLimits& device)
      : problem_(problem),
        are_rows_(are_rows(problem)),
        arguments_(problem, tile, are_rows_ ? Form::kRows : Form::kPlanes),
        kernels_(kernels<Element, kOperands>(tile.sixteens, are_rows_)) {
    for (const Kernel<Element> kernel : kernels_.all)
      allow_shared_memory(reinterpret_cast<const void*>(kernel), device.shared_bytes);
    start_ = ptx_version(kernels_.all[0]) >= 90 ? Start::kEarly : Start::kInOrder;
  }

  void run(const Buffers& buffers, void* stream) const override {
    Arguments<Element> a = arguments_;
    a.bind(problem_, buffers);
    int word = Kernels<Element>::kWord;
    if (are_rows_) {
      constexpr int kLaneFilters = 4;
      a.input_bytes = row_word(problem_.input, begin<Element>(buffers.input), word) * kBytes;
      a.output_word = row_word(problem_.output, begin<Element>(buffers.output), kLaneFilters);
    } else {
      word = plane_word(problem_.input, begin<Element>(buffers.input), word);
      word = plane_word(problem_.output, begin<Element>(buffers.output), word);
      if (buffers.residual != nullptr)
        word = plane_word(problem_.residual, begin<Element>(buffers.residual), word);
    }
    launch_shared("pointwise_mma_kernel", kernels_.of(word), int64_t{a.tile.blocks} * a.tile.parts,
                  block_warps(a.tile.sixteens, kOperands) * 32,
                  static_cast<size_t>(a.tile.shared_bytes), stream, start_, a);
  }

 private:
  static constexpr int kBytes = static_cast<int>(sizeof(Element));

  Problem problem_;
  bool are_rows_;
  Arguments<Element> arguments_;
  Kernels<Element> kernels_;
  Start start_;
};

template <class Element, Operands kOperands>
std::unique_ptr<Convolution> make(const Problem& problem, const Target& target) {
  const DeviceLimits device = {multiprocessors(target.device),
                               shared_bytes_of_block(target.device)};
  return std::make_unique<PointwiseMma<Element, kOperands>>(problem, choose_tile(problem, device),
                                                            device);
}

}  // namespace
}  // namespace pointwise_mma

std::string refuse_pointwise_mma(const Problem& problem) { return pointwise_mma::refusal(problem); }

std::unique_ptr<Convolution> configure_pointwise_mma(const Problem& problem, const Target& target) {
  const CurrentDevice current(target.device);
  using namespace pointwise_mma;
  switch (operands_of(problem)) {
    case Operands::kTf32: return make<float, Operands::kTf32>(problem, target);
    case Operands::kThirds: return make<float, Operands::kThirds>(problem, target);
    default:
      return problem.dtype == IM2WIN_FLOAT16
                 ? make<__half, Operands::kSixteenBits>(problem, target)
                 : make<__nv_bfloat16, Operands::kSixteenBits>(problem, target);
  }
}

}  // namespace im2win::cuda
