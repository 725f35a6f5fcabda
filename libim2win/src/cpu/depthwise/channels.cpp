#include "cpu/depthwise/channels.hpp"

#include <algorithm>
#include <atomic>
#include <type_traits>

#include "cpu/parallel.hpp"
#include "cpu/taps.hpp"
#include "cpu/write_sums.hpp"

namespace im2win::cpu {
namespace {

constexpr int64_t kAlignment = 64;
constexpr int64_t kPanelElements = int64_t{32} * 1024;      // of input rows, if a window fits
constexpr int64_t kCachedFilterBytes = int64_t{12} * 1024;  // in the first-level cache
constexpr int64_t kNearFilterBytes = int64_t{96} * 1024;    // in the second
constexpr int64_t kCachedBlockBytes = int64_t{40} * 1024;
constexpr int64_t kBlockStep = 32;       // channels; whole vectors on any machine
constexpr int64_t kPackedChannels = 64;  // that a task packs

/// Channels that a block takes in place: all, in the order in which they lie, if their filters stay
/// in the first-level cache, or in the second if what they meet comes from memory, of which parts of pixels
/// take up to four times as long; else so many that the rows they see stay in the first, too.
int64_t cached_channels(const Problem& problem, int64_t bytes, bool is_from_memory) {
  const int64_t taps = problem.window_elements();
  const int64_t filter_bytes = problem.k * taps * bytes;
  if (filter_bytes <= (is_from_memory ? kNearFilterBytes : kCachedFilterBytes)) return problem.k;
  const int64_t rows = std::min(seen_rows(problem, 1), problem.h);
  const int64_t fitting = kCachedBlockBytes / bytes / (rows * problem.w + taps);
  return std::max(fitting / kBlockStep * kBlockStep, kBlockStep);
}

}  // namespace

template <class Element>
DepthwiseChannels<Element>::DepthwiseChannels(const Problem& problem, const Target& target)
    : problem_(problem),
      target_(target),
      kernels_(choose_kernels<Element>()),
      range_(has_unit_stride(problem.output) ? range_of<Compute>(problem) : std::nullopt) {
  const int64_t vector = kernels_.vector_elements;
  reads_in_place_ = std::is_same_v<Element, Compute> && problem.k == problem.c &&
                    problem.c >= vector && problem.input.stride[1] == 1;
  writes_in_place_ = reads_in_place_ && range_ && problem.output.stride[1] == 1;
  pitch_ = round_up(problem.k, vector);
  constexpr int64_t kBytes = sizeof(Compute);
  filter_bytes_ = pitch_ * problem.window_elements() * kBytes;
  bias_bytes_ = round_up(pitch_ * kBytes, kAlignment);
  prefetches_ = reads_in_place_ &&
                (problem.input.elements() + problem.output.elements()) * int64_t{sizeof(Element)} >
                    kCachedBytes;
  block_channels_ = writes_in_place_ ? cached_channels(problem, sizeof(Compute), prefetches_)
                                     : std::min(kBlockChannels, pitch_);
  channel_blocks_ = writes_in_place_ ? std::max<int64_t>(1, problem.k / block_channels_)
                                     : ceil_div(problem.k, block_channels_);
  streams_ =
      writes_in_place_ && problem.output.elements() * int64_t{sizeof(Element)} > kCachedBytes;
  block_rows_ = balanced_rows(problem.n * problem.p * ceil_div(problem.k, block_channels_),
                              problem.p, target.threads);
  if (!reads_in_place_) {
    const int64_t fitting = kPanelElements / (problem.w * block_channels_);
    const int64_t outputs = (fitting - seen_rows(problem, 1)) / problem.stride_h + 1;
    block_rows_ = std::clamp<int64_t>(outputs, 1, block_rows_);
  }
  // A block of fewer channels than a vector is widened to one.
  sums_channels_ = block_channels_ + vector;
  if (!writes_in_place_) {
    const int64_t fitting = kPanelElements / (problem.q * sums_channels_);
    block_rows_ = std::clamp<int64_t>(fitting, 1, block_rows_);
  }
  const int64_t input_rows =
      reads_in_place_ ? 0 : std::min(seen_rows(problem, block_rows_), problem.h);
  const int64_t sums_rows = writes_in_place_ ? 0 : block_rows_;
  input_bytes_ = round_up(input_rows * problem.w * block_channels_ * kBytes, kAlignment);
  sums_bytes_ = round_up(sums_rows * problem.q * sums_channels_ * kBytes, kAlignment);
}

template <class Element>
void DepthwiseChannels<Element>::run(const Buffers& buffers, void*) const {
  const Problem& d = problem_;
  fill_bias(buffers, static_cast<Compute*>(buffers.workspace));
  char* panels = static_cast<char*>(buffers.workspace) + bias_bytes_;
  const int64_t row_blocks = ceil_div(d.p, block_rows_);
  parallel_for(d.n * row_blocks * channel_blocks_, target_.threads,
               [&](int64_t task, int32_t thread) {
                 const int64_t n = task / channel_blocks_ / row_blocks;
                 const int64_t p = task / channel_blocks_ % row_blocks * block_rows_;
                 const int64_t index = task % channel_blocks_;
                 const int64_t k = index * block_channels_;
                 const int64_t k_end = index + 1 == channel_blocks_ ? d.k : k + block_channels_;
                 const Block block = {n, p, std::min(p + block_rows_, d.p), k, k_end};
                 sum_block(buffers, block, panels + thread * (input_bytes_ + sums_bytes_));
                 if (streams_) std::atomic_thread_fence(std::memory_order_seq_cst);
               });
}

/// Zeros, if the kernel is not to add it.
template <class Element>
void DepthwiseChannels<Element>::fill_bias(const Buffers& buffers, Compute* bias) const {
  const OutputWriter<Element, Compute> writer(problem_, buffers);
  for (int64_t k = 0; k < pitch_; ++k)
    bias[k] = range_ && k < problem_.k ? writer.bias_of(k) : Compute(0);
}

template <class Element>
void DepthwiseChannels<Element>::pack_filter(const void* filter, void* packed, void*) const {
  const Problem& d = problem_;
  const int64_t* const stride = d.filter.stride;
  // Neighbouring taps of a channel, or of all channels of a group, are rows to be transposed.
  const bool are_neighbours = stride[2] == d.s * stride[3] && stride[1] == d.r * stride[2];
  const int64_t run = are_neighbours ? d.window_elements() : d.s;
  parallel_for(ceil_div(pitch_, kPackedChannels), target_.threads, [&](int64_t task, int32_t) {
    const int64_t begin = task * kPackedChannels;
    const int64_t count = std::min(begin + kPackedChannels, d.k) - begin;
    const int64_t padding = std::min(begin + kPackedChannels, pitch_) - begin - count;
    auto* target = static_cast<Compute*>(packed) + begin;
    for (int64_t tap = 0; tap < d.window_elements(); tap += run, target += run * pitch_) {
      const Element* source = static_cast<const Element*>(filter) + begin * stride[0] +
                              tap / (d.r * d.s) * stride[1] + tap / d.s % d.r * stride[2];
      kernels_.load({source, stride[3], stride[0], target, pitch_, run, count});
      for (int64_t i = 0; i < run; ++i)
        std::fill_n(target + i * pitch_ + count, padding, Compute(0));
    }
  });
}

/// Input rows [y_begin, y_end) of the channels that the block's filters are for.
template <class Element>
void DepthwiseChannels<Element>::load_rows(const Element* image, int64_t y_begin, int64_t y_end,
                                           const Block& block, Compute* panel) const {
  const Problem& d = problem_;
  const int64_t* in = d.input.stride;
  const int64_t multiplier = d.k_per_group() / d.c_per_group();
  const int64_t channels = block.k_end - block.k_begin;
  const bool is_one_row = in[2] == d.w * in[3];  // of the image, seen as pixels
  const int64_t rows = is_one_row ? 1 : y_end - y_begin;
  const int64_t columns = is_one_row ? (y_end - y_begin) * d.w : d.w;
  for (int64_t y = y_begin; y < y_begin + rows; ++y, panel += d.w * block_channels_) {
    const Element* row = image + y * in[2];
    if (multiplier == 1) {
      kernels_.load(
          {row + block.k_begin * in[1], in[3], in[1], panel, block_channels_, columns, channels});
      continue;
    }
    for (int64_t k = 0; k < channels; ++k)
      kernels_.load({row + (block.k_begin + k) / multiplier * in[1], in[3], 0, panel + k,
                     block_channels_, columns, 1});
  }
}

template <class Element>
typename DepthwiseChannels<Element>::Source DepthwiseChannels<Element>::source_of(
    const Buffers& buffers, const Block& block, Compute* panel) const {
  const Problem& d = problem_;
  const int64_t* in = d.input.stride;
  const Element* image = static_cast<const Element*>(buffers.input) + block.n * in[0];
  if constexpr (std::is_same_v<Element, Compute>) {
    if (reads_in_place_) {
      const int64_t begin = std::min(block.k_begin, d.k - kernels_.vector_elements);
      return {image + begin, 0, in[2], in[3], begin, block.k_end - begin};
    }
  }
  const int64_t y = block.p_begin * d.stride_h - d.padding_top;
  const int64_t y_begin = std::clamp<int64_t>(y, 0, d.h);
  const int64_t y_end = std::clamp(y + seen_rows(d, block.p_end - block.p_begin), y_begin, d.h);
  load_rows(image, y_begin, y_end, block, panel);
  const int64_t channels = round_up(block.k_end - block.k_begin, kernels_.vector_elements);
  return {panel, y_begin, d.w * block_channels_, block_channels_, block.k_begin, channels};
}

/// Has the row read what row p of the outputs sees; prefetches for the next one before p_end.
template <class Element>
void DepthwiseChannels<Element>::aim(ChannelRow<Compute>& row, const Compute* filter,
                                     const Source& source, int64_t p, int64_t p_end) const {
  const Problem& d = problem_;
  const int64_t y = p * d.stride_h - d.padding_top;
  const TapRange taps = taps_inside(d.h, d.r, d.dilation_h, y);
  row.filter_rows = std::max<int64_t>(taps.end - taps.begin, 0);
  if (row.filter_rows > 0) {
    row.filter = filter + taps.begin * d.s * pitch_;
    row.input = source.data + (y + taps.begin * d.dilation_h - source.row) * source.row_stride;
  }
  if (!prefetches_) return;
  const int64_t next = y + (d.r - 1) * d.dilation_h + 1;
  row.next_rows = p + 1 < p_end ? std::clamp<int64_t>(d.h - next, 0, d.stride_h) : 0;
  row.next_stride = source.row_stride;
  if (row.next_rows > 0) row.next = source.data + next * source.row_stride;
}

template <class Element>
void DepthwiseChannels<Element>::sum_block(const Buffers& buffers, const Block& block,
                                           char* panels) const {
  const Problem& d = problem_;
  const Source source = source_of(buffers, block, reinterpret_cast<Compute*>(panels));
  auto* sums = reinterpret_cast<Compute*>(panels + input_bytes_);
  const auto* filter = static_cast<const Compute*>(buffers.filter) + source.channel;
  ChannelRow<Compute> row = {
      .row_stride = d.dilation_h * source.row_stride,
      .column_stride = source.column_stride,
      .columns = d.w,
      .padding = d.padding_left,
      .filter_stride = pitch_,
      .filter_plane = d.r * d.s * pitch_,
      .filter_columns = d.s,
      .stride = d.stride_w,
      .dilation = d.dilation_w,
      .bias = static_cast<const Compute*>(buffers.workspace) + source.channel,
      .range = range_.value_or(unbounded<Compute>()),
      .channels = source.channels,
      .group = d.c_per_group(),
      .output = sums,
      .output_stride = sums_channels_,
      .outputs = d.q,
      .streams = streams_,
  };
  for (int64_t p = block.p_begin; p < block.p_end; ++p) {
    aim(row, filter, source, p, block.p_end);
    if constexpr (std::is_same_v<Element, Compute>) {
      if (writes_in_place_) {
        row.output =
            static_cast<Element*>(buffers.output) + offset(d.output, block.n, source.channel, p, 0);
        row.output_stride = d.output.stride[3];
      }
    }
    row.group == 1 ? kernels_.sum_channels(row) : kernels_.sum_groups(row);
    row.output += d.q * sums_channels_;
  }
  if (!writes_in_place_)
    write_sums<Element>(d, buffers, range_ ? kernels_.store : nullptr,
                        {(block.n * d.p + block.p_begin) * d.q, (block.p_end - block.p_begin) * d.q,
                         block.k_begin, block.k_end - block.k_begin},
                        sums + (block.k_begin - source.channel), sums_channels_, false);
}

std::unique_ptr<Convolution> make_depthwise_channels(const Problem& problem, const Target& target) {
  return make_form<DepthwiseChannels>(problem, target);
}

}  // namespace im2win::cpu
