// Depthwise convolution in NHWC. A slice is 4 bytes of a pixel's channels, for a lane. A warp takes 32 of
// a strip of columns, those after the last of a pixel from the next strip, and goes down the image with
// them: each row of the input below its strips is on its way while those before it are computed, and
// contributes at once to all rows of outputs whose windows hold it.
//
// A dilated convolution is dense ones, of rows and columns a dilation apart: of one comb each.
//
// Warps share nothing, so that none waits for another.
#pragma once

#include "cuda/depthwise/activation.cuh"
#include "cuda/depthwise/pair.cuh"
#include "cuda/depthwise/slices_band.cuh"
#include "cuda/depthwise/slices_rows.cuh"
#include "cuda/depthwise/sum.cuh"

namespace im2win::cuda {

/// Rows of the input in shared memory: [pixel of a strip][slice].
template <int kTaps, int kStride, int kWord>
struct SliceLines {
  static constexpr int kWordBytes = kWord;
  static constexpr int kLineBytes = kSlicesLineBytes;
  static constexpr int kReach = (kStripSize - 1) * kStride + kTaps;
  static constexpr int kRowBytes = kReach * kLineBytes;
  static constexpr int kRingBytes = kSlicesRingBytes;

  template <int kSize>
  struct Words {
    static constexpr int kBytes = kSize;
    static constexpr int kWords = kLineBytes / kBytes;  // of a line
    static constexpr int kPixelStep = 32 / kWords, kStepBytes = kPixelStep * kLineBytes;

    __device__ __forceinline__ static int pixel() { return threadIdx.x % 32 / kWords; }
    __device__ __forceinline__ static int offset() { return threadIdx.x % 32 * kBytes; }

    __device__ __forceinline__ static SliceWord word(const SlicesGrid& grid, int share) {
      const auto [strip, number] =
          grid.strip_words.divide(share * kWords + int(threadIdx.x) % kWords);
      return {{grid.first_column(strip), 0}, number};
    }

    /// Of the strip's, the first of a line.
    __device__ __forceinline__ static int first_word(const SlicesGrid& grid, int share) {
      return grid.strip_words.divide(share * kWords).remainder;
    }
  };
};

/// Four bytes of neighbouring channels: one of float, two of 16 bits.
template <class Element>
struct Lane {
  static constexpr int kChannels = 4 / sizeof(Element);
  using Word = std::conditional_t<kChannels == 1, float, Pair<Element>>;

  __device__ __forceinline__ static void read(uint32_t word, float (&x)[kChannels]) {
    if constexpr (kChannels == 1) {
      x[0] = __uint_as_float(word);
    } else {
      const auto pair = reinterpret_cast<const Pair<Element>&>(word);
      x[0] = to_compute<float>(pair.x);
      x[1] = to_compute<float>(pair.y);
    }
  }
};

/// The clamp of an epilogue for a lane's four bytes, in registers.
template <class Element>
struct LaneClamp {
  uint32_t low, high;

  __device__ __forceinline__ explicit LaneClamp(const Clamp<float>& clamp) {
    if constexpr (Lane<Element>::kChannels == 1) {
      low = __float_as_uint(clamp.low);
      high = __float_as_uint(clamp.high);
    } else {
      const PairClamp<Element> pair(clamp);
      low = reinterpret_cast<const uint32_t&>(pair.low);
      high = reinterpret_cast<const uint32_t&>(pair.high);
    }
    asm volatile("" : "+r"(low), "+r"(high));
  }

  __device__ __forceinline__ typename Lane<Element>::Word operator()(
      const float (&x)[Lane<Element>::kChannels]) const {
    if constexpr (Lane<Element>::kChannels == 1) {
      return clamp(x[0], __uint_as_float(low), __uint_as_float(high));
    } else {
      return __hmin2_nan(
          __hmax2_nan(pair_of<Element>(x[0], x[1]), reinterpret_cast<const Pair<Element>&>(low)),
          reinterpret_cast<const Pair<Element>&>(high));
    }
  }
};

/// The sums of the rows of outputs whose windows hold a row of the input, of a strip.
template <int kTaps, int kStride, int kChannels>
struct StripSums {
  using Phases = BandPhases<kTaps, kStride>;
  static constexpr int kReach = (kStripSize - 1) * kStride + kTaps;
  float sums[Phases::kLive][kStripSize][kChannels] = {};

  /// In the order of depthwise_sum(). Rows of outputs outside the band gather sums, too, which
  /// nobody reads.
  __device__ __forceinline__ void add(int phase, const float (&weights)[kTaps][kTaps][kChannels],
                                      const float (&x)[kReach][kChannels]) {
#pragma unroll
    for (int r = phase % kStride; r < kTaps; r += kStride) {
#pragma unroll
      for (int s = 0; s < kTaps; ++s) {
#pragma unroll
        for (int q = 0; q < kStripSize; ++q) {
#pragma unroll
          for (int c = 0; c < kChannels; ++c) {
            float& sum = sums[Phases::live(phase, r)][q][c];
            sum = fmaf(weights[r][s][c], x[q * kStride + s][c], sum);
          }
        }
      }
    }
  }

  /// The sums that are complete then; they start anew after this.
  __device__ __forceinline__ void take(int phase, float (&taken)[kStripSize][kChannels]) {
    float(&live)[kStripSize][kChannels] = sums[Phases::live(phase, kTaps - 1)];
#pragma unroll
    for (int q = 0; q < kStripSize; ++q) {
#pragma unroll
      for (int c = 0; c < kChannels; ++c) {
        taken[q][c] = live[q][c];
        live[q][c] = 0;
      }
    }
  }
};

/// The lane's weights, from its filters in shared memory; false if one is infinite or NaN.
template <class Element, int kTaps, int kChannels>
__device__ __forceinline__ bool read_weights(const Element* filters,
                                             float (&weights)[kTaps][kTaps][kChannels]) {
  float zero = 0;
#pragma unroll
  for (int c = 0; c < kChannels; ++c) {
#pragma unroll
    for (int i = 0; i < kTaps * kTaps; ++i) {
      const float weight = to_compute<float>(filters[c * kTaps * kTaps + i]);
      weights[i / kTaps][i % kTaps][c] = weight;
      zero = fmaf(weight, 0.f, zero);
    }
  }
  return zero == 0;
}

/// A lane's strip: its first channel, and the columns that it has, also of those that it stores.
struct LaneStrip {
  int k, q;
  int columns, stored;

  __device__ __forceinline__ LaneStrip(const SlicesGrid& grid, int share, int channels,
                                       bool is_finite) {
    const auto [strip, slice] = grid.slices.divide(share * 32 + int(threadIdx.x) % 32);
    k = slice * channels;
    q = grid.first_column(strip);
    columns = k < grid.c ? count_steps(q, grid.q, grid.column_combs, kStripSize) : 0;
    stored = is_finite ? columns : 0;
  }
};

/// Finishes and stores rows of outputs. What it is made of stays in registers.
template <class Element, bool kIsClamp>
struct RowWriter {
  static constexpr int kChannels = Lane<Element>::kChannels;
  const DepthwiseArguments<Element, float>& a;
  const LaneStrip& strip;
  LaneClamp<Element> clamp;
  float biases[kChannels] = {};
  int column_stride, row_stride;  // to the comb's next

  __device__ __forceinline__ RowWriter(const DepthwiseArguments<Element, float>& arguments,
                                       const SlicesGrid& grid, const LaneStrip& lane)
      : a(arguments),
        strip(lane),
        clamp(a.clamp),
        column_stride(grid.column_step() * grid.c),
        row_stride(grid.row_step() * grid.q * grid.c) {
    asm volatile("" : "+r"(column_stride), "+r"(row_stride));
#pragma unroll
    for (int c = 0; c < kChannels; ++c)
      if (strip.columns > 0) biases[c] = a.outputs.bias(strip.k + c);
  }

  __device__ __forceinline__ Element* address(const SlicesGrid& grid, int n, int p) const {
    return a.outputs.data() + int64_t{n} * grid.p * (grid.q * grid.c) +
           ((p * grid.q + strip.q) * grid.c + strip.k);
  }

  __device__ __forceinline__ void write(Element* to, float (&sums)[kStripSize][kChannels]) const {
#pragma unroll
    for (int j = 0; j < kStripSize; ++j)
#pragma unroll
      for (int c = 0; c < kChannels; ++c) sums[j][c] += biases[c];
    activate<kIsClamp>(a, reinterpret_cast<float(&)[kStripSize * kChannels]>(sums));
#pragma unroll
    for (int j = 0; j < kStripSize; ++j, to += column_stride) {
      const auto word = clamp(sums[j]);
      if (j < strip.stored) *reinterpret_cast<typename Lane<Element>::Word*>(to) = word;
    }
  }
};

/// Whether registers suffice for a lane's weights and sums, and tensor cores do not take the window.
template <class Element>
constexpr bool is_for_slices(int taps, int stride) {
  return sizeof(Element) == 4 || (taps <= 5 && !is_for_mma_slices(taps, stride));
}

/// Blocks on a multiprocessor, for which registers suffice.
template <class Element, int kTaps>
inline constexpr int kSlicesBlocks = kTaps == 3 || (kTaps == 5 && sizeof(Element) == 4) ? 4 : 3;

template <class Element, int kTaps, int kStride, int kWordBytes, bool kIsClamp>
__device__ __forceinline__ void compute_slices(const DepthwiseArguments<Element, float>& a,
                                               const SlicesGrid& grid) {
  constexpr int kChannels = Lane<Element>::kChannels;
  using Layout = SliceLines<kTaps, kStride, kWordBytes>;
  using Rows = SliceRows<Element, kTaps, kStride, Layout>;
  const int warp = static_cast<int>(blockIdx.x) * kSlicesWarps + int(threadIdx.x / 32);
  if (warp >= grid.warps) return;
  const SlicesPlace at(grid, warp, a.vertical, kStride, kTaps);
  const int lane = threadIdx.x % 32;
  unsigned char* const ring = dynamic_shared<unsigned char>() + threadIdx.x / 32 * Rows::kBytes;
  uint32_t line = shared_address(ring) + lane * 4;
  asm volatile("" : "+r"(line));
  Rows rows(a, grid, at, ring);
  follow(grid.lets_next_start);
  rows.start(a.filter, at);
  float weights[kTaps][kTaps][kChannels];
  const bool is_finite = read_weights(rows.filters() + lane * kChannels * kTaps * kTaps, weights);
  rows.proceed();

  const LaneStrip strip(grid, at.share, kChannels, is_finite);
  const RowWriter<Element, kIsClamp> writer(a, grid, strip);
  for (int n = at.first_n; n < at.first_n + at.turns; ++n) {
    StripSums<kTaps, kStride, kChannels> sums;
    Element* out = writer.address(grid, n, at.first_p);
    go_down<kTaps, kStride>(
        at, rows,
        [&](int phase, uint32_t slot) {
          float x[Layout::kReach][kChannels];
#pragma unroll
          for (int j = 0; j < Layout::kReach; ++j)
            Lane<Element>::read(load_shared(line + slot + j * kSlicesLineBytes), x[j]);
          sums.add(phase, weights, x);
        },
        [&](int phase, int row) {
          float taken[kStripSize][kChannels];
          sums.take(phase, taken);
          if (row < 0) return;
          writer.write(out, taken);
          out += writer.row_stride;
        });
  }
  // Zeros in the padding must not meet a weight that is infinite or NaN.
  if (!is_finite) write_exact(a, grid, at, at.first_n, strip.k, kChannels, strip.q, strip.columns);
}

template <class Element, int kTaps, int kStride, int kWordBytes, bool kIsClamp>
__global__ void __launch_bounds__(32 * kSlicesWarps, (kSlicesBlocks<Element, kTaps>))
    depthwise_slices_kernel(const __grid_constant__ DepthwiseArguments<Element, float> a,
                            const __grid_constant__ SlicesGrid grid) {
  if constexpr (has_code(kIsClamp))
    compute_slices<Element, kTaps, kStride, kWordBytes, kIsClamp>(a, grid);
}

}  // namespace im2win::cuda
