// Memory-efficient convolution (lowering.hpp). One launch does all small GEMMs, by the GEMM of im2win,
// tiles, micro-kernel, prefetch and all, so that what is compared is the lowering. To that GEMM the
// taps of a window are (c, s, r), r being neighbours in memory; those of L are (r, s, c): its rows
// are the GEMM's channels, and its channels the GEMM's rows.

#include <algorithm>
#include <iterator>
#include <utility>

#include "checked.hpp"
#include "cuda/algorithms.hpp"
#include "cuda/im2win/product.cuh"
#include "cuda/launch.cuh"
#include "lowering.hpp"

namespace im2win::cuda {
namespace {

constexpr int kThreads = 256;
constexpr int kChannels = 32;  // of a row of the image that a block lowers, at most
constexpr int kColumns = 128;  // likewise
constexpr int kMostTaps = 64;  // of a row of the windows that it takes at once

struct LoweringArguments {
  Divisor channels, taps;  // of a block
  int64_t windows;         // likewise
  Divisor channel_blocks, tap_blocks, window_blocks;
  Divisor h;
  int64_t c, s, q;
  int64_t stride;
  int64_t input_stride[4];
  LoweredStrides lowered;
  int64_t blocks;
  bool channels_fastest;

  explicit LoweringArguments(const Problem& problem)
      : channels(std::min<int64_t>(problem.c, kChannels)),
        taps(std::min<int64_t>(problem.s, kMostTaps)),
        windows((kColumns - taps.divisor) / problem.stride_w + 1),
        channel_blocks(ceil_div(problem.c, channels.divisor)),
        tap_blocks(ceil_div(problem.s, taps.divisor)),
        window_blocks(ceil_div(problem.q, windows)),
        h(problem.h),
        c(problem.c),
        s(problem.s),
        q(problem.q),
        stride(problem.stride_w),
        lowered(problem),
        blocks(problem.n * problem.h * channel_blocks.divisor * tap_blocks.divisor *
               window_blocks.divisor),
        channels_fastest(problem.input.stride[1] == 1) {
    std::copy(std::begin(problem.input.stride), std::end(problem.input.stride), input_stride);
  }
};

/// A block brings some columns of some channels of one row to shared memory, along whichever of them
/// are neighbours, and writes them along the channels.
__global__ void __launch_bounds__(kThreads)
    mec_lowering_kernel(const __grid_constant__ LoweringArguments a,
                        const float* __restrict__ input, float* __restrict__ lowered) {
  __shared__ float tile[kChannels][kColumns + 1];  // odd pitch: channels are conflict-free
  if (block_index() >= a.blocks) return;
  const auto [rest, channel_block] = a.channel_blocks.divide(block_index());
  const auto [strip, tap_block] = a.tap_blocks.divide(rest);
  const auto [row, window_block] = a.window_blocks.divide(strip);
  const auto [n, y] = a.h.divide(row);
  const int64_t first_c = channel_block * a.channels.divisor;
  const int64_t first_s = tap_block * a.taps.divisor;
  const int64_t first_q = window_block * a.windows;
  const int channels = static_cast<int>(min(a.channels.divisor, a.c - first_c));
  const int taps = static_cast<int>(min(a.taps.divisor, a.s - first_s));
  const int windows = static_cast<int>(min(a.windows, a.q - first_q));

  const int stride = windows > 1 ? static_cast<int>(a.stride) : 0;
  const int columns = (windows - 1) * stride + taps;
  const float* source = input + n * a.input_stride[0] + first_c * a.input_stride[1] +
                        y * a.input_stride[2] + (first_q * a.stride + first_s) * a.input_stride[3];
#pragma unroll 4
  for (int i = threadIdx.x; i < kChannels * kColumns; i += kThreads) {
    const int c = a.channels_fastest ? i % kChannels : i / kColumns;
    const int x = a.channels_fastest ? i / kChannels : i % kColumns;
    if (c < channels && x < columns)
      tile[c][x] = source[c * a.input_stride[1] + x * a.input_stride[3]];
  }
  __syncthreads();

  float* target =
      lowered + n * a.lowered.n + first_q * a.lowered.q + y * a.lowered.h + first_s * a.c + first_c;
  const int block_channels = static_cast<int>(a.channels.divisor);
  const int block_taps = static_cast<int>(a.taps.divisor);
#pragma unroll 4
  for (int i = threadIdx.x; i < windows * block_taps * block_channels; i += kThreads) {
    const auto [at, c] = a.channels.divide(i);
    const auto [q, s] = a.taps.divide(at);
    if (c < channels && s < taps) target[q * a.lowered.q + s * a.c + c] = tile[c][q * stride + s];
  }
}

/// The problem as im2win's GEMM sees it: see above.
Problem with_rows_as_channels(const Problem& problem) {
  Problem swapped = problem;
  std::swap(swapped.c, swapped.r);
  std::swap(swapped.filter.size[1], swapped.filter.size[2]);
  std::swap(swapped.filter.stride[1], swapped.filter.stride[2]);
  return swapped;
}

WindowLayout lowered_layout(const Problem& problem) {
  const LoweredStrides strides(problem);
  WindowLayout layout(problem);
  layout.image = strides.n;
  layout.channel = strides.h;
  layout.row = problem.p > 1 ? problem.stride_h * strides.h : 0;
  layout.window = strides.q;
  layout.column = problem.c;
  return layout;
}

class Mec final : public Convolution {
 public:
  Mec(const Problem& problem, const Target& target)
      : lowering_(problem),
        workspace_bytes_(lowered_bytes(problem)),
        product_(with_rows_as_channels(problem), lowered_layout(problem), target,
                 Im2winVariant::kFull) {}

  int64_t workspace_bytes() const override { return workspace_bytes_; }
  int64_t packed_filter_bytes() const override { return product_.packed_filter_bytes(); }

  void pack_filter(const void* filter, void* packed, void* stream) const override {
    product_.pack_filter(filter, packed, stream);
  }

  void run(const Buffers& buffers, void* stream) const override {
    launch("mec_lowering_kernel", mec_lowering_kernel, lowering_.blocks, kThreads, stream,
           lowering_, static_cast<const float*>(buffers.input),
           static_cast<float*>(buffers.workspace));
    product_.run(buffers.workspace, buffers, stream);
  }

 private:
  LoweringArguments lowering_;
  int64_t workspace_bytes_;
  Im2winProduct product_;
};

}  // namespace

std::string refuse_mec(const Problem& problem) {
  if (std::string reason = refuse_lowering(problem); !reason.empty()) return reason;
  return refuse_im2win_product(with_rows_as_channels(problem), lowered_layout(problem),
                               lowered_bytes(problem));
}

std::unique_ptr<Convolution> configure_mec(const Problem& problem, const Target& target) {
  return std::make_unique<Mec>(problem, target);
}

}  // namespace im2win::cuda
