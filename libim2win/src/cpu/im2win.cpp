// A task takes some rows of outputs and some tiles of filters. Where windows cannot be read in place,
// it first copies what its rows see to its thread's panel (window_panel.hpp). Then it goes through
// its outputs by chunks of pixels, and for each through its tiles of filters (filter_tiles.hpp), so
// that a tile is read many times while it is in a cache. Few pixels are one chunk, and then a filter
// that is not packed yet serves but once: tasks pack it by parts of a tile that stay in a cache.
//
//   workspace: bias of each filter | a panel per thread
//   packed filter: tiles | offsets of the taps
//   packing as it goes: a part of a tile per thread | offsets of the taps
//
// If not all weights are finite, a padded problem takes its sums over the taps inside the image
// alone: the panels hold zeros for the padding, and 0 * Inf would be a NaN that is not the sum's.
//
// Elements are multiplied as float32, or float64; bfloat16 as it is where there are instructions that add
// two products of it at a time, but for what these would flush to zero (pair_kernels.hpp). Either way of
// multiplying pairs gives the same bits where both are right, so that none depends on what else a task sees.

#include "cpu/im2win.hpp"

#include <algorithm>
#include <atomic>
#include <type_traits>

#include "checked.hpp"
#include "cpu/depthwise.hpp"
#include "cpu/depthwise/plan.hpp"
#include "cpu/filter_tiles.hpp"
#include "cpu/form.hpp"
#include "cpu/im2win/division.hpp"
#include "cpu/im2win/dots.hpp"
#include "cpu/im2win/padded_planes.hpp"
#include "cpu/im2win/planes.hpp"
#include "cpu/im2win/row_parts.hpp"
#include "cpu/pair_kernels.hpp"
#include "cpu/parallel.hpp"
#include "cpu/sum_inside.hpp"
#include "cpu/taps.hpp"
#include "cpu/window_panel.hpp"
#include "cpu/write_sums.hpp"

namespace im2win::cpu {
namespace {

constexpr int64_t kAlignment = 64;
constexpr int64_t kChunkPixels = 144;  // whole register tiles, and whole lines of a cache
constexpr int64_t kMostChunkPixels = std::max(kChunkPixels, kFewPixels);
constexpr int64_t kTileBytes = int64_t{kMaxTileVectors} * kMaxVectorBytes;  // of a pixel's sums

// Factors of a filter, at most, that a chunk goes through at a time: they shall stay in the cache from one
// register tile to the next. Sums of parts err less than one long chain of sums does.
constexpr int64_t kMostPartFactors = 512;

// Of a panel and of the packed filter: below it, all sizes that follow fit 64 bits.
constexpr int64_t kMaxElements = int64_t{1} << 36;
constexpr int64_t kMaxFilterStep = 64;  // filters of a vector, at most

// A panel of one row of outputs that takes more, most of it padding, costs more than it saves.
constexpr int64_t kCheapPanelPixels = 1 << 20;
constexpr int64_t kMostPadding = 8;  // of its size over the image's

/// Whole register tiles that leave no small chunk to the end of a task.
int64_t even_chunk(int64_t pixels) {
  return round_up(ceil_div(pixels, ceil_div(pixels, kChunkPixels)), kTilePixels);
}

template <class Element, class Factor>
class Im2win final : public Convolution {
 public:
  using Compute = typename ComputeOf<Element>::Type;

  Im2win(const Problem& problem, const Target& target)
      : problem_(problem),
        target_(target),
        kernels_(choose_kernels<Element>()),
        pairs_(kArePairs<Factor> ? choose_pair_kernels() : nullptr),
        taps_(window_taps<Factor>(problem)),
        range_(has_unit_stride(problem.output) ? range_of<Compute>(problem) : std::nullopt),
        tiles_(problem),
        division_(divide(problem, tiles_.per_group(), target.threads)),
        panel_(problem, division_.rows),
        writes_in_place_(std::is_same_v<Element, Compute> && range_ &&
                         problem.output.stride[1] == 1),
        streams_(problem.output.elements() * int64_t{sizeof(Element)} > kCachedBytes),
        is_one_chunk_(division_.rows >= problem.n * problem.p &&
                      division_.rows * problem.q <= kFewPixels),
        packs_as_it_goes_(is_one_chunk_ && tiles_.can_pack_taps()),
        chunk_pixels_(is_one_chunk_ ? kFewPixels
                      : streams_    ? kChunkPixels
                                    : even_chunk(division_.rows * problem.q)),
        bias_bytes_(round_up(problem.groups * tiles_.group_filters() * int64_t{sizeof(Compute)},
                             kAlignment)),
        panel_bytes_(round_up(panel_.bytes(), kAlignment)),
        offsets_begin_(round_up(tiles_.bytes(), kAlignment)),
        offsets_bytes_(taps_ * int64_t{sizeof(int64_t)}),
        part_elements_(packs_as_it_goes_ ? part_taps() * kTapFactors<Factor> * tiles_.tile_filters()
                                         : 0) {}

  int64_t workspace_bytes() const override { return bias_bytes_ + panel_bytes_ * target_.threads; }
  int64_t packed_filter_bytes() const override { return offsets_begin_ + offsets_bytes_; }
  void pack_filter(const void* filter, void* packed, void*) const override {
    tiles_.pack(static_cast<const Element*>(filter), static_cast<Factor*>(packed), target_.threads);
    panel_.list_offsets(reinterpret_cast<int64_t*>(static_cast<char*>(packed) + offsets_begin_));
  }
  void run(const Buffers& buffers, void*) const override;

  int64_t packing_bytes() const override {
    return packs_as_it_goes_ ? parts_bytes() + offsets_bytes_ : packed_filter_bytes();
  }
  void pack_and_run(const Buffers& buffers, void* packed, void* stream) const override;

 private:
  /// What a task multiplies by.
  struct Filters {
    const int64_t* offsets;   // of the taps in a window
    const Factor* packed;     // all tiles; null: they are packed, some taps at a time,
    const Element* unpacked;  // from here
    Factor* part;             // to here
  };

  /// Neighbouring outputs of a group, counted over all images, (n, p, q).
  struct Chunk {
    int64_t group;
    int64_t begin, count;
    int64_t first_filter;  // of the task, in the group
    Content content;       // of the windows
    TapRange taps;         // that any of its windows has in the image, and maybe others
    const Factor* windows[kMostChunkPixels];
    Compute* outputs[kMostChunkPixels];  // of the group's first filter, where written in place
  };

  /// Each thread has its own of the filters' parts, which lie one after the other.
  void run_tasks(const Buffers& buffers, const Filters& filters) const;
  void find_chunk(const Buffers& buffers, const RowBlock& block, const Factor* panel,
                  Chunk& chunk) const;
  TapRange seen_taps(const Chunk& chunk) const;
  void sum_tile(const Buffers& buffers, const Chunk& chunk, const Filters& filters,
                const FilterTile& tile) const;
  void sum_taps(const Chunk& chunk, const Filters& filters, const FilterTile& tile,
                WindowTile<Factor>& sum, Compute* const* sums, bool is_in_place) const;
  void sum_part(const Chunk& chunk, const FilterTile& tile, int64_t first_tap,
                const Content& content, WindowTile<Factor>& sum, Compute* const* sums) const;
  const WindowSums<Factor>& choose_sums(bool has_tiny) const {
    if constexpr (kArePairs<Factor>) {
      return has_tiny ? pairs_->sum_any_pixels : pairs_->sum_pixels;
    } else {
      return kernels_.sum_pixels;
    }
  }
  auto choose_store() const {
    if constexpr (kArePairs<Factor>) {
      return pairs_->store;
    } else {
      return kernels_.store;
    }
  }
  int64_t part_taps() const {
    constexpr int64_t kMost = kMostPartFactors / kTapFactors<Factor>;
    return ceil_div(taps_, ceil_div(taps_, kMost));
  }
  int64_t parts_bytes() const {
    return round_up(part_elements_ * target_.threads * int64_t{sizeof(Factor)}, kAlignment);
  }
  const Compute* bias_of(const Buffers& buffers, const FilterTile& tile) const {
    return static_cast<const Compute*>(buffers.workspace) + tile.place;
  }
  void write(const Buffers& buffers, const Chunk& chunk, const FilterTile& tile,
             const Compute* sums) const {
    write_sums<Element>(problem_, buffers, range_ ? choose_store() : nullptr,
                        {chunk.begin, chunk.count, tile.first, tile.count}, sums, tile.width,
                        streams_);
  }

  Problem problem_;
  Target target_;
  const Kernels<Element>& kernels_;
  const PairKernels* pairs_;  // null if taps are none
  int64_t taps_;              // of a window
  std::optional<Range<Compute>> range_;
  FilterTiles<Element, Factor> tiles_;
  Division division_;
  WindowPanel<Element, Factor> panel_;
  bool writes_in_place_;
  bool streams_;       // to the output, past the caches
  bool is_one_chunk_;  // all outputs of a group are
  bool packs_as_it_goes_;
  int64_t chunk_pixels_;  // at most
  int64_t bias_bytes_;
  int64_t panel_bytes_;
  int64_t offsets_begin_;  // in the packed filter
  int64_t offsets_bytes_;
  int64_t part_elements_;
};

template <class Element, class Factor>
void Im2win<Element, Factor>::run(const Buffers& buffers, void*) const {
  const auto* packed = static_cast<const char*>(buffers.filter);
  run_tasks(buffers, {reinterpret_cast<const int64_t*>(packed + offsets_begin_),
                      reinterpret_cast<const Factor*>(packed), nullptr, nullptr});
}

template <class Element, class Factor>
void Im2win<Element, Factor>::pack_and_run(const Buffers& buffers, void* packed,
                                           void* stream) const {
  if (!packs_as_it_goes_) return Convolution::pack_and_run(buffers, packed, stream);
  auto* offsets = reinterpret_cast<int64_t*>(static_cast<char*>(packed) + parts_bytes());
  panel_.list_offsets(offsets);
  run_tasks(buffers, {offsets, nullptr, static_cast<const Element*>(buffers.filter),
                      static_cast<Factor*>(packed)});
}

template <class Element, class Factor>
void Im2win<Element, Factor>::run_tasks(const Buffers& buffers, const Filters& filters) const {
  const Problem& d = problem_;
  const auto* input = static_cast<const Element*>(buffers.input);
  char* panels = static_cast<char*>(buffers.workspace) + bias_bytes_;
  fill_bias<Element>(d, buffers, range_.has_value(), tiles_.group_filters(),
                     static_cast<Compute*>(buffers.workspace));
  parallel_for(division_.tasks(), target_.threads, [&](int64_t task, int32_t thread) {
    auto* panel = reinterpret_cast<Factor*>(panels + thread * panel_bytes_);
    Filters own = filters;
    own.part += thread * part_elements_;
    const Share share = division_.share(task);
    const RowBlock block = {share.group, share.begin, share.end};
    const int64_t end = block.end * d.q;
    Chunk chunk;
    chunk.content = panel_.fill(input, block, panel);
    chunk.group = block.group;
    chunk.first_filter = tiles_.tile(block.group, share.tiles_begin).begin;
    for (chunk.begin = block.begin * d.q; chunk.begin < end; chunk.begin += chunk_pixels_) {
      chunk.count = std::min(chunk_pixels_, end - chunk.begin);
      find_chunk(buffers, block, panel, chunk);
      for (int64_t index = share.tiles_begin; index < share.tiles_end; ++index)
        sum_tile(buffers, chunk, own, tiles_.tile(block.group, index));
    }
    if (streams_) std::atomic_thread_fence(std::memory_order_seq_cst);
  });
}

template <class Element, class Factor>
void Im2win<Element, Factor>::find_chunk(const Buffers& buffers, const RowBlock& block,
                                         const Factor* panel, Chunk& chunk) const {
  const Problem& d = problem_;
  const auto* input = static_cast<const Element*>(buffers.input);
  for (int64_t i = 0; i < chunk.count;) {
    const int64_t row = (chunk.begin + i) / d.q;
    const int64_t q = (chunk.begin + i) % d.q;
    const int64_t count = std::min(d.q - q, chunk.count - i);
    panel_.find_windows(input, block, panel, row, q, count, chunk.windows + i);
    if constexpr (std::is_same_v<Element, Compute>) {
      Compute* first = static_cast<Compute*>(buffers.output) +
                       offset(d.output, row / d.p, chunk.group * d.k_per_group(), row % d.p, q);
      for (int64_t j = 0; writes_in_place_ && j < count; ++j)
        chunk.outputs[i + j] = first + j * d.output.stride[3];
    }
    i += count;
  }
  chunk.taps = seen_taps(chunk);
  // A register tile of one pixel more reads any window.
  if (chunk.count < kMostChunkPixels) chunk.windows[chunk.count] = chunk.windows[0];
}

/// Without rows of taps that all windows have in the padding, where a row's taps follow each other: with dilation that
/// may be most of them.
template <class Element, class Factor>
TapRange Im2win<Element, Factor>::seen_taps(const Chunk& chunk) const {
  const Problem& d = problem_;
  if (!d.is_padded() || !reads_channels_last<Factor>(d)) return {0, taps_};
  TapRange seen = {d.r, 0};
  for (int64_t row = chunk.begin / d.q; row * d.q < chunk.begin + chunk.count; ++row) {
    const int64_t y = row % d.p * d.stride_h - d.padding_top;
    const TapRange inside = taps_inside(d.h, d.r, d.dilation_h, y);
    if (inside.begin >= inside.end) continue;
    seen = {std::min(seen.begin, inside.begin), std::max(seen.end, inside.end)};
  }
  if (seen.begin >= seen.end) return {0, taps_};
  return {taps_ / d.r * seen.begin, taps_ / d.r * seen.end};
}

template <class Element, class Factor>
void Im2win<Element, Factor>::sum_tile(const Buffers& buffers, const Chunk& chunk,
                                       const Filters& filters, const FilterTile& tile) const {
  alignas(kAlignment) Compute rows[kMostChunkPixels * kTileBytes / int64_t{sizeof(Compute)}];
  const bool is_in_place = writes_in_place_ && tile.count == tile.width;
  Compute* sums[kMostChunkPixels];
  for (int64_t i = 0; i < chunk.count; ++i)
    sums[i] = is_in_place ? chunk.outputs[i] + tile.begin : rows + i * tile.width;
  if (chunk.count < kMostChunkPixels) sums[chunk.count] = rows + chunk.count * tile.width;
  WindowTile<Factor> sum = {};
  sum.bias = bias_of(buffers, tile);
  sum.range = range_.value_or(unbounded<Compute>());
  sum_taps(chunk, filters, tile, sum, sums, is_in_place);
  if (!is_in_place) write(buffers, chunk, tile, rows);
}

template <class Element, class Factor>
void Im2win<Element, Factor>::sum_taps(const Chunk& chunk, const Filters& filters,
                                       const FilterTile& tile, WindowTile<Factor>& sum,
                                       Compute* const* sums, bool is_in_place) const {
  const int64_t part = part_taps();
  const TapRange& taps = chunk.taps;
  // Parts begin where they would with all taps, so that sums have the same bits.
  for (int64_t begin = taps.begin / part * part; begin < taps.end; begin += part) {
    const int64_t tap = std::max(begin, taps.begin);
    sum.offsets = filters.offsets + tap;
    sum.taps = std::min(begin + part, taps.end) - tap;
    Content content;
    if (filters.packed != nullptr) {
      sum.filters = filters.packed + tile.offset + tap * kTapFactors<Factor> * tile.width;
      content = tiles_.content(filters.packed);
    } else {
      sum.filters = filters.part;
      content = tiles_.pack_taps(filters.unpacked, tile, tap, sum.taps, filters.part);
    }
    sum.is_first = begin <= taps.begin;
    sum.is_last = begin + part >= taps.end;
    sum.streams = is_in_place && streams_ && sum.is_last;
    sum.are_far = !sum.streams && (is_in_place || !sum.is_first);
    sum_part(chunk, tile, tap, content, sum, sums);
  }
}

/// Adds the products of some taps, whose filters have this content, to all sums of the chunk.
template <class Element, class Factor>
void Im2win<Element, Factor>::sum_part(const Chunk& chunk, const FilterTile& tile,
                                       int64_t first_tap, const Content& content,
                                       WindowTile<Factor>& sum, Compute* const* sums) const {
  const Problem& d = problem_;
  const bool is_inside = d.is_padded() && content.has_special;
  const WindowSums<Factor>& sum_pixels = choose_sums(content.has_tiny || chunk.content.has_tiny);
  const Ahead ahead = panel_.ahead();
  const TapOrder order = {first_tap, reads_channels_last<Factor>(d) ? channel_taps<Factor>(d) : 1};
  // The first filters of a task find its windows in memory, the others in a cache.
  sum.next_step = tile.begin == chunk.first_filter ? ahead.step : 0;
  for (int64_t i = 0; i < chunk.count; i += kTilePixels) {
    const int64_t pixels = std::min<int64_t>(kTilePixels, chunk.count - i);
    sum.windows = chunk.windows + i;
    sum.sums = sums + i;
    sum.next = chunk.windows[i] + ahead.distance;
    if (!is_inside) {
      sum_pixels(tile.vectors, pixels, sum);
      continue;
    }
    for (int64_t j = 0; j < pixels; ++j) {
      const int64_t pixel = chunk.begin + i + j;
      sum_inside(d, pixel / d.q % d.p, pixel % d.q, sum, j, order, tile.width);
    }
  }
}

/// By what its elements are converted to.
template <class Element>
using Converted = Im2win<Element, typename ComputeOf<Element>::Type>;

std::unique_ptr<Convolution> make_windows(const Problem& problem, const Target& target) {
  if (multiplies_pairs(problem))
    return std::make_unique<Im2win<BFloat16, BFloat16>>(problem, target);
  return make_form<Converted>(problem, target);
}

/// In parts of rows where these, and so many tiles of filters, are no work for all threads.
std::unique_ptr<Convolution> in_row_parts(const Problem& problem, int64_t tiles,
                                          const Target& target, Configure configure) {
  if (is_by_row_parts(problem, tiles, target.threads))
    return make_row_parts(problem, target, configure);
  return configure(problem, target);
}

}  // namespace

std::string refuse_im2win(const Problem& problem) {
  const Problem& d = problem;
  if (exceeds(kMaxElements, {seen_columns(d, d.q), d.r, d.c_per_group()}))
    return text("takes windows of at most ", kMaxElements, " elements over a row");
  if (exceeds(kMaxElements,
              {round_up(d.k_per_group(), kMaxFilterStep), d.groups, d.c_per_group(), d.r, d.s}))
    return text("takes filters of at most ", kMaxElements, " elements");
  return "";
}

bool is_im2win_worthwhile(const Problem& problem) {
  const Problem& d = problem;
  const int64_t cheap = std::max(kCheapPanelPixels, kMostPadding * d.h * d.w + kMostPadding - 1);
  return !exceeds(cheap, {seen_columns(d, d.q), d.r});
}

bool multiplies_pairs(const Problem& problem) {
  return problem.dtype == IM2WIN_BFLOAT16 && problem.c_per_group() > 1 &&
         choose_pair_kernels() != nullptr;
}

std::unique_ptr<Convolution> configure_im2win(const Problem& problem, const Target& target) {
  if (takes_groups(problem)) return make_depthwise_channels(problem, target);
  if (is_by_dots(problem)) return make_im2win_dots(problem, target);
  if (is_by_planes(problem)) return make_im2win_planes(problem, target);
  if (is_by_padded_planes(problem, multiplies_pairs(problem)))
    return in_row_parts(problem, 1, target, make_im2win_padded_planes);
  const int64_t filters = choose_kernels<float>().vector_elements * kMaxTileVectors;
  return in_row_parts(problem, ceil_div(problem.k_per_group(), filters), target, make_windows);
}

}  // namespace im2win::cpu
