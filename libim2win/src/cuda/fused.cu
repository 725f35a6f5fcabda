// im2win_fused: windows formed on chip from the input as it is.

#include <algorithm>
#include <vector>

#include "checked.hpp"
#include "cuda/algorithms.hpp"
#include "cuda/device.hpp"
#include "cuda/fused/boxed_tensors.hpp"
#include "cuda/fused/kernels.hpp"
#include "cuda/fused/packed_convolution.cuh"
#include "cuda/fused/refusals.hpp"
#include "status.hpp"

namespace im2win::cuda {
namespace fused {
namespace {

template <class Element>
bool choose(const Problem& problem, const Kernels<Element>& kernels, const Chip& chip,
            TileChoice& choice, bool pixel_rows = false) {
  const std::vector<KernelShape> shapes = shapes_of(kernels.kernels);
  return choose_tile(problem, kernels.operands, shapes.data(), static_cast<int>(shapes.size()),
                     chip, choice, pixel_rows);
}

template <class Element>
class Fused final : public PackedConvolution<Element> {
 public:
  Fused(const Problem& problem, const Kernels<Element>& kernels, const TileChoice& choice,
        int32_t device, Instructions instructions)
      : Fused(kernels.kernels[static_cast<size_t>(choice.kernel)], problem, kernels, choice, device,
              instructions) {}

 private:
  Fused(const CompiledKernel<Arguments<Element>>& kernel, const Problem& problem,
        const Kernels<Element>& kernels, const TileChoice& choice, int32_t device,
        Instructions instructions)
      : PackedConvolution<Element>(kernels.pack, {problem, choice, kernel.shape, kernels.operands},
                                   reinterpret_cast<const void*>(kernel.run),
                                   instructions == Instructions::kWgmma, device),
        kernel_(kernel),
        arguments_(problem, choice, kernel.shape, kernels.operands),
        boxed_(problem, choice.tile, kernel.shape.filters, kernels.operands),
        // Those of clusters have one tile.
        blocks_(choice.tile.cluster_bits > 0
                    ? int64_t{arguments_.tiles} << choice.tile.cluster_bits
                    : std::min<int64_t>(arguments_.tiles, multiprocessors(device))) {}

  void launch(const Buffers& buffers, void* stream, bool follows_packing) const override {
    Arguments<Element> a = arguments_;
    a.follows_packing = follows_packing;
    a.input = static_cast<const Element*>(buffers.input);
    a.filters = static_cast<const char*>(buffers.filter);
    a.outputs.bind(buffers);
    if (reinterpret_cast<uintptr_t>(buffers.input) % kUnitBytes != 0) a.refuse_words();
    if (reinterpret_cast<uintptr_t>(buffers.output) % kUnitBytes != 0) a.write_elements();
    if (reinterpret_cast<uintptr_t>(buffers.residual) % kUnitBytes != 0) a.stored = false;
    if (a.boxed) boxed_.map_planes(buffers.input, a.inputs);
    if (a.tile.raw.boxed) boxed_.map_lines(buffers.input, a.inputs);
    if (reinterpret_cast<uintptr_t>(buffers.filter) % kUnitBytes != 0) a.filters_boxed = false;
    if (a.filters_boxed) a.filter = boxed_.map_filter(buffers.filter);
    if (a.stored) a.output = boxed_.map_output(buffers.output);
    if (a.stored && buffers.residual != nullptr) a.residual = boxed_.map_residual(buffers.residual);
    launch_clusters("fused_kernel", kernel_.run, blocks_, a.tile.cluster_blocks(),
                    kernel_.shape.threads(), static_cast<size_t>(a.shared.total), stream,
                    this->start(), a);
  }

  CompiledKernel<Arguments<Element>> kernel_;
  Arguments<Element> arguments_;
  BoxedTensors boxed_;
  int64_t blocks_;
};

/// Calls `use` with the kernels for the problem.
template <Instructions kInstructions, class Use>
auto with_kernels(const Problem& problem, const Use& use) {
  switch (operands_of(problem)) {
    case Operands::kHalf: return use(half_kernels<kInstructions>());
    case Operands::kBFloat16: return use(bfloat16_kernels<kInstructions>());
    case Operands::kTf32: return use(tf32_kernels<kInstructions>());
    default: return use(split_kernels<kInstructions>());
  }
}

/// The least of the devices that have the instructions: more bears on which tile is chosen, not on
/// whether there is one.
constexpr Chip least_chip(Instructions instructions) {
  const bool is_hopper = instructions == Instructions::kWgmma;
  return {1, is_hopper ? 227 * 1024 : 99 * 1024, is_hopper};
}

template <Instructions kInstructions, class Element>
Chip chip_of(int32_t device, const Kernels<Element>& kernels) {
  Chip chip = {multiprocessors(device), shared_bytes_of_block(device),
               kInstructions == Instructions::kWgmma};
  if constexpr (kInstructions != Instructions::kWgmma) return chip;
  const CurrentDevice current(device);
  const auto& any = kernels.kernels.front();
  const auto* kernel = reinterpret_cast<const void*>(any.run);
  allow_shared_memory(kernel, chip.shared_bytes);
  for (int bits = 1; bits <= kMaxClusterBits; ++bits)
    chip.clusters[bits] =
        clusters_at_once(kernel, 1 << bits, any.shape.threads(), chip.shared_bytes);
  return chip;
}

/// Images one below the other, where rows follow each other from image to image and no window meets two:
/// tiles then have any rows of them.
Problem with_merged_images(Problem problem) {
  const auto follow = [](const Tensor& tensor) {
    return tensor.size[2] == 1 || tensor.stride[0] == tensor.size[2] * tensor.stride[2];
  };
  const bool padded = (problem.padding_top | problem.padding_bottom) != 0;
  const int64_t h = problem.n * problem.h;
  if (problem.n <= 1 || problem.r > 1 || padded || problem.h != problem.p * problem.stride_h ||
      h >= kMaxSize || !follow(problem.input) || !follow(problem.output) ||
      (problem.has_residual && !follow(problem.residual)) ||
      std::abs(problem.input.stride[0]) * problem.n >= kMaxSpan)
    return problem;
  for (Tensor* tensor : {&problem.input, &problem.output, &problem.residual}) {
    if (tensor->size[2] == 1) tensor->stride[2] = tensor->stride[0];
    tensor->size[2] *= tensor->size[0];
    tensor->size[0] = 1;
  }
  problem.p *= problem.n;
  problem.h = h;
  problem.n = 1;
  return problem;
}

/// All pixels of merged images as two rows, if they can be, where windows are single pixels and rows follow each
/// other, too: tiles then have any pixels, as many as they can, and a row for each warpgroup.
Problem with_merged_rows(Problem problem) {
  const auto follow = [](const Tensor& tensor) {
    return tensor.size[2] == 1 || tensor.stride[2] == tensor.size[3] * tensor.stride[3];
  };
  const int64_t pixels = problem.h * problem.w;
  if (problem.n > 1 || problem.r > 1 || problem.s > 1 || problem.is_padded() ||
      problem.stride_h > 1 || problem.stride_w > 1 || pixels >= kMaxTiles ||
      !follow(problem.input) || !follow(problem.output) ||
      (problem.has_residual && !follow(problem.residual)))
    return problem;
  const int64_t rows = pixels % 2 == 0 ? 2 : 1;
  for (Tensor* tensor : {&problem.input, &problem.output, &problem.residual}) {
    if (tensor->size[3] == 1) tensor->stride[3] = tensor->stride[2];
    tensor->size[2] = rows;
    tensor->size[3] = pixels / rows;
    tensor->stride[2] = tensor->size[3] * tensor->stride[3];
  }
  problem.h = problem.p = rows;
  problem.w = problem.q = pixels / rows;
  return problem;
}

/// Images as rows of one image, whose rows follow each other, where windows are single pixels.
Problem with_images_as_rows(Problem problem) {
  const auto follow = [](const Tensor& tensor) {
    return tensor.size[2] == 1 || tensor.size[3] == 1 ||
           tensor.stride[2] == tensor.size[3] * tensor.stride[3];
  };
  const int64_t w = problem.h * problem.w;
  if (problem.r > 1 || problem.s > 1 || problem.is_padded() || problem.stride_h > 1 ||
      problem.stride_w > 1 || w >= kMaxTiles || std::abs(problem.input.stride[0]) >= kMaxSpan ||
      !follow(problem.input) || !follow(problem.output) ||
      (problem.has_residual && !follow(problem.residual)))
    return problem;
  for (Tensor* tensor : {&problem.input, &problem.output, &problem.residual}) {
    if (tensor->size[3] == 1) tensor->stride[3] = tensor->stride[2];
    tensor->size[3] = w;
    tensor->size[2] = problem.n;
    tensor->stride[2] = tensor->stride[0];
    tensor->size[0] = 1;
  }
  problem.w = problem.q = w;
  problem.h = problem.p = problem.n;
  problem.n = 1;
  return problem;
}

/// Groups side by side as one, of at most so many filters, whose filters are zero outside their own channels
/// (see has_merged_groups): products have tiles of filters, most of which would be none of a small group's.
Problem with_merged_groups(Problem problem, int64_t filters) {
  int64_t merged = std::min(std::max<int64_t>(filters / problem.k_per_group(), 1), problem.groups);
  while (problem.groups % merged != 0) --merged;
  problem.groups /= merged;
  return problem;
}

/// A problem, perhaps in another form, and the tile for it.
struct Tiled {
  Problem problem;
  TileChoice choice;
};

template <class Element>
Tiled choose(const Problem& problem, const Kernels<Element>& kernels, const Chip& chip) {
  Tiled best = {with_merged_images(problem), {}};
  choose(best.problem, kernels, chip, best.choice);
  const auto consider = [&](const Problem& form, bool pixel_rows) {
    Tiled tiled = {form, {}};
    if (choose(form, kernels, chip, tiled.choice, pixel_rows) &&
        tiled.choice.cost < best.choice.cost)
      best = tiled;
  };
  consider(with_merged_rows(best.problem), false);
  consider(with_images_as_rows(problem), true);
  int64_t groups = problem.groups;
  for (const int64_t filters : {64, 128}) {
    const Problem merged = with_merged_groups(problem, filters);
    if (merged.groups == groups) continue;
    groups = merged.groups;
    consider(with_merged_images(merged), false);
    consider(with_merged_rows(with_merged_images(merged)), false);
    consider(with_images_as_rows(merged), true);
  }
  return best;
}

}  // namespace
}  // namespace fused

template <fused::Instructions kInstructions>
std::string refuse_fused(const Problem& problem) {
  using namespace fused;
  if (std::string reason = refuse_operands(problem); !reason.empty()) return reason;
  TileChoice choice;
  const Problem merged = with_merged_images(problem);
  if (!with_kernels<kInstructions>(merged, [&](const auto& kernels) {
        return choose(merged, kernels, least_chip(kInstructions), choice);
      }))
    return text("takes no filters of ", problem.r, " x ", problem.s, " with these steps");
  return "";
}

template <fused::Instructions kInstructions>
std::string fused_refuses_device(int32_t device) {
  const int capability = compute_capability(device);
  if constexpr (kInstructions == fused::Instructions::kWgmma) {
    if (capability != 90) return text("needs compute capability 9.0, not ", capability / 10.0);
  } else {
    if (capability < 80) return text("needs compute capability 8.0, not ", capability / 10.0);
  }
  return "";
}

template <fused::Instructions kInstructions>
std::unique_ptr<Convolution> configure_fused(const Problem& problem, const Target& target) {
  using namespace fused;
  return with_kernels<kInstructions>(
      problem, [&]<class Element>(const Kernels<Element>& kernels) -> std::unique_ptr<Convolution> {
        const Tiled tiled =
            choose(problem, kernels, chip_of<kInstructions>(target.device, kernels));
        return std::make_unique<Fused<Element>>(tiled.problem, kernels, tiled.choice, target.device,
                                                kInstructions);
      });
}

template std::string refuse_fused<fused::Instructions::kWgmma>(const Problem&);
template std::string refuse_fused<fused::Instructions::kMma>(const Problem&);
template std::string fused_refuses_device<fused::Instructions::kWgmma>(int32_t);
template std::string fused_refuses_device<fused::Instructions::kMma>(int32_t);
template std::unique_ptr<Convolution> configure_fused<fused::Instructions::kWgmma>(const Problem&,
                                                                                   const Target&);
template std::unique_ptr<Convolution> configure_fused<fused::Instructions::kMma>(const Problem&,
                                                                                 const Target&);

}  // namespace im2win::cuda
