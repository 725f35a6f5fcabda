// im2win_fused: windows formed on chip from the input as it is.

#include <algorithm>
#include <iterator>

#include "checked.hpp"
#include "cuda/algorithms.hpp"
#include "cuda/device.hpp"
#include "cuda/error.hpp"
#include "cuda/fused/kernels.hpp"
#include "cuda/fused/raw_lines.hpp"
#include "cuda/output_order.cuh"
#include "status.hpp"

namespace im2win::cuda {
namespace fused {

namespace {

int64_t filter_tiles(const Problem& problem, const KernelShape& shape) {
  return ceil_div(problem.k_per_group(), shape.filters);
}

/// Whether products may meet elements outside a window, padding, or what operands do not carry: a
/// zero times what is not finite is not zero.
bool forms_sums_again(const Problem& problem, const Tile& tile, Operands operands) {
  if (operands == Operands::kSplit || tile.unit_columns > 1 || problem.is_padded()) return true;
  const int64_t units = int64_t{tile.units} * problem.s;
  return (tile.group_rows * units) % 2 != 0 || ((tile.group_rows - 1) * units) % 2 != 0;
}

PackedFilter packed_filter(const Problem& problem, const Tile& tile, const KernelShape& shape,
                           Operands operands) {
  const int64_t step_bytes = int64_t{2} * traits(operands).parts * shape.filters * kUnitBytes;
  const int64_t tiles = problem.groups * filter_tiles(problem, shape);
  PackedFilter packed{};
  packed.tile_bytes = tile.total_steps() * step_bytes;
  packed.scales = round_up(tiles * packed.tile_bytes, kBufferAlignment);
  const int64_t scales =
      operands == Operands::kSplit ? tiles * tile.slabs() * shape.filters : int64_t{0};
  packed.exact =
      round_up(packed.scales + scales * static_cast<int64_t>(sizeof(float)), kBufferAlignment);
  packed.bytes = packed.exact;
  if (forms_sums_again(problem, tile, operands))
    packed.bytes += problem.filter.elements() * element_bytes(problem.dtype);
  return packed;
}

/// Whether 16-byte words of the input are whole units of neighbouring channels.
bool has_channel_vectors(const Problem& problem, const Tile& tile) {
  const int64_t each = kUnitBytes / element_bytes(problem.dtype);
  const Tensor& input = problem.input;
  const auto aligned = [&](int dimension) {
    return input.size[dimension] <= 1 || input.stride[dimension] % each == 0;
  };
  return tile.unit_columns == 1 && (input.stride[1] == 1 || problem.c_per_group() == 1) &&
         problem.c_per_group() % tile.unit_channels == 0 && aligned(0) && aligned(2) && aligned(3);
}

bool has_filter_words(const Problem& problem) {
  const int64_t each = kUnitBytes / element_bytes(problem.dtype);
  const auto aligned = [&](int dimension) {
    return problem.output.size[dimension] <= 1 || problem.output.stride[dimension] % each == 0;
  };
  return problem.output.stride[1] == 1 && problem.k_per_group() % each == 0 && aligned(0) &&
         aligned(2) && aligned(3);
}

}  // namespace

template <class Element>
Arguments<Element>::Arguments(const Problem& problem, const TileChoice& choice,
                              const KernelShape& shape, Operands operands)
    : outputs(problem),
      tile(choice.tile),
      shared(shared_layout(choice.tile, shape, operands)),
      packed(packed_filter(problem, choice.tile, shape, operands)),
      filter_tiles(fused::filter_tiles(problem, shape)),
      column_tiles(fused::column_tiles(problem, tile)),
      row_tiles(fused::row_tiles(problem, tile)),
      image_tiles(std::max<int64_t>(ceil_div(problem.n, tile.images), 1)),
      pitch(tile.pitch),
      plane_positions(tile.plane_positions),
      tile_images(tile.images),
      column_pitch(tile.column_pitch),
      positions(tile.positions),
      n(problem.n),
      channels(problem.c_per_group()),
      filters_per_group(problem.k_per_group()),
      h(static_cast<int32_t>(problem.h)),
      w(static_cast<int32_t>(problem.w)),
      p(static_cast<int32_t>(problem.p)),
      q(static_cast<int32_t>(problem.q)),
      stride_h(static_cast<int32_t>(problem.stride_h)),
      stride_w(static_cast<int32_t>(problem.stride_w)),
      dilation_h(static_cast<int32_t>(problem.dilation_h)),
      dilation_w(static_cast<int32_t>(problem.dilation_w)),
      padding_top(static_cast<int32_t>(problem.padding_top)),
      padding_left(static_cast<int32_t>(problem.padding_left)),
      stride_n(problem.n > 1 ? problem.input.stride[0] : 0),
      stride_c(problem.c > 1 ? problem.input.stride[1] : 0),
      row_stride(static_cast<int32_t>(problem.h > 1 ? problem.input.stride[2] : 0)),
      column_stride(static_cast<int32_t>(problem.w > 1 ? problem.input.stride[3] : 0)),
      r(static_cast<int32_t>(problem.r)),
      s(static_cast<int32_t>(problem.s)),
      column_groups(tile.column_groups),
      phase_rows(problem.stride_h),
      phase_columns(problem.stride_w),
      phase_rows_above(static_cast<int32_t>(ceil_div(problem.padding_top, problem.stride_h))),
      phase_columns_left(static_cast<int32_t>(ceil_div(problem.padding_left, problem.stride_w))),
      boxed(tile.boxed()),
      stored(tile.stored != 0),
      raw_rows(std::max(tile.raw.rows, 1)),
      raw_lines(static_cast<int32_t>(tile.raw_lines())),
      raw_column(static_cast<int32_t>(raw_column_elements(problem))),
      raw_channel(tile.raw.channels > 1 ? tile.images * tile.raw.rows * tile.raw.pitch
                                        : static_cast<int32_t>(stride_c)),
      raw_shift(tile.raw.channels > 1 ? static_cast<int32_t>(stride_c & (kUnitBytes - 1)) : 0),
      reach(reach_right(problem, tile)),
      input_begin(byte_extent(problem.input, element_bytes(problem.dtype)).begin),
      input_end(byte_extent(problem.input, element_bytes(problem.dtype)).end),
      vectors(has_channel_vectors(problem, tile)) {
  copies = vectors && operands != Operands::kSplit && !boxed;
  rechecks = forms_sums_again(problem, tile, operands);
  filters_fastest = OutputOrder(problem).filters_fastest();
  words = has_filter_words(problem);
  tiles = static_cast<int32_t>(problem.groups * filter_tiles.divisor * column_tiles.divisor *
                               row_tiles.divisor * image_tiles.divisor);
}

PackArguments::PackArguments(const Problem& problem, const TileChoice& choice,
                             const KernelShape& shape, Operands operands)
    : tile(choice.tile),
      order(choice.order),
      packed(packed_filter(problem, choice.tile, shape, operands)),
      filter_blocks(fused::filter_tiles(problem, shape) * shape.filters / kPackFilters),
      slabs(tile.slabs()),
      chunks(tile.chunks),
      tile_blocks(shape.filters / kPackFilters),
      column_groups(tile.column_groups),
      slab_columns(tile.column_groups > 1 ? 1 : problem.s),
      rows{Divisor(tile.group_rows), Divisor(std::max(tile.group_rows - 1, 1))},
      blocks(problem.groups * filter_blocks.divisor * slabs.divisor),
      filters_per_group(problem.k_per_group()),
      channels(problem.c_per_group()),
      r(static_cast<int32_t>(problem.r)),
      s(static_cast<int32_t>(problem.s)),
      tile_filters(shape.filters),
      filter_tiles(static_cast<int32_t>(fused::filter_tiles(problem, shape))),
      copies(forms_sums_again(problem, tile, operands)) {
  const int64_t channels_of_slab =
      std::min<int64_t>(channels, int64_t{tile.units} * tile.unit_channels);
  pitch = static_cast<int32_t>(channels_of_slab * tile.group_rows * slab_columns.divisor) | 1;
  std::copy(std::begin(problem.filter.stride), std::end(problem.filter.stride), stride);
}

namespace {

template <class Element>
bool choose(const Problem& problem, const Kernels<Element>& kernels, const Chip& chip,
            TileChoice& choice) {
  KernelShape shapes[16];
  int count = 0;
  for (const CompiledKernel<Element>& kernel : kernels.kernels) shapes[count++] = kernel.shape;
  return choose_tile(problem, kernels.operands, shapes, count, chip, choice);
}

/// The tensors whose boxes a plan's launches copy.
class BoxedTensors {
 public:
  BoxedTensors(const Problem& problem, const Tile& tile, Operands operands)
      : input_(problem.input),
        output_(problem.output),
        stride_h_(problem.stride_h),
        stride_w_(problem.stride_w),
        bytes_(moved_bytes(operands)),
        input_type_(operands == Operands::kTf32 ? CU_TENSOR_MAP_DATA_TYPE_TFLOAT32
                                                : type_of(operands)),
        output_type_(type_of(operands)),
        input_box_{unsigned_of(tile.row_units * tile.unit_channels), unsigned_of(tile.pitch),
                   unsigned_of(tile.images), unsigned_of(tile.box_rows)},
        output_box_{unsigned_of(kBoxRowBytes / bytes_), unsigned_of(tile.columns),
                    unsigned_of(tile.images), unsigned_of(tile.rows)} {}

  /// Each phase is every stride'th row and column, from one on.
  void map_inputs(const void* data, CUtensorMap (&maps)[kMaxPhases]) const {
    CUtensorMap* map = maps;
    for (int64_t row = 0; row < stride_h_; ++row)
      for (int64_t column = 0; column < stride_w_; ++column, ++map) {
        Tensor phase = input_;
        phase.size[2] = ceil_div(input_.size[2] - row, stride_h_);
        phase.size[3] = ceil_div(input_.size[3] - column, stride_w_);
        phase.stride[2] *= stride_h_;
        phase.stride[3] *= stride_w_;
        const int64_t first = row * input_.stride[2] + column * input_.stride[3];
        *map = tensor_map(input_type_, bytes_, static_cast<const char*>(data) + first * bytes_,
                          phase, input_box_);
      }
  }

  CUtensorMap map_output(const void* data) const {
    return tensor_map(output_type_, bytes_, data, output_, output_box_);
  }

 private:
  static CUtensorMapDataType type_of(Operands operands) {
    switch (operands) {
      case Operands::kHalf: return CU_TENSOR_MAP_DATA_TYPE_FLOAT16;
      case Operands::kBFloat16: return CU_TENSOR_MAP_DATA_TYPE_BFLOAT16;
      default: return CU_TENSOR_MAP_DATA_TYPE_FLOAT32;
    }
  }
  static uint32_t unsigned_of(int64_t x) { return static_cast<uint32_t>(x); }

  Tensor input_, output_;
  int64_t stride_h_, stride_w_, bytes_;
  CUtensorMapDataType input_type_, output_type_;
  Box input_box_, output_box_;
};

template <class Element>
class Fused final : public Convolution {
 public:
  Fused(const Problem& problem, const Kernels<Element>& kernels, const TileChoice& choice,
        int32_t device)
      : kernel_(kernels.kernels[static_cast<size_t>(choice.kernel)]),
        pack_(kernels.pack),
        arguments_(problem, choice, kernel_.shape, kernels.operands),
        pack_arguments_(problem, choice, kernel_.shape, kernels.operands),
        boxed_(problem, choice.tile, kernels.operands),
        blocks_(std::min<int64_t>(arguments_.tiles, multiprocessors(device))) {
    const CurrentDevice current(device);
    allow_shared_memory(reinterpret_cast<const void*>(kernel_.run), shared_bytes_of_block(device));
    allow_shared_memory(reinterpret_cast<const void*>(pack_), kMaxPackSharedBytes);
  }

  int64_t packed_filter_bytes() const override { return arguments_.packed.bytes; }

  void pack_filter(const void* filter, void* packed, void* stream) const override {
    launch_shared("fused_pack_kernel", pack_, pack_arguments_.blocks, kPackThreads,
                  static_cast<size_t>(pack_shared_bytes()), stream, pack_arguments_,
                  static_cast<const Element*>(filter), static_cast<char*>(packed));
  }

  void run(const Buffers& buffers, void* stream) const override {
    Arguments<Element> a = arguments_;
    a.input = static_cast<const Element*>(buffers.input);
    a.filters = static_cast<const char*>(buffers.filter);
    a.outputs.bind(buffers);
    if (reinterpret_cast<uintptr_t>(buffers.input) % kUnitBytes != 0)
      a.vectors = a.copies = a.boxed = a.stored = false;
    if (reinterpret_cast<uintptr_t>(buffers.output) % kUnitBytes != 0) a.words = a.stored = false;
    if (a.boxed) boxed_.map_inputs(buffers.input, a.inputs);
    if (a.stored) a.output = boxed_.map_output(buffers.output);
    launch_shared("fused_kernel", kernel_.run, blocks_, kernel_.shape.threads(),
                  static_cast<size_t>(a.shared.total), stream, a);
  }

 private:
  /// The limit is the kernel's, and so of all plans: it is set to what any of them needs.
  static void allow_shared_memory(const void* kernel, int64_t bytes) {
    check(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                               static_cast<int>(bytes)),
          "cudaFuncSetAttribute");
  }

  int pack_shared_bytes() const {
    return static_cast<int>(sizeof(PackShared<Element>)) +
           kPackFilters * pack_arguments_.pitch * static_cast<int>(sizeof(Element));
  }

  CompiledKernel<Element> kernel_;
  PackKernel<Element> pack_;
  Arguments<Element> arguments_;
  PackArguments pack_arguments_;
  BoxedTensors boxed_;
  int64_t blocks_;
};

/// Calls `use` with the kernels for the problem.
template <Instructions kInstructions, class Use>
auto with_kernels(const Problem& problem, const Use& use) {
  switch (problem.dtype) {
    case IM2WIN_FLOAT16: return use(half_kernels<kInstructions>());
    case IM2WIN_BFLOAT16: return use(bfloat16_kernels<kInstructions>());
    default:
      return use(problem.math == IM2WIN_MATH_TF32 ? tf32_kernels<kInstructions>()
                                                  : split_kernels<kInstructions>());
  }
}

/// The least of the devices that have the instructions: more bears on which tile is chosen, not on
/// whether there is one.
constexpr Chip least_chip(Instructions instructions) {
  const bool is_hopper = instructions == Instructions::kWgmma;
  return {1, is_hopper ? 227 * 1024 : 99 * 1024, is_hopper};
}

constexpr int64_t kMaxSize = int64_t{1} << 20;

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

/// A product of split operands is off by 2^-21 at most, where a sum of float32 products may be off by
/// 2^-22 of their magnitudes: it is far below that where many products, off by chance, make up a sum.
constexpr int64_t kLeastSplitProducts = 16;

std::string refuse_sizes(const Problem& problem) {
  for (const int64_t size :
       {problem.h, problem.w, problem.p, problem.q, problem.r, problem.s, problem.c_per_group(),
        problem.k_per_group(), problem.stride_h, problem.stride_w, problem.r * problem.dilation_h,
        problem.s * problem.dilation_w})
    if (size >= kMaxSize) return text("takes sizes and steps below 2^20, not ", size);
  const auto reach = [&](int dimension, int64_t count) {
    return std::abs(problem.input.stride[dimension]) * (count - 1);
  };
  const int64_t image = reach(2, problem.h) + reach(3, problem.w);
  if (image >= kMaxSpan)
    return text("takes images that span fewer than 2^30 elements, not ", image);
  return "";
}

}  // namespace
}  // namespace fused

template <fused::Instructions kInstructions>
std::string refuse_fused(const Problem& problem) {
  using namespace fused;
  if (problem.dtype == IM2WIN_FLOAT64) return "does not take float64";
  if (problem.dtype == IM2WIN_FLOAT32 && problem.math == IM2WIN_MATH_IEEE)
    return "does not take math mode ieee";
  if (problem.dtype == IM2WIN_FLOAT32 && problem.math != IM2WIN_MATH_TF32 &&
      problem.window_elements() < kLeastSplitProducts)
    return text("takes float32 windows of ", kLeastSplitProducts, " elements or more, not ",
                problem.window_elements());
  if (std::string reason = refuse_sizes(problem); !reason.empty()) return reason;
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
std::unique_ptr<Convolution> configure_fused(const Problem& given, const Target& target) {
  using namespace fused;
  const Problem problem = with_merged_images(given);
  const Chip chip = {multiprocessors(target.device), shared_bytes_of_block(target.device),
                     kInstructions == Instructions::kWgmma};
  return with_kernels<kInstructions>(
      problem, [&]<class Element>(const Kernels<Element>& kernels) -> std::unique_ptr<Convolution> {
        TileChoice choice;
        choose(problem, kernels, chip, choice);
        return std::make_unique<Fused<Element>>(problem, kernels, choice, target.device);
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
