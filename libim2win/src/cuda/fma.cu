// im2win_fma: windows from the untransformed input, by FMAs, with nothing but the tensors in memory. Few filters,
// and windows of few elements, leave most of a tensor core's tile empty.

#include <cstdint>
#include <optional>

#include "cuda/algorithms.hpp"
#include "cuda/device.hpp"
#include "cuda/fma_strips/kernel.cuh"
#include "cuda/fma_windows.hpp"
#include "cuda/fma_windows/choice.hpp"
#include "cuda/fma_windows/tile.hpp"

namespace im2win::cuda {
namespace fma_strips {
namespace {

template <class Element>
using Kernel = void (*)(const Arguments<Element>);

template <class Element, int kVector>
Kernel<Element> kernel_of(int filters) {
  switch (filters) {
    case 1: return im2win_fma_kernel<Element, kVector, 1>;
    case 2: return im2win_fma_kernel<Element, kVector, 2>;
    case 3: return im2win_fma_kernel<Element, kVector, 3>;
    case 4: return im2win_fma_kernel<Element, kVector, 4>;
    default: return im2win_fma_kernel<Element, kVector, kMostFilters>;
  }
}

/// A tile and its kernel.
template <class Element>
class Launch {
 public:
  /// Of channels that are read so many at a time, if there is a tile for that.
  template <int kVector>
  static std::optional<Launch> of(const Problem& problem, int multiprocessors) {
    const auto tile = choose_tile(problem, kVector, multiprocessors);
    if (!tile) return std::nullopt;
    return Launch(problem, *tile, kernel_of<Element, kVector>(tile->filters));
  }

  void run(const Buffers& buffers, void* stream) const {
    Arguments<Element> a = arguments_;
    a.exact.input = static_cast<const Element*>(buffers.input);
    a.exact.filter = static_cast<const Element*>(buffers.filter);
    a.exact.outputs.bind(buffers);
    a.stores_words = has_words_ && reinterpret_cast<uintptr_t>(buffers.output) % kWordBytes == 0;
    launch_shared("im2win_fma_kernel", kernel_, a.blocks, kThreads,
                  static_cast<size_t>(shared_bytes_), stream, start_, a);
  }

 private:
  Launch(const Problem& problem, const Tile& tile, Kernel<Element> kernel)
      : arguments_(problem, tile),
        kernel_(kernel),
        shared_bytes_(tile.shared_bytes(problem)),
        has_words_(are_words(problem)),
        start_(ptx_version(kernel) >= 90 ? Start::kEarly : Start::kInOrder) {
    allow_shared_memory(reinterpret_cast<const void*>(kernel), kMostSharedBytes);
  }

  static constexpr int kWordBytes = 16;

  /// Whether a pixel's outputs of a thread are whole words.
  static bool are_words(const Problem& problem) {
    const int64_t(&stride)[4] = problem.output.stride;
    const int64_t word = kWordBytes / int64_t{sizeof(Element)};
    return stride[1] == 1 &&
           problem.k_per_group() % filters_of_thread(problem.k_per_group()) == 0 &&
           problem.k_per_group() % 4 == 0 && stride[0] % word == 0 && stride[2] % word == 0 &&
           stride[3] % word == 0;
  }

  Arguments<Element> arguments_;
  Kernel<Element> kernel_;
  int64_t shared_bytes_;
  bool has_words_;
  Start start_;
};

template <class Element>
class Fma final : public Convolution {
 public:
  Fma(const Problem& problem, int multiprocessors)
      : planes_(*Launch<Element>::template of<1>(problem, multiprocessors)) {
    if (vector_of(problem) > 1)
      vectors_ = Launch<Element>::template of<kVector>(problem, multiprocessors);
  }

  void run(const Buffers& buffers, void* stream) const override {
    const bool is_aligned = reinterpret_cast<uintptr_t>(buffers.input) % kVectorBytes == 0;
    (vectors_ && is_aligned ? *vectors_ : planes_).run(buffers, stream);
  }

 private:
  static constexpr int kVectorBytes = 16, kVector = kVectorBytes / sizeof(Element);

  Launch<Element> planes_;
  std::optional<Launch<Element>> vectors_;
};

}  // namespace
}  // namespace fma_strips

std::string refuse_fma(const Problem& problem) {
  if (problem.dtype == IM2WIN_FLOAT64) return "does not take float64";
  return fma_windows::refusal(problem).empty() ? "" : fma_strips::refusal(problem);
}

std::unique_ptr<Convolution> configure_fma(const Problem& given, const Target& target) {
  using namespace fma_strips;
  const CurrentDevice current(target.device);
  if (fma_windows::is_faster_than_strips(given)) return configure_fma_windows(given, target);
  const Problem problem = as_single_rows(given);
  const int count = multiprocessors(target.device);
  switch (problem.dtype) {
    case IM2WIN_FLOAT16: return std::make_unique<Fma<__half>>(problem, count);
    case IM2WIN_BFLOAT16: return std::make_unique<Fma<__nv_bfloat16>>(problem, count);
    default: return std::make_unique<Fma<float>>(problem, count);
  }
}

}  // namespace im2win::cuda
