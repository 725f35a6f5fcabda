// The form of the depthwise algorithm with vectors along the channels. A task takes some rows of
// outputs of a block of channels. Its kernel reads the input in place where that is of the type
// computed in, and writes the output in place where that takes no more than bias and bounds; else
// rows pass through the thread's panels. Groups of several channels have as many filters, and lie in a
// vector together, which is multiplied once for each of a group's channels, from all lanes of the group.
//
//   workspace: bias | panels per thread: input rows, rows of sums
//   packed filter: input channel of the group, row, column, filter
//   input rows: row, column, channel of the block
#pragma once

#include "cpu/depthwise/plan.hpp"

namespace im2win::cpu {

template <class Element>
class DepthwiseChannels final : public Convolution {
 public:
  using Compute = typename ComputeOf<Element>::Type;

  DepthwiseChannels(const Problem& problem, const Target& target);

  int64_t workspace_bytes() const override {
    return bias_bytes_ + (input_bytes_ + sums_bytes_) * target_.threads;
  }
  int64_t packed_filter_bytes() const override { return filter_bytes_; }
  void pack_filter(const void* filter, void* packed, void*) const override;
  void run(const Buffers& buffers, void*) const override;

 private:
  /// Outputs of one image: rows [p_begin, p_end), channels [k_begin, k_end).
  struct Block {
    int64_t n;
    int64_t p_begin, p_end;
    int64_t k_begin, k_end;
  };

  /// Where a block's kernel reads: input rows from `row` on, channels from `channel` on.
  struct Source {
    const Compute* data;
    int64_t row;
    int64_t row_stride, column_stride;
    int64_t channel;
    int64_t channels;
  };

  void fill_bias(const Buffers& buffers, Compute* bias) const;
  void load_rows(const Element* image, int64_t y_begin, int64_t y_end, const Block& block,
                 Compute* panel) const;
  void aim(ChannelRow<Compute>& row, const Compute* filter, const Source& source, int64_t p,
           int64_t p_end) const;
  void sum_block(const Buffers& buffers, const Block& block, char* panels) const;
  Source source_of(const Buffers& buffers, const Block& block, Compute* panel) const;

  Problem problem_;
  Target target_;
  const Kernels<Element>& kernels_;
  std::optional<Range<Compute>> range_;
  bool reads_in_place_;
  bool writes_in_place_;
  int64_t pitch_;           // channels of the packed filter
  int64_t block_channels_;  // in place, the last block takes what is left too
  int64_t channel_blocks_;
  bool prefetches_;
  bool streams_;  // to the output, past the caches
  int64_t block_rows_;
  int64_t sums_channels_;  // of a panel
  int64_t filter_bytes_;
  int64_t bias_bytes_;
  int64_t input_bytes_;
  int64_t sums_bytes_;
};

}  // namespace im2win::cpu
