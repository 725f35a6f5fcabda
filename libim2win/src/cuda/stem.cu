// im2win_stem: few channels, whose rows are made operands once for all windows that meet them.

#include <algorithm>
#include <cstdlib>
#include <vector>

#include "cuda/algorithms.hpp"
#include "cuda/device.hpp"
#include "cuda/fused/boxed_tensors.hpp"
#include "cuda/fused/kernels.hpp"
#include "cuda/fused/packed_convolution.cuh"
#include "cuda/fused/refusals.hpp"
#include "cuda/fused/stem/kernels.hpp"
#include "status.hpp"

namespace im2win::cuda {
namespace fused::stem {
namespace {

template <class Element>
bool choose(const Problem& problem, const Kernels<Element>& kernels, const Chip& chip,
            StemChoice& choice) {
  const std::vector<KernelShape> shapes = shapes_of(kernels.kernels);
  return choose_stem(problem, kernels.operands, shapes.data(), static_cast<int>(shapes.size()),
                     chip, choice);
}

/// A kernel for a problem.
template <class Element>
class Launcher {
 public:
  Launcher(const CompiledKernel<Arguments<Element>>& kernel, const Problem& problem,
           Operands operands, const StemChoice& choice, int32_t device)
      : kernel_(kernel),
        arguments_(problem, choice, kernel.shape, operands, multiprocessors(device)),
        boxed_(problem, box_tile(choice.tile.tile, kernel.shape, choice.bands.output_rows),
               kernel.shape.filters, operands) {}

  /// `packed`: the filter, unless the kernel gathers that. `exact`: as it is.
  void launch(const Buffers& buffers, const void* packed, const ExactFilter<Element>& exact,
              void* stream, bool follows_packing) const {
    Arguments<Element> a = arguments_;
    a.follows_packing = follows_packing;
    a.input = static_cast<const Element*>(buffers.input);
    a.filters = static_cast<const char*>(packed);
    a.exact = exact;
    a.outputs.bind(buffers);
    if (reinterpret_cast<uintptr_t>(buffers.input) % (2 * sizeof(Element)) != 0) a.load_elements();
    if (reinterpret_cast<uintptr_t>(buffers.output) % kUnitBytes != 0) a.write_elements();
    if (a.stored) a.output = boxed_.map_output(buffers.output);
    launch_shared("stem_kernel", kernel_.run, a.blocks(), kernel_.shape.threads(),
                  static_cast<size_t>(a.shared.total), stream, Start::kEarly, a);
  }

 private:
  /// What a box has of a tile: a chunk of a row, or whole rows.
  static Tile box_tile(Tile tile, const KernelShape& shape, int rows) {
    tile.rows = rows;
    tile.columns = std::min(tile.columns, shape.columns);
    return tile;
  }

  CompiledKernel<Arguments<Element>> kernel_;
  Arguments<Element> arguments_;
  BoxedTensors boxed_;
};

/// Of filters that a kernel packs.
template <class Element>
class PackedStem final : public PackedConvolution<Element> {
 public:
  PackedStem(const CompiledKernel<Arguments<Element>>& kernel, const Problem& problem,
             Operands operands, const PackKernels<Element>& pack, const StemChoice& choice,
             int32_t device)
      : PackedConvolution<Element>(pack, {problem, choice.tile, kernel.shape, operands},
                                   reinterpret_cast<const void*>(kernel.run), true, device),
        launcher_(kernel, problem, operands, choice, device) {}

 private:
  void launch(const Buffers& buffers, const ExactFilter<Element>& exact, void* stream,
              bool follows_packing) const override {
    launcher_.launch(buffers, buffers.filter, exact, stream, follows_packing);
  }

  Launcher<Element> launcher_;
};

/// Of filters that blocks gather.
template <class Element>
class GatheringStem final : public Convolution {
 public:
  GatheringStem(const CompiledKernel<Arguments<Element>>& kernel, const Problem& problem,
                Operands operands, const StemChoice& choice, int32_t device)
      : launcher_(kernel, problem, operands, choice, device), filter_(problem.filter) {
    const CurrentDevice current(device);
    allow_shared_memory(reinterpret_cast<const void*>(kernel.run), shared_bytes_of_block(device));
  }

  void run(const Buffers& buffers, void* stream) const override {
    launcher_.launch(buffers, nullptr, exact_filter<Element>(buffers.filter, filter_.stride),
                     stream, false);
  }

 private:
  Launcher<Element> launcher_;
  Tensor filter_;
};

/// Calls `use` with the kernels for the problem, and that which packs filters for them.
template <class Use>
auto with_kernels(const Problem& problem, const Use& use) {
  constexpr Instructions kWgmma = Instructions::kWgmma;
  switch (operands_of(problem)) {
    case Operands::kHalf: return use(half_kernels(), fused::half_kernels<kWgmma>().pack);
    case Operands::kBFloat16:
      return use(bfloat16_kernels(), fused::bfloat16_kernels<kWgmma>().pack);
    case Operands::kTf32: return use(tf32_kernels(), fused::tf32_kernels<kWgmma>().pack);
    default: return use(split_kernels(), fused::split_kernels<kWgmma>().pack);
  }
}

/// Offsets in a band's input and in a tile's output fit 32 bits.
bool has_near_elements(const Problem& problem) {
  const auto reach = [](const Tensor& tensor, int64_t channels) {
    return double(std::abs(tensor.stride[1])) * double(channels) +
           double(std::abs(tensor.stride[2])) * 2 * kMaxBandSteps +
           double(std::abs(tensor.stride[3])) * double(tensor.size[3]);
  };
  return reach(problem.input, problem.c_per_group()) < double(kMaxSpan) &&
         reach(problem.output, 0) < double(kMaxSpan) &&
         (!problem.has_residual || reach(problem.residual, 0) < double(kMaxSpan));
}

std::string refuse_windows(const Problem& problem) {
  if (problem.c_per_group() > kMaxChannels)
    return text("takes ", kMaxChannels, " channels or fewer of a group, not ",
                problem.c_per_group());
  if (problem.dilation_h != 1 || problem.dilation_w != 1)
    return text("takes dilation 1, not ", problem.dilation_h, " x ", problem.dilation_w);
  if (kUnitColumns % problem.stride_w != 0)
    return text("takes steps of 1, 2 or 4 columns, not ", problem.stride_w);
  if (problem.stride_h > 1 && problem.stride_h % unit_rows(operands_of(problem)) != 0)
    return text("takes steps of 1 row or of an even number, not ", problem.stride_h);
  return "";
}

constexpr Chip kLeastChip = {1, 227 * 1024, true};

}  // namespace
}  // namespace fused::stem

std::string refuse_stem(const Problem& given) {
  using namespace fused::stem;
  const Problem problem = as_computed(given);
  if (std::string reason = fused::refuse_operands(problem); !reason.empty()) return reason;
  if (std::string reason = refuse_windows(problem); !reason.empty()) return reason;
  StemChoice choice;
  const auto has_tile = [&](const auto& kernels, auto) {
    return choose(problem, kernels, kLeastChip, choice);
  };
  if (!has_near_elements(problem) || !with_kernels(problem, has_tile))
    return text("takes no filters of ", problem.r, " x ", problem.s, " with these steps");
  return "";
}

std::unique_ptr<Convolution> configure_stem(const Problem& given, const Target& target) {
  using namespace fused::stem;
  const Problem problem = as_computed(given);
  const fused::Chip chip = {multiprocessors(target.device), shared_bytes_of_block(target.device),
                            true};
  const auto configure =
      [&]<class Element>(const Kernels<Element>& kernels,
                         const fused::PackKernels<Element>& pack) -> std::unique_ptr<Convolution> {
    StemChoice choice;
    choose(problem, kernels, chip, choice);
    const auto& kernel = kernels.kernels[static_cast<size_t>(choice.tile.kernel)];
    if (choice.gathers)
      return std::make_unique<GatheringStem<Element>>(kernel, problem, kernels.operands, choice,
                                                      target.device);
    return std::make_unique<PackedStem<Element>>(kernel, problem, kernels.operands, pack, choice,
                                                 target.device);
  };
  return with_kernels(problem, configure);
}

}  // namespace im2win::cuda
