// What launches of im2win_fused are given: from a problem and a tile.

#include <algorithm>
#include <iterator>
#include <numeric>

#include "checked.hpp"
#include "cuda/fused/arguments.cuh"
#include "cuda/fused/pack_arguments.cuh"
#include "cuda/fused/pixel_words.hpp"
#include "cuda/fused/raw_lines.hpp"

namespace im2win::cuda::fused {
namespace {

/// Whether products may meet elements outside a window, padding, or what operands do not carry: a
/// zero times what is not finite is not zero.
bool forms_sums_again(const Problem& problem, const Tile& tile, Operands operands) {
  if (operands == Operands::kSplit || tile.unit_columns > 1 || problem.is_padded() ||
      has_merged_groups(problem))
    return true;
  if (tile.unit_columns == 0) return 2 * tile.steps[0].count > tile.units;
  const int64_t units = int64_t{tile.units} * problem.s;
  return (tile.group_rows * units) % 2 != 0 || ((tile.group_rows - 1) * units) % 2 != 0;
}

bool is_dense(const Tensor& tensor) { return tensor.is_nchw() || tensor.is_nhwc(); }

PackedFilter packed_filter(const Problem& problem, const Tile& tile, const KernelShape& shape,
                           Operands operands) {
  const int64_t step_bytes = int64_t{2} * traits(operands).parts * shape.filters * kUnitBytes;
  const int64_t tiles = problem.groups * filter_tiles(problem, tile, shape);
  PackedFilter packed{};
  if (tile.filters_in_place) {
    std::copy(std::begin(problem.filter.stride), std::end(problem.filter.stride),
              packed.exact_stride);
    return packed;
  }
  packed.tile_bytes = tile.total_steps() * step_bytes;
  packed.scales = round_up(tiles * packed.tile_bytes, kBufferAlignment);
  const int64_t scales =
      operands == Operands::kSplit ? tiles * tile.slabs() * shape.filters : int64_t{0};
  packed.exact =
      round_up(packed.scales + scales * static_cast<int64_t>(sizeof(float)), kBufferAlignment);
  packed.bytes = packed.exact;
  const Tensor& filter = problem.filter;
  const Tensor kept = is_dense(filter) ? filter
                                       : make_tensor("filter", filter.size, IM2WIN_NCHW,
                                                     filter.stride, element_bytes(problem.dtype));
  std::copy(std::begin(kept.stride), std::end(kept.stride), packed.exact_stride);
  if (forms_sums_again(problem, tile, operands))
    packed.bytes += problem.filter.elements() * element_bytes(problem.dtype);
  return packed;
}

/// Whether images, rows and columns are whole words of 16 bytes apart.
bool has_word_pixels(const Tensor& tensor, int64_t element_bytes) {
  const auto aligned = [&](int dimension) {
    return tensor.size[dimension] <= 1 ||
           tensor.stride[dimension] * element_bytes % kUnitBytes == 0;
  };
  return aligned(0) && aligned(2) && aligned(3);
}

/// Whether units are neighbouring channels in whole words of a tensor at a multiple of 16 bytes.
bool has_unit_words(const Tensor& tensor, int64_t channels, int64_t element_bytes,
                    const Tile& tile) {
  return tile.unit_columns == 1 && (tensor.stride[1] == 1 || channels == 1) &&
         channels % tile.unit_channels == 0 && has_word_pixels(tensor, element_bytes);
}

/// See Arguments::filter_word.
int filter_word(const Problem& problem) {
  const Tensor& output = problem.output;
  if (output.stride[1] != 1 || problem.k == 1) return 0;
  return static_cast<int>(std::gcd(pixel_word(output, problem.k_per_group()),
                                   kUnitBytes / element_bytes(problem.dtype)));
}

/// Whether a tile's units come from the input, channels that are neighbours if these are.
bool copies(const Tile& tile) {
  return tile.unit_columns == 1 && !tile.boxed() && !tile.from_lines && tile.raw.stages == 0;
}

}  // namespace

template <class Element>
Arguments<Element>::Arguments(const Problem& problem, const TileChoice& choice,
                              const KernelShape& shape, Operands operands)
    : outputs(problem),
      tile(choice.tile),
      shared(shared_layout(choice.tile, shape, operands)),
      packed(packed_filter(problem, choice.tile, shape, operands)),
      filter_tiles(fused::filter_tiles(problem, tile, shape)),
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
      own_channels(static_cast<int32_t>(problem.filter.size[1])),
      own_filters(static_cast<int32_t>(problem.k * own_channels / problem.c)),
      filters_total(problem.k),
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
      boxed((tile.boxed() && tile.pixel_word == 0) || tile.from_lines),
      stored(tile.stored != 0),
      filters_boxed(tile.filters_in_place != 0),
      pairs(tile.boxed() && boxed && filters_boxed && tile.resident == 0 &&
            tile.filter_stages == tile.slab_stages &&
            batch_count(tile, traits(operands)) == tile.slabs()),
      raw_rows(std::max(tile.raw.rows, 1)),
      raw_words(std::max(tile.raw.pitch * static_cast<int>(sizeof(Element)) / kUnitBytes, 1)),
      raw_lines(static_cast<int32_t>(tile.raw_lines())),
      raw_column(tile.raw.by_pixels ? tile.raw.box_channels()
                 : tile.raw.boxed   ? 1
                                    : static_cast<int32_t>(raw_column_elements(problem))),
      raw_phase(tile.raw.box_channels() * tile.images * tile.raw.rows * tile.raw.pitch),
      raw_line((tile.raw.boxed ? tile.raw.box_channels() : 1) * tile.raw.pitch),
      raw_channel(tile.raw.boxed          ? tile.raw.pitch
                  : tile.raw.channels > 1 ? tile.images * tile.raw.rows * tile.raw.pitch
                                          : static_cast<int32_t>(stride_c)),
      raw_shift(tile.raw.channels > 1 && !(tile.raw.boxed && tile.raw.apart)
                    ? static_cast<int32_t>(stride_c & (kUnitBytes - 1))
                    : 0),
      unit_bytes((tile.unit_channels >> tile.raw.phase_bits) * tile.raw.pitch *
                 moved_bytes(operands)),
      reach(reach_right(problem, tile)),
      input_begin(byte_extent(problem.input, element_bytes(problem.dtype)).begin),
      input_end(byte_extent(problem.input, element_bytes(problem.dtype)).end),
      vectors(tile.pixel_rows != 0
                  ? tile.pixel_word > 1 && stride_w > 1
                  : has_unit_words(problem.input, channels, element_bytes(problem.dtype), tile)) {
  const bool copies_pixels = tile.pixel_word > 1 && stride_w == 1;
  copied_bytes = copies(tile)    ? fused::copied_bytes(problem, operands)
                 : copies_pixels ? tile.pixel_word * static_cast<int>(sizeof(Element))
                                 : 0;
  rechecks = forms_sums_again(problem, tile, operands);
  row_word = fused::row_word(problem, tile);
  filter_word = fused::filter_word(problem);
  words = filter_word * element_bytes(problem.dtype) == kUnitBytes;
  whole_planes = tile.whole_planes != 0;
  if (filters_boxed) {
    const int batch = traits(operands).batch;
    for (int kind = 0; kind < 2; ++kind)
      for (int i = 0; i < tile.steps[kind].count; i += batch) {
        const FilterUnit& unit = choice.order.unit[kind][i][0];
        filter_taps[kind][i / batch] = {static_cast<int16_t>(unit.row * tile.row_step),
                                        unit.column};
      }
  }
  tiles = static_cast<int32_t>(problem.groups * filter_tiles.divisor * column_tiles.divisor *
                               row_tiles.divisor * image_tiles.divisor);
}

namespace {

/// As many slabs as make blocks that have something to do, of which there are enough.
int32_t slabs_of_pack_block(const Problem& problem, const Tile& tile, const KernelShape& shape) {
  constexpr int kFewBlocks = 512;
  constexpr int64_t kMostElements = 1024;  // of a filter: no more than one slab may have
  static_assert(kMostElements <= kMaxSteps * 2 * 8);
  int64_t elements = int64_t{tile.units} * tile.unit_channels * tile.group_rows * problem.s;
  int64_t blocks = problem.groups * filter_tiles(problem, tile, shape) * shape.filters /
                   kPackFilters * tile.slabs();
  int32_t slabs = 1;
  for (; slabs < kMaxPackSlabs && tile.chunks % (2 * slabs) == 0; slabs *= 2) {
    elements *= 2;
    blocks /= 2;
    if (elements > kMostElements || blocks < kFewBlocks) break;
  }
  return slabs;
}

}  // namespace

PackArguments::PackArguments(const Problem& problem, const TileChoice& choice,
                             const KernelShape& shape, Operands operands)
    : tile(choice.tile),
      order(choice.order),
      packed(packed_filter(problem, choice.tile, shape, operands)),
      block_slabs(slabs_of_pack_block(problem, tile, shape)),
      filter_blocks(fused::filter_tiles(problem, tile, shape) * shape.filters / kPackFilters),
      slabs(tile.slabs() / block_slabs),
      chunks(tile.chunks / block_slabs),
      tile_blocks(shape.filters / kPackFilters),
      column_groups(tile.column_groups),
      slab_columns(tile.column_groups > 1 ? 1 : problem.s),
      rows{Divisor(tile.group_rows), Divisor(std::max(tile.group_rows - 1, 1))},
      slab_units{Divisor(2 * tile.steps[0].count), Divisor(std::max(2 * tile.steps[1].count, 1))},
      block_channels(tile.unit_columns == 0
                         ? problem.c_per_group()
                         : int64_t{block_slabs} * tile.units * tile.unit_channels),
      blocks(problem.groups * filter_blocks.divisor * slabs.divisor),
      filters_per_group(problem.k_per_group()),
      channels(problem.c_per_group()),
      own_channels(static_cast<int32_t>(problem.filter.size[1])),
      own_filters(static_cast<int32_t>(problem.k * own_channels / problem.c)),
      tile_filters(shape.filters),
      filter_tiles(static_cast<int32_t>(fused::filter_tiles(problem, tile, shape))) {
  const bool is_kept = forms_sums_again(problem, tile, operands);
  keeps_elements = is_kept && !is_dense(problem.filter);
  kept_bytes = is_kept && !keeps_elements ? problem.filter.elements() * element_bytes(problem.dtype)
                                          : int64_t{0};
  const int64_t slab = block_channels.divisor * tile.group_rows * slab_columns.divisor;
  const int64_t word = kUnitBytes / element_bytes(problem.dtype);
  pitch = static_cast<int32_t>((ceil_div(slab, word) | 1) * word);
  channels_fastest = problem.filter.stride[1] == 1 && block_channels.divisor > 1;
  words = operands != Operands::kSplit && tile.channel_bits == 0 && !has_merged_groups(problem) &&
          has_unit_words(problem.filter, channels, element_bytes(problem.dtype), tile);
  // All taps of some channels, which are neighbours.
  const int64_t all = problem.c_per_group() * problem.r * problem.s;
  lines = !words && tile.slabs() == tile.chunks && problem.filter.is_nchw() && slab % word == 0 &&
          all % word == 0 && !has_merged_groups(problem);
  // Few mostly start before the kernel before has ended; others rather start at once.
  constexpr int64_t kFewBlocks = 128;
  rehearses = loads_elements() && blocks <= kFewBlocks;
  std::copy(std::begin(problem.filter.stride), std::end(problem.filter.stride), stride);
}

template struct Arguments<__half>;
template struct Arguments<__nv_bfloat16>;
template struct Arguments<float>;

}  // namespace im2win::cuda::fused
