// Winograd's minimal filtering F(2 x 2, 3 x 3) (Lavin and Gray, "Fast Algorithms for Convolutional
// Neural Networks", 2016): 16 products make 4 outputs of a channel, where the definition takes 36. Larger
// windows, and strides, are taken in pieces of up to 3 x 3 taps (winograd/axis.hpp; Huang et al., "DWM: A
// Decomposable Winograd Method for Convolution Acceleration", 2020): 49 products for the 100 of 5 x 5 taps,
// 25 for 36 of 3 x 3 with a stride of 2. Tiles of the input (winograd/strips.hpp) and the filter
// (winograd/filter.hpp) are transformed to points (winograd/transforms.hpp). At each point the products,
// summed over the channels and the pieces that have it, are those of a 1 x 1 convolution, and im2win's kernel
// makes them. A task takes a block of strips and some tiles of filters through all of it; what it has between
// the steps stays in its thread's caches. Where one task takes all tiles of inputs, a filter that is not
// transformed yet serves but once: it is transformed when it is needed, by parts of a tile of filters that
// stay in a cache.
//
//   workspace: bias of each filter | of each thread: panel, points, products, sums
//   transforming as it goes: a part of a tile of filters per thread
//
// The transforms add inputs, and weights, that the definition multiplies by factors of their own. What
// is rounded in doing so is small beside the sum of magnitudes that the result's error is measured by,
// if the magnitudes of both are even enough for so many products (winograd/evenness.hpp). The outputs of a strip and
// a tile of filters which are not are summed as the definition has it; so are NaN and infinities, and what might
// overflow on the way.
// Either way an output depends on nothing outside its window.

#include "cpu/winograd.hpp"

#include <algorithm>
#include <atomic>

#include "checked.hpp"
#include "cpu/form.hpp"
#include "cpu/im2win/division.hpp"
#include "cpu/parallel.hpp"
#include "cpu/sum_inside.hpp"
#include "cpu/winograd/filter.hpp"
#include "cpu/winograd/strips.hpp"
#include "cpu/write_sums.hpp"

namespace im2win::cpu {
namespace {

constexpr int64_t kAlignment = 64;
constexpr int64_t kMostTaskPixels = 4 * kMostTaskTiles;

// Products that are summed in one chain: some short ones err less than a long one.
constexpr int64_t kMostChain = 128;

/// Tiles of a task, whose points shall stay in a cache beside those of the filters.
int64_t task_tiles(const Problem& problem) {
  if (has_few_tiles(problem)) return kMostTaskTiles;
  constexpr int64_t kPointElements = int64_t{256} * 1024;
  constexpr int64_t kFewest = 24;
  return std::clamp(kPointElements / (winograd_window(problem).entries() * problem.c_per_group()),
                    kFewest, kMostTaskTiles);
}

template <class Element>
class Winograd final : public Convolution {
 public:
  using Compute = typename ComputeOf<Element>::Type;

  Winograd(const Problem& problem, const Target& target);

  int64_t workspace_bytes() const override {
    return bias_bytes_ + scratch_.elements * target_.threads * int64_t{sizeof(Compute)};
  }
  int64_t packed_filter_bytes() const override { return filter_.bytes_with_blocks(); }
  void pack_filter(const void* filter, void* packed, void*) const override {
    filter_.transform(static_cast<const Element*>(filter), true, target_.threads, packed);
  }
  void run(const Buffers& buffers, void*) const override {
    run_tasks(buffers, {buffers.filter, nullptr, nullptr});
  }

  int64_t packing_bytes() const override {
    return transforms_as_it_goes_ ? part_elements_ * target_.threads * int64_t{sizeof(Compute)}
                                  : filter_.bytes();
  }
  void pack_and_run(const Buffers& buffers, void* packed, void*) const override {
    const auto* filter = static_cast<const Element*>(buffers.filter);
    if (transforms_as_it_goes_)
      return run_tasks(buffers, {nullptr, filter, static_cast<Compute*>(packed)});
    filter_.transform(filter, false, target_.threads, packed);
    run_tasks(buffers, {packed, filter, nullptr});
  }

 private:
  /// Where a thread has what it keeps of a task, in elements.
  struct Scratch {
    int64_t points;    // of the inputs; the panel is before them
    int64_t products;  // point, tile of inputs, filter
    int64_t products_stride;
    int64_t sums;     // pixel, filter
    int64_t outside;  // filters of a pixel outside the output
    int64_t elements;
  };

  struct Source {
    const void* packed;     // null: it is transformed, some channels of a tile at a time, to `part`
    const Element* filter;  // null if the packed one has blocks
    Compute* part;
  };

  struct Task {
    Source source;
    StripBlock strips;
    Compute* scratch;
    StripInputs inputs[kMostTaskTiles];  // of each strip
  };

  Scratch lay_out_scratch() const;
  void run_tasks(const Buffers& buffers, const Source& source) const;
  void sum_tile(const Buffers& buffers, const Task& task, const FilterTile& tile) const;
  void find_outputs(const Buffers& buffers, const Task& task, const FilterTile& tile,
                    Compute** outputs) const;
  WeightUnevenness multiply(const Task& task, const FilterTile& tile) const;
  void multiply_part(const Task& task, int64_t point, int64_t channel, const Compute* filters,
                     const FilterTile& tile) const;
  void multiply_chain(const FilterTile& tile, int64_t tiles, const Compute* inputs,
                      int64_t tile_stride, Compute* products, WindowTile<Compute>& sum) const;
  void sum_strips(const Buffers& buffers, const Task& task, const FilterTile& tile, bool is_finite,
                  const bool* are_even, Compute* const* outputs) const;
  void sum_block(const Strip& strip, const FilterTile& tile, const Compute* first, bool is_finite,
                 WindowTile<Compute>& sum, Compute* const* outputs) const;
  void write(const Buffers& buffers, const Task& task, const FilterTile& tile) const;

  bool is_in_place(const FilterTile& tile) const {
    return writes_in_place_ && tile.count == tile.width;
  }
  const Compute* bias_of(const Buffers& buffers, const FilterTile& tile) const {
    return static_cast<const Compute*>(buffers.workspace) + tile.place;
  }
  /// Of a strip's first output, over all images.
  int64_t pixel(const Strip& strip) const {
    return (strip.n * problem_.p + strip.p()) * problem_.q + strip.q();
  }

  Problem problem_;
  Target target_;
  const Kernels<Element>& kernels_;
  WinogradWindow window_;
  void (*transform_output_)(const OutputTiles<Compute>& tiles);
  std::optional<Range<Compute>> range_;
  WinogradStrips<Element> strips_;
  WinogradFilter<Element> filter_;
  Division division_;
  bool transforms_as_it_goes_;
  int64_t part_elements_;  // of the filters, of a thread
  bool writes_in_place_;
  bool streams_;  // to the output, past the caches
  int64_t bias_bytes_;
  Scratch scratch_;
};

template <class Element>
Winograd<Element>::Winograd(const Problem& problem, const Target& target)
    : problem_(problem),
      target_(target),
      kernels_(choose_kernels<Element>()),
      window_(winograd_window(problem)),
      transform_output_(kernels_.transform_output[window_.rows().most_piece_taps() - 1]
                                                 [window_.columns().most_piece_taps() - 1]),
      range_(has_unit_stride(problem.output) ? range_of<Compute>(problem) : std::nullopt),
      strips_(problem, task_tiles(problem)),
      filter_(problem),
      division_(divide_rows(
          {std::max<int64_t>(strips_.count(), 1), strips_.per_block(), has_few_tiles(problem)},
          problem.groups, filter_.tiles().per_group(), target.threads)),
      transforms_as_it_goes_(division_.rows >= strips_.count()),
      part_elements_(transforms_as_it_goes_
                         ? filter_.part_elements(std::min(problem.c_per_group(), kMostPartChannels))
                         : 0),
      writes_in_place_(std::is_same_v<Element, Compute> && range_ && problem.output.stride[1] == 1),
      streams_(problem.output.elements() * int64_t{sizeof(Element)} > kCachedBytes),
      bias_bytes_(round_up(
          problem.groups * filter_.tiles().group_filters() * int64_t{sizeof(Compute)}, kAlignment)),
      scratch_(lay_out_scratch()) {}

template <class Element>
typename Winograd<Element>::Scratch Winograd<Element>::lay_out_scratch() const {
  constexpr int64_t kLine = kAlignment / sizeof(Compute);
  const int64_t tiles = strips_.block_tiles();
  const int64_t width = filter_.tiles().tile_filters();
  Scratch scratch;
  scratch.points = round_up(strips_.panel_elements(), kLine);
  scratch.products = scratch.points + strips_.points_elements();
  // With a tile more, as register tiles may have one more. An odd number of lines, so that points do not
  // compete for the same sets of a cache.
  scratch.products_stride = (ceil_div((tiles + 1) * width, kLine) | 1) * kLine;
  scratch.sums = scratch.products + kWinogradPoints * scratch.products_stride;
  scratch.outside = scratch.sums + 4 * tiles * width;
  scratch.elements = round_up(scratch.outside + width, kLine);
  return scratch;
}

template <class Element>
void Winograd<Element>::run_tasks(const Buffers& buffers, const Source& source) const {
  const FilterTiles<Element>& tiles = filter_.tiles();
  auto* scratch = reinterpret_cast<Compute*>(static_cast<char*>(buffers.workspace) + bias_bytes_);
  fill_bias<Element>(problem_, buffers, range_.has_value(), tiles.group_filters(),
                     static_cast<Compute*>(buffers.workspace));
  parallel_for(division_.tasks(), target_.threads, [&](int64_t index, int32_t thread) {
    const Share share = division_.share(index);
    Task task = {};
    task.source = source;
    task.source.part += thread * part_elements_;
    task.strips = {share.group, share.begin, share.end};
    task.scratch = scratch + thread * scratch_.elements;
    strips_.fill(static_cast<const Element*>(buffers.input), task.strips, task.scratch);
    strips_.transform(task.scratch, task.strips, task.scratch + scratch_.points, task.inputs);
    for (int64_t tile = share.tiles_begin; tile < share.tiles_end; ++tile)
      sum_tile(buffers, task, tiles.tile(task.strips.group, tile));
    if (streams_) std::atomic_thread_fence(std::memory_order_seq_cst);
  });
}

template <class Element>
void Winograd<Element>::sum_tile(const Buffers& buffers, const Task& task,
                                 const FilterTile& tile) const {
  Compute* outputs[kMostTaskPixels];
  find_outputs(buffers, task, tile, outputs);
  const WeightUnevenness weights = multiply(task, tile);
  const int64_t strips = task.strips.end - task.strips.begin;
  bool are_even[kMostTaskTiles];
  for (int64_t i = 0; i < strips; ++i) are_even[i] = task.inputs[i].are_even_with(weights);
  for (int64_t i = 0; i < strips; ++i) {
    const int64_t first = i * strips_.strip_tiles();
    if (are_even[i])
      transform_output_({task.scratch + scratch_.products + first * tile.width,
                         scratch_.products_stride, strips_[task.strips.begin + i].tiles, tile.width,
                         bias_of(buffers, tile), range_.value_or(unbounded<Compute>()),
                         outputs + 4 * first, is_in_place(tile) && streams_});
  }
  if (std::count(are_even, are_even + strips, false) > 0)
    sum_strips(buffers, task, tile, weights.is_finite(), are_even, outputs);
  if (!is_in_place(tile)) write(buffers, task, tile);
}

/// Four of each tile of inputs, by rows; what lies outside the output goes to a pixel of the scratch.
template <class Element>
void Winograd<Element>::find_outputs(const Buffers& buffers, const Task& task,
                                     const FilterTile& tile, Compute** outputs) const {
  const Problem& d = problem_;
  auto* output = static_cast<Compute*>(buffers.output);
  const int64_t first_pixel = pixel(strips_[task.strips.begin]);
  for (int64_t index = task.strips.begin; index < task.strips.end; ++index) {
    const Strip strip = strips_[index];
    const int64_t row_pixels = strips_.are_whole_rows() ? d.q : 2 * strip.tiles;
    for (int64_t i = 0; i < 4 * strip.tiles; ++i) {
      const int64_t p = i / 2 % 2;
      const int64_t q = i / 4 * 2 + i % 2;
      if (strip.p() + p >= d.p || strip.q() + q >= d.q) {
        *outputs++ = task.scratch + scratch_.outside;
      } else if (is_in_place(tile)) {
        *outputs++ = output + offset(d.output, strip.n, tile.first, strip.p() + p, strip.q() + q);
      } else {
        const int64_t row = pixel(strip) - first_pixel + p * row_pixels + q;
        *outputs++ = task.scratch + scratch_.sums + row * tile.width;
      }
    }
  }
}

/// The products of all points, summed over the channels, unless no strip may use them. Returns how uneven the
/// weights are, which is not known beforehand of those that are transformed on the way.
template <class Element>
WeightUnevenness Winograd<Element>::multiply(const Task& task, const FilterTile& tile) const {
  const auto& [packed, filter, part] = task.source;
  WeightUnevenness weights;
  if (packed != nullptr) {
    weights = filter_.unevenness(packed, tile);
    const StripInputs* end = task.inputs + (task.strips.end - task.strips.begin);
    if (std::none_of(task.inputs, end,
                     [&](const StripInputs& strip) { return strip.are_even_with(weights); }))
      return weights;
  }
  const int64_t c = problem_.c_per_group();
  typename WinogradFilter<Element>::Spreads spreads;
  for (int64_t channel = 0; channel < c; channel += kMostPartChannels) {
    const Compute* filters = part;
    if (packed != nullptr) {
      filters = filter_.part(packed, tile, channel);
    } else {
      filter_.transform_part(filter, tile, channel, std::min(kMostPartChannels, c - channel), part,
                             nullptr, spreads);
    }
    for (int64_t point = 0; point < kWinogradPoints; ++point)
      multiply_part(task, point, channel, filters, tile);
  }
  if (packed == nullptr) weights = filter_.unevenness(tile, spreads);
  return weights;
}

/// The products of a point with a part of the filters: those of all its entries.
template <class Element>
void Winograd<Element>::multiply_part(const Task& task, int64_t point, int64_t channel,
                                      const Compute* filters, const FilterTile& tile) const {
  static constexpr Compute kNoBias[WinogradFilter<Element>::Block::kMostFilters] = {};
  const int64_t c = problem_.c_per_group();
  const int64_t channels = std::min(kMostPartChannels, c - channel);
  const int64_t products = window_.depth(point) * channels;
  const int64_t strips = task.strips.end - task.strips.begin;
  const int64_t tiles = (strips - 1) * strips_.strip_tiles() + strips_[task.strips.end - 1].tiles;
  int64_t offsets[kMostChain];
  WindowTile<Compute> sum = {};
  sum.offsets = offsets;
  sum.bias = kNoBias;
  sum.range = unbounded<Compute>();
  for (int64_t begin = 0; begin < products; begin += kMostChain) {
    sum.taps = std::min(kMostChain, products - begin);
    strips_.list_offsets(begin, sum.taps, channels, offsets);
    sum.is_first = channel + begin == 0;
    sum.is_last = channel + channels == c && begin + sum.taps == products;
    sum.are_far = !sum.is_first;
    sum.filters = filters + filter_.point_offset(point, tile.width, channels) + begin * tile.width;
    multiply_chain(tile, tiles,
                   task.scratch + scratch_.points + strips_.point_offset(point) + channel,
                   strips_.tile_stride(point),
                   task.scratch + scratch_.products + point * scratch_.products_stride, sum);
  }
}

template <class Element>
void Winograd<Element>::multiply_chain(const FilterTile& tile, int64_t tiles, const Compute* inputs,
                                       int64_t tile_stride, Compute* products,
                                       WindowTile<Compute>& sum) const {
  const Compute* windows[kTilePixels];
  Compute* sums[kTilePixels];
  for (int64_t i = 0; i < tiles; i += kTilePixels) {
    const int64_t pixels = std::min<int64_t>(kTilePixels, tiles - i);
    for (int64_t j = 0; j < kTilePixels; ++j) {
      // A register tile may have one more.
      windows[j] = inputs + (i + std::min(j, pixels - 1)) * tile_stride;
      sums[j] = products + (i + j) * tile.width;
    }
    sum.windows = windows;
    sum.sums = sums;
    sum.next = windows[0];
    kernels_.sum_pixels(tile.vectors, pixels, sum);
  }
}

/// Those that are not even, as the definition has them, by blocks of channels.
template <class Element>
void Winograd<Element>::sum_strips(const Buffers& buffers, const Task& task, const FilterTile& tile,
                                   bool is_finite, const bool* are_even,
                                   Compute* const* outputs) const {
  const int64_t c = problem_.c_per_group();
  typename WinogradFilter<Element>::Block room;
  int64_t offsets[kBlockTaps];
  WindowTile<Compute> sum = {};
  sum.offsets = offsets;
  sum.bias = bias_of(buffers, tile);
  sum.range = range_.value_or(unbounded<Compute>());
  for (int64_t begin = 0; begin < c; begin += filter_.block_channels()) {
    const int64_t channels = std::min(filter_.block_channels(), c - begin);
    filter_.list_offsets(channels, strips_.row_stride(), strips_.column_stride(), offsets);
    sum.taps = window_.taps() * channels;
    sum.filters = filter_.block(task.source.packed, task.source.filter, tile, begin, room);
    sum.is_first = begin == 0;
    sum.is_last = begin + channels == c;
    sum.are_far = !sum.is_first;
    for (int64_t i = task.strips.begin; i < task.strips.end; ++i) {
      const int64_t strip = i - task.strips.begin;
      if (!are_even[strip])
        sum_block(strips_[i], tile, task.scratch + strips_.panel_offset(task.strips, i) + begin,
                  is_finite, sum, outputs + 4 * strip * strips_.strip_tiles());
    }
  }
}

/// Adds the products of a block's weights to the sums of all outputs of a strip. Infinite weights, and
/// NaN, must not meet the zeros that stand for the padding.
template <class Element>
void Winograd<Element>::sum_block(const Strip& strip, const FilterTile& tile, const Compute* first,
                                  bool is_finite, WindowTile<Compute>& sum,
                                  Compute* const* outputs) const {
  const TapOrder order = filter_.order(sum.taps / window_.taps());
  for (int64_t i = 0; i < strip.tiles; ++i) {
    const Compute* windows[4];
    for (int64_t j = 0; j < 4; ++j)
      windows[j] = first + j / 2 * problem_.stride_h * strips_.row_stride() +
                   (2 * i + j % 2) * problem_.stride_w * strips_.column_stride();
    sum.windows = windows;
    sum.sums = outputs + 4 * i;
    sum.next = windows[0];
    if (is_finite || !problem_.is_padded()) {
      kernels_.sum_pixels(tile.vectors, 4, sum);
      continue;
    }
    for (int64_t j = 0; j < 4; ++j)
      sum_inside(problem_, strip.p() + j / 2, strip.q() + 2 * i + j % 2, sum, j, order, tile.width);
  }
}

/// Those sums of a task that the kernels did not write in place.
template <class Element>
void Winograd<Element>::write(const Buffers& buffers, const Task& task,
                              const FilterTile& tile) const {
  const Problem& d = problem_;
  const Compute* sums = task.scratch + scratch_.sums;
  const auto write_pixels = [&](int64_t first, int64_t count, const Compute* from) {
    write_sums<Element>(d, buffers, range_ ? kernels_.store : nullptr,
                        {first, count, tile.first, tile.count}, from, tile.width, streams_);
  };
  const Strip first = strips_[task.strips.begin];
  const Strip last = strips_[task.strips.end - 1];
  const int64_t end_row = std::min(last.p() + 2, d.p);
  if (strips_.are_whole_rows()) {
    const int64_t end = (last.n * d.p + end_row) * d.q;
    return write_pixels(pixel(first), end - pixel(first), sums);
  }
  for (int64_t p = first.p(); p < end_row; ++p)
    write_pixels((first.n * d.p + p) * d.q + first.q(), std::min(2 * first.tiles, d.q - first.q()),
                 sums + (p - first.p()) * 2 * first.tiles * tile.width);
}

}  // namespace

std::unique_ptr<Convolution> configure_winograd(const Problem& problem, const Target& target) {
  return make_form<Winograd>(problem, target);
}

}  // namespace im2win::cpu
