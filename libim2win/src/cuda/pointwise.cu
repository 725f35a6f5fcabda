// pointwise: windows of single pixels, whose channels are neighbours in memory, at the pace of memory.

#include <algorithm>
#include <cstdint>

#include "cuda/algorithms.hpp"
#include "cuda/device.hpp"
#include "cuda/launch.cuh"
#include "cuda/pointwise/kernels.hpp"
#include "cuda/pointwise/tile.hpp"
#include "cuda/tensor_map.hpp"
#include "cuda/words.hpp"

namespace im2win::cuda {
namespace pointwise {
namespace {

/// Rows of neighbouring elements: pixels of channels or filters, or filters of channels.
struct Rows {
  int64_t elements, rows, stride;

  /// As tensors of N C H W.
  Tensor tensor() const {
    return {{1, elements, 1, rows}, {elements * rows, 1, elements * rows, stride}};
  }
};

/// How many elements words may have, at most `most`, of such rows at such a place.
int64_t word_of(const Rows& rows, const void* data, int64_t most) {
  constexpr int64_t kBytes = 2;
  const auto begin = static_cast<int64_t>(reinterpret_cast<uintptr_t>(data) / kBytes % 8);
  return cuda::word_of({begin, rows.elements, rows.rows > 1 ? rows.stride : 0}, most);
}

/// What the tensor memory accelerator takes; see tensor_map().
bool are_boxes(const Rows& rows, const void* data) {
  return word_of(rows, data, 8) == 8 && (rows.rows == 1 || rows.stride > 0);
}

template <class Element>
class Pointwise final : public Convolution {
 public:
  Pointwise(const Problem& problem, const Tile& tile, Kernel<Element> kernel,
            CUtensorMapDataType type, int32_t device)
      : arguments_(problem, tile),
        kernel_(kernel),
        type_(type),
        input_{problem.c, problem.output_pixels(), arguments_.input_stride},
        filter_{problem.c, problem.k, arguments_.filter_stride},
        output_{problem.k, problem.output_pixels(), arguments_.output_stride},
        residual_{problem.k, problem.output_pixels(), arguments_.residual_stride},
        is_packed_(arguments_.outputs.only_adds_bias_and_clamps() && !problem.has_residual),
        blocks_(std::min(std::max(multiprocessors(device) / tile.splits, 1), arguments_.tiles) *
                int64_t{tile.splits}) {
    allow_shared_memory(reinterpret_cast<const void*>(kernel), tile.shared_bytes);
  }

  void run(const Buffers& buffers, void* stream) const override {
    Arguments<Element> a = arguments_;
    a.input = static_cast<const Element*>(buffers.input);
    a.filter = static_cast<const Element*>(buffers.filter);
    a.outputs.bind(buffers);
    if (are_boxes(input_, buffers.input) && are_boxes(filter_, buffers.filter)) {
      a.input_boxes = boxes(input_, buffers.input, row_elements(), a.tile.pixels);
      a.filter_boxes = boxes(filter_, buffers.filter, row_elements(), shape().filters());
    } else {
      constexpr int64_t kMost = 4;
      a.copied = static_cast<int32_t>(
          std::min(word_of(input_, buffers.input, kMost), word_of(filter_, buffers.filter, kMost)));
    }
    choose_leaving(buffers, a);
    launch_shared("pointwise_kernel", kernel_, blocks_, shape().threads(),
                  static_cast<size_t>(a.tile.shared_bytes), stream, Start::kEarly, a);
  }

 private:
  const Shape& shape() const { return kShapes[arguments_.tile.shape]; }

  int row_elements() const { return arguments_.tile.row_bytes() / int{sizeof(Element)}; }

  CUtensorMap boxes(const Rows& rows, const void* data, int elements, int count) const {
    const Box box = {
        {1, 3, 0, 2}, {static_cast<uint32_t>(elements), static_cast<uint32_t>(count), 1, 1}, true};
    return tensor_map(type_, sizeof(Element), data, rows.tensor(), box);
  }

  void choose_leaving(const Buffers& buffers, Arguments<Element>& a) const {
    constexpr int64_t kFewFilters = 32;  // of which rows leave most lanes without a word
    const bool is_run = output_.stride == output_.elements && a.tile.splits == 1;
    const int64_t word = word_of(output_, buffers.output, 8);
    if (!is_packed_) {
      a.leaving = Leaving::kFinished;
      const int64_t both =
          buffers.residual == nullptr ? word : word_of(residual_, buffers.residual, word);
      a.word = both == 4 ? 2 : static_cast<int32_t>(both);
    } else if (word == 8 && is_run && output_.elements % kBoxFilters != 0) {
      a.leaving = Leaving::kRun;
    } else if (are_boxes(output_, buffers.output)) {
      a.leaving = Leaving::kBoxes;
      a.output_boxes = boxes(output_, buffers.output, kBoxFilters, kWarpPixels);
    } else if (is_run && output_.elements >= kFewFilters && output_.elements % 2 != 0 &&
               reinterpret_cast<uintptr_t>(buffers.output) % 4 == 0) {
      a.leaving = Leaving::kPairs;
    } else {
      a.leaving = output_.elements < kFewFilters ? Leaving::kFewWords : Leaving::kWords;
      a.word = static_cast<int32_t>(std::min<int64_t>(word, 4));
      a.row_words = Divisor(output_.elements / a.word);
    }
  }

  Arguments<Element> arguments_;
  Kernel<Element> kernel_;
  CUtensorMapDataType type_;
  Rows input_, filter_, output_, residual_;
  bool is_packed_;  // see Leaving
  int64_t blocks_;
};

}  // namespace
}  // namespace pointwise

std::string refuse_pointwise(const Problem& problem) { return pointwise::refusal(problem); }

std::unique_ptr<Convolution> configure_pointwise(const Problem& problem, const Target& target) {
  using namespace pointwise;
  const CurrentDevice current(target.device);
  const Tile tile = *choose_tile(problem);
  if (problem.dtype == IM2WIN_FLOAT16)
    return std::make_unique<Pointwise<__half>>(problem, tile, half_kernel(tile.shape),
                                               CU_TENSOR_MAP_DATA_TYPE_FLOAT16, target.device);
  return std::make_unique<Pointwise<__nv_bfloat16>>(
      problem, tile, bfloat16_kernel(tile.shape), CU_TENSOR_MAP_DATA_TYPE_BFLOAT16, target.device);
}

}  // namespace im2win::cuda
