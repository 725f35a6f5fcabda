// im2win_fused: windows formed on chip from the input as it is.

#include <algorithm>
#include <optional>
#include <vector>

#include "checked.hpp"
#include "cuda/algorithms.hpp"
#include "cuda/device.hpp"
#include "cuda/fused/boxed_tensors.hpp"
#include "cuda/fused/forms.hpp"
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

  void launch(const Buffers& buffers, const ExactFilter<Element>& exact, void* stream,
              bool follows_packing) const override {
    Arguments<Element> a = arguments_;
    a.follows_packing = follows_packing;
    a.input = static_cast<const Element*>(buffers.input);
    a.filters = static_cast<const char*>(buffers.filter);
    a.exact = exact;
    a.outputs.bind(buffers);
    if (reinterpret_cast<uintptr_t>(buffers.input) % kUnitBytes != 0) a.refuse_words();
    if (reinterpret_cast<uintptr_t>(buffers.output) % kUnitBytes != 0) a.write_elements();
    if (reinterpret_cast<uintptr_t>(buffers.residual) % kUnitBytes != 0) a.stored = false;
    if (a.boxed && !a.tile.from_lines) boxed_.map_planes(buffers.input, a.inputs);
    if (a.tile.raw.boxed && (a.boxed || !a.tile.from_lines))
      boxed_.map_lines(buffers.input, a.inputs);
    if (reinterpret_cast<uintptr_t>(buffers.filter) % kUnitBytes != 0) a.refuse_filter_boxes();
    if (a.filters_boxed) a.filter = boxed_.map_filter(buffers.filter);
    if (a.stored) a.output = boxed_.map_output(buffers.output);
    if (a.stored && buffers.residual != nullptr) a.residual = boxed_.map_residual(buffers.residual);
    launch_clusters("fused_kernel", kernel_.run, blocks_, a.tile.launched_together(),
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

/// Whether a pixel's channels are whole units, or can be copied: others are put together one by one.
bool has_quick_units(const Problem& problem, Operands operands) {
  return problem.c_per_group() % traits(operands).unit_elements == 0 ||
         copied_bytes(problem, operands) > 0;
}

/// Patches whose rows are units or more, as channels.
std::optional<Problem> patches_of_planes(const Problem& problem, Operands operands) {
  const Problem planes = with_planes_as_rows(problem);
  if (planes.stride_w == problem.stride_w || planes.c < traits(operands).unit_elements) return {};
  return planes;
}

/// A problem, perhaps in another form, and the tile for it.
struct Tiled {
  Problem problem;
  TileChoice choice;
};

template <class Element>
Tiled choose(const Problem& problem, const Kernels<Element>& kernels, const Chip& chip) {
  Tiled best = {problem, {}};
  best.choice.kernel = -1;
  const auto consider = [&](const Problem& form, bool pixel_rows) {
    Tiled tiled = {form, {}};
    if (choose(form, kernels, chip, tiled.choice, pixel_rows) &&
        (best.choice.kernel < 0 || tiled.choice.cost < best.choice.cost))
      best = tiled;
  };
  const auto consider_forms = [&](const Problem& of) {
    const Problem images = with_merged_images(of), rows = with_merged_rows(images),
                  image_rows = with_images_as_rows(of);
    consider(images, false);
    if (rows.q != images.q) consider(rows, false);
    consider(image_rows, true);
    const bool may_read_lines =
        kernels.operands == Operands::kTf32 && chip.bulk_copies && of.input.stride[3] == 1;
    if ((kernels.operands == Operands::kSplit || may_read_lines) && image_rows.q != images.q)
      consider(image_rows, false);
  };
  consider_forms(problem);
  const Problem patches = with_rows_as_columns(with_columns_as_channels(problem));
  const bool differs = patches.c != problem.c || patches.r != problem.r;
  if (differs && has_quick_units(patches, kernels.operands)) consider_forms(patches);
  if (const auto planes = patches_of_planes(problem, kernels.operands)) consider_forms(*planes);
  int64_t groups = problem.groups;
  for (const int64_t filters : {64, 128}) {
    const Problem merged = with_merged_groups(problem, filters);
    if (merged.groups != groups) consider_forms(merged);
    groups = merged.groups;
  }
  return best;
}

}  // namespace
}  // namespace fused

template <fused::Instructions kInstructions>
std::string refuse_fused(const Problem& problem) {
  using namespace fused;
  if (std::string reason = refuse_operands(problem); !reason.empty()) return reason;
  const auto has_tile = [](const auto& kernels, const Problem& form) {
    TileChoice choice;
    return choose(form, kernels, least_chip(kInstructions), choice);
  };
  if (!with_kernels<kInstructions>(problem, [&](const auto& kernels) {
        if (has_tile(kernels, with_merged_images(problem))) return true;
        const auto planes = patches_of_planes(problem, kernels.operands);
        return planes && has_tile(kernels, *planes);
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
