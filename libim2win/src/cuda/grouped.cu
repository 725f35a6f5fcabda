// grouped: convolutions of many groups of few channels, with 16 bits.

#include <cstdint>
#include <memory>
#include <optional>

#include "cuda/algorithms.hpp"
#include "cuda/device.hpp"
#include "cuda/grouped/kernel.cuh"
#include "cuda/implicit_gemm/split_k.hpp"

namespace im2win::cuda {
namespace grouped {
namespace {

bool is_aligned(const void* data) { return reinterpret_cast<uintptr_t>(data) % kWordBytes == 0; }

template <class T>
class Grouped final : public Convolution {
  using Element = typename T::Element;

 public:
  Grouped(const Problem& problem, const Tile& tile, const DeviceLimits& device)
      : problem_(problem),
        arguments_(problem, tile, device),
        start_(ptx_version(kKernel) >= 90 ? Start::kEarly : Start::kInOrder) {
    allow_shared_memory(reinterpret_cast<const void*>(kKernel), device.shared_bytes);
  }

  void run(const Buffers& buffers, void* stream) const override {
    Arguments<Element> a = arguments_;
    a.has_input_words = a.has_input_words && is_aligned(buffers.input);
    a.has_output_words = a.has_output_words && is_aligned(buffers.output);
    a.exact.input = static_cast<const Element*>(buffers.input);
    a.exact.filter = static_cast<const Element*>(buffers.filter);
    a.exact.outputs.bind(buffers);
    a.copy = filter_copy(problem_, buffers.filter);
    launch_shared("grouped_kernel", kKernel, int64_t{a.slabs} * a.boxes_at_once, kThreads,
                  static_cast<size_t>(a.layout.shared_bytes), stream, start_, a);
  }

 private:
  static constexpr auto kKernel = grouped_kernel<T>;

  Problem problem_;
  Arguments<Element> arguments_;
  Start start_;
};

template <class Element>
std::unique_ptr<Convolution> make(const Problem& problem, const Target& target) {
  const DeviceLimits device = {multiprocessors(target.device),
                               shared_bytes_of_block(target.device)};
  const std::optional<Tile> tile = choose_tile(problem, device);
  if (!tile) return implicit_gemm::configure_split_k(problem, target);
  const auto with = [&]<int kEights>() -> std::unique_ptr<Convolution> {
    return std::make_unique<Grouped<Shape<Element, kEights>>>(problem, *tile, device);
  };
  switch (set_of(problem).filters / kWord) {
    case 1: return with.template operator()<1>();
    case 2: return with.template operator()<2>();
    case 3: return with.template operator()<3>();
    default: return with.template operator()<4>();
  }
}

}  // namespace
}  // namespace grouped

std::string refuse_grouped(const Problem& problem) { return grouped::refusal(problem); }

std::unique_ptr<Convolution> configure_grouped(const Problem& problem, const Target& target) {
  const CurrentDevice current(target.device);
  if (problem.dtype == IM2WIN_FLOAT16) return grouped::make<__half>(problem, target);
  return grouped::make<__nv_bfloat16>(problem, target);
}

}  // namespace im2win::cuda
