// Depthwise convolution in NHWC of 16-bit elements by tensor cores. A tap's weights of 8 channels are
// a diagonal matrix. Two of them, one below the other, turn the words of two neighbouring pixels, 8
// channels each, into those taps' part of 8 sums. Such words of 16 pixels are the other factor: 8 of
// each of a warp's units.
//
// Warps go down the image as those of depthwise/slices.cuh do, each with 16 channels.
#pragma once

#include "cuda/depthwise/mma.cuh"
#include "cuda/depthwise/slices_band.cuh"
#include "cuda/depthwise/slices_rows.cuh"

namespace im2win::cuda {

/// Rows of the input in shared memory: [unit][octet of channels][pixel of a strip]. Of a stride, even
/// pixels come before odd ones. So the words of an octet below a tap of 8 outputs are contiguous: in
/// different banks.
template <int kTaps, int kStride, int kWord>
struct SliceOctets {
  static constexpr int kWordBytes = kWord;
  static constexpr int kLineBytes = kMmaSliceBytes;
  static constexpr int kReach = (kMmaStripColumns - 1) * kStride + kTaps;
  static constexpr int kOctetBytes = round_up(kReach, kStride) * 16;
  static constexpr int kUnitBytes = 2 * kOctetBytes;
  static constexpr int kRowBytes = 2 * kUnitBytes;
  static constexpr int kRingBytes = kMmaSlicesRingBytes;

  __device__ __forceinline__ static constexpr int offset(int pixel) {
    return pixel % kStride * (kOctetBytes / kStride) + pixel / kStride * 16;
  }

  __device__ __forceinline__ static SliceStrip strip(const SlicesGrid& grid, int share, int unit) {
    const auto [image, strip] = grid.strips.divide(2 * grid.slices.quotient(share) + unit);
    return {image < grid.images ? grid.first_column(strip) : grid.q, image};
  }

  __device__ __forceinline__ static int slice(const SlicesGrid& grid, int share) {
    return grid.slices.divide(share).remainder;
  }

  template <int kSize>
  struct Words {
    static constexpr int kBytes = kSize;
    static constexpr int kWords = kLineBytes / kBytes;  // of a slice
    static constexpr int kPixelStep = 16 / kWords, kStepBytes = kPixelStep / kStride * 16;

    __device__ __forceinline__ static int pixel() { return threadIdx.x % 16 / kWords; }
    __device__ __forceinline__ static int offset() {
      const int unit = threadIdx.x % 32 / 16, byte = threadIdx.x % kWords * kBytes;
      return unit * kUnitBytes + byte / 16 * kOctetBytes + byte % 16 + SliceOctets::offset(pixel());
    }

    /// Of the pixel's, the first of the slice.
    __device__ __forceinline__ static int first_word(const SlicesGrid& grid, int share) {
      return slice(grid, share) * kWords;
    }

    __device__ __forceinline__ static SliceWord word(const SlicesGrid& grid, int share) {
      return {strip(grid, share, threadIdx.x % 32 / 16),
              first_word(grid, share) + int(threadIdx.x) % kWords};
    }
  };

  /// What the lane tells load_fragments(), for the first tap of the first octet: pixels of both
  /// units, then those one further.
  __device__ __forceinline__ static int fragments() {
    const int lane = threadIdx.x % 32;
    return lane / 8 % 2 * kUnitBytes + lane / 16 * offset(1) + lane % 8 * 16;
  }
};

/// The fragments of the diagonal matrices: of each tap and octet, what a lane has of the octet's
/// channel lane / 4, which is all zeros but for one lane of four, and for channels that there are not.
template <int kTaps>
struct DiagonalWeights {
  uint32_t fragments[kTaps][2][kTaps];

  __device__ __forceinline__ DiagonalWeights(const uint16_t* filters, int channels) {
    const int lane = threadIdx.x % 32, channel = lane / 4;
#pragma unroll
    for (int octet = 0; octet < 2; ++octet) {
      const bool is_diagonal = channel / 2 == lane % 4 && 8 * octet + channel < channels;
      const uint32_t place = is_diagonal ? 1u << 16 * (channel % 2) : 0;
      const uint16_t* const filter = filters + (8 * octet + channel) * kTaps * kTaps;
#pragma unroll
      for (int i = 0; i < kTaps * kTaps; ++i)
        fragments[i / kTaps][octet][i % kTaps] = filter[i] * place;
    }
  }
};

/// The sums of the rows of outputs whose windows hold a row of the input: of both octets, of both
/// units' outputs.
template <class Element, int kTaps, int kStride, class Layout>
struct OctetSums {
  using Phases = BandPhases<kTaps, kStride>;
  float sums[Phases::kLive][2][4] = {};

  /// A row of the input at `address`. Rows of outputs outside the band gather sums, too, which nobody
  /// reads.
  __device__ __forceinline__ void add(int phase, const DiagonalWeights<kTaps>& weights,
                                      uint32_t address) {
    // Column by column, so that products that wait for each other's sums are far apart.
#pragma unroll
    for (int s = 0; s < kTaps; s += 2) {
      const bool is_pair = s + 1 < kTaps;
      uint32_t pixels[2][4];
#pragma unroll
      for (int octet = 0; octet < 2; ++octet) {
        const uint32_t words = address + octet * Layout::kOctetBytes + Layout::offset(s);
        is_pair ? load_fragments(words, pixels[octet]) : load_two_fragments(words, pixels[octet]);
      }
#pragma unroll
      for (int r = phase % kStride; r < kTaps; r += kStride) {
#pragma unroll
        for (int octet = 0; octet < 2; ++octet) {
          float(&sum)[4] = sums[Phases::live(phase, r)][octet];
          const uint32_t* const weight = weights.fragments[r][octet] + s;
          if (is_pair)
            multiply_16<Element>(sum, pixels[octet], weight[0], weight[1]);
          else
            multiply_8<Element>(sum, pixels[octet], weight[0]);
        }
      }
    }
  }

  /// The sums that are complete then; they start anew after this.
  __device__ __forceinline__ void take(int phase, float (&taken)[2][4]) {
    float(&live)[2][4] = sums[Phases::live(phase, kTaps - 1)];
#pragma unroll
    for (int i = 0; i < 8; ++i) {
      taken[i / 4][i % 4] = live[i / 4][i % 4];
      live[i / 4][i % 4] = 0;
    }
  }
};

/// A warp's outputs of a row in shared memory, between the lanes that compute pairs of channels and
/// those that store words. Lane i's word is [unit][pixel][octet]: sectors of memory are stored whole.
/// A word lies empty after each 8, so that a matrix's rows, every other word, are in different banks.
struct OutputStage {
  static constexpr int kBytes = (32 + 32 / 8) * 16;

  __device__ __forceinline__ static constexpr int offset(int unit, int pixel, int octet) {
    const int word = 16 * unit + 2 * pixel + octet;
    return (word + word / 8) * 16;
  }
};

/// The outputs that a lane stores: an octet of channels of a pixel.
template <class Layout>
struct LaneOctet {
  int unit = threadIdx.x % 32 / 16, pixel = threadIdx.x / 2 % 8, octet = threadIdx.x % 2;
  int k, q;
  int image;
  int channels;  // in the tensor

  __device__ __forceinline__ LaneOctet(const SlicesGrid& grid, const SlicesPlace& at) {
    const SliceStrip strip = Layout::strip(grid, at.share, unit);
    k = 8 * (2 * Layout::slice(grid, at.share) + octet);
    q = strip.q + pixel * grid.column_step();
    image = strip.image;
    channels = q < grid.q && pixel < grid.columns ? max(0, min(grid.c - k, 8)) : 0;
  }
};

/// Stores the first `bytes` of 16, whole words of the grid's.
template <int kWordBytes>
__device__ __forceinline__ void store_words(const SlicesGrid& grid, unsigned char* to,
                                            const uint4& words, int bytes) {
  if (are_whole_words<kWordBytes>(grid)) {
    if (bytes != 0) *reinterpret_cast<uint4*>(to) = words;
  } else {
    const uint32_t each[] = {words.x, words.y, words.z, words.w};
#pragma unroll
    for (int i = 0; i < 4; ++i)
      if (4 * i < bytes) reinterpret_cast<uint32_t*>(to)[i] = each[i];
  }
}

/// Finishes and stores rows of outputs. A lane computes two channels of each octet of both units'
/// pixels number lane / 4, and stores its octet.
template <class Element, class Layout, bool kIsClamp>
class OctetWriter {
 public:
  __device__ __forceinline__ OctetWriter(const DepthwiseArguments<Element, float>& arguments,
                                         const SlicesGrid& grid, const SlicesPlace& at,
                                         unsigned char* stage)
      : a_(arguments), grid_(grid), at_(at), clamp_(a_.clamp) {
    const LaneOctet<Layout> mine(grid, at);
    stored_ = mine.channels * int{sizeof(Element)};
    const int64_t row = int64_t{at.first_n + mine.image} * grid.p + at.first_p;
    to_ = reinterpret_cast<unsigned char*>(a_.outputs.data() + mine.q * grid.c + mine.k +
                                           row * (grid.q * grid.c));
    row_bytes_ = grid.row_step() * grid.q * grid.c * int{sizeof(Element)};
    const int lane = threadIdx.x % 32;
    pairs_ = shared_address(stage) + OutputStage::offset(0, lane / 4, 0) + lane % 4 * 4;
    word_ = shared_address(stage) + OutputStage::offset(mine.unit, mine.pixel, mine.octet);
#pragma unroll
    for (int octet = 0; octet < 2; ++octet) {
      const int k = first_channel(octet);
#pragma unroll
      for (int i = 0; i < 2; ++i)
        if (k < grid.c) biases_[octet][i] = a_.outputs.bias(k + i);
    }
    asm volatile("" : "+r"(pairs_), "+r"(word_), "+r"(stored_));
  }

  /// The next row of the band.
  __device__ __forceinline__ void write(float (&sums)[2][4]) {
#pragma unroll
    for (int i = 0; i < 8; ++i) sums[i / 4][i % 4] += biases_[i / 4][i % 2];
    activate<kIsClamp>(a_, reinterpret_cast<float(&)[8]>(sums));
#pragma unroll
    for (int octet = 0; octet < 2; ++octet) {
#pragma unroll
      for (int unit = 0; unit < 2; ++unit) {
        const Pair<Element> pair =
            pair_of<Element>(sums[octet][2 * unit], sums[octet][2 * unit + 1]);
        store_shared(pairs_ + OutputStage::offset(unit, 0, octet),
                     reinterpret_cast<const uint32_t&>(pair));
      }
    }
    __syncwarp();
    uint4 word = load_shared_word(word_);
    for (uint32_t* bits : {&word.x, &word.y, &word.z, &word.w}) {
      auto& pair = reinterpret_cast<Pair<Element>&>(*bits);
      pair = clamp_(pair);
      finiteness_.add(pair);
    }
    store_words<Layout::kWordBytes>(grid_, to_, word, stored_);
    to_ += row_bytes_;
    __syncwarp();
  }

  /// To the band of the next images.
  __device__ __forceinline__ void next() {
    to_ += (int64_t{grid_.images} * grid_.p - at_.rows * grid_.row_step()) *
           (grid_.q * grid_.c * int{sizeof(Element)});
  }

  /// False if what the lane stored may be wrong: zeros beside the diagonals and in the padding make
  /// NaN of infinite factors that are not an output's own.
  __device__ __forceinline__ bool is_right() const { return finiteness_.is_finite(); }

 private:
  __device__ __forceinline__ int first_channel(int octet) const {
    return (2 * Layout::slice(grid_, at_.share) + octet) * 8 + int(threadIdx.x % 4) * 2;
  }

  const DepthwiseArguments<Element, float>& a_;
  const SlicesGrid& grid_;
  const SlicesPlace& at_;
  PairClamp<Element> clamp_;
  Finiteness<Element> finiteness_;
  float biases_[2][2] = {};  // of each octet's two channels
  int stored_;               // bytes of the lane's octet
  unsigned char* to_;        // the next one
  int row_bytes_;
  uint32_t pairs_, word_;  // what the lane has of the stage
};

/// Computes all of the lane's octets again. It works out where they are by itself, so that nothing is
/// kept for it.
template <class Layout, int kTaps, int kStride, class Element>
__device__ __noinline__ void correct(const DepthwiseArguments<Element, float>& a,
                                     const SlicesGrid& grid, int warp) {
  const SlicesPlace at(grid, warp, a.vertical, kStride, kTaps);
  const LaneOctet<Layout> mine(grid, at);
  write_exact(a, grid, at, at.first_n + mine.image, mine.k, mine.channels, mine.q, 1);
}

/// Of dynamic shared memory, a warp.
inline constexpr int kMmaSlicesWarpBytes = kMmaSlicesRingBytes + OutputStage::kBytes;

/// Blocks on a multiprocessor, for which registers suffice.
template <int kTaps>
inline constexpr int kMmaSlicesBlocks = kTaps <= 5 ? 4 : 2;

template <class Element, int kTaps, int kStride, int kWordBytes, bool kIsClamp>
__device__ __forceinline__ void multiply_slices(const DepthwiseArguments<Element, float>& a,
                                                const SlicesGrid& grid) {
  using Layout = SliceOctets<kTaps, kStride, kWordBytes>;
  const int block_warp = __shfl_sync(~0u, static_cast<int>(threadIdx.x / 32), 0);
  const int warp = static_cast<int>(blockIdx.x) * kSlicesWarps + block_warp;
  if (warp >= grid.warps) return;
  const SlicesPlace at(grid, warp, a.vertical, kStride, kTaps);
  unsigned char* const ring = dynamic_shared<unsigned char>() + block_warp * kMmaSlicesWarpBytes;
  SliceRows<Element, kTaps, kStride, Layout> rows(a, grid, at, ring);
  follow(grid.lets_next_start);
  rows.start(a.filter, at);
  const DiagonalWeights<kTaps> weights(reinterpret_cast<const uint16_t*>(rows.filters()),
                                       grid.c - 16 * Layout::slice(grid, at.share));
  rows.proceed();

  uint32_t pixels = shared_address(ring) + Layout::fragments();
  asm volatile("" : "+r"(pixels));
  OctetWriter<Element, Layout, kIsClamp> writer(a, grid, at, ring + kMmaSlicesRingBytes);
  for (int turn = 0; turn < at.turns; ++turn) {
    OctetSums<Element, kTaps, kStride, Layout> sums;
    go_down<kTaps, kStride>(
        at, rows, [&](int phase, uint32_t slot) { sums.add(phase, weights, pixels + slot); },
        [&](int phase, int row) {
          float taken[2][4];
          sums.take(phase, taken);
          if (row >= 0) writer.write(taken);
        });
    writer.next();
  }
  if (!writer.is_right()) correct<Layout, kTaps, kStride>(a, grid, warp);
}

template <class Element, int kTaps, int kStride, int kWordBytes, bool kIsClamp>
__global__ void __launch_bounds__(32 * kSlicesWarps, kMmaSlicesBlocks<kTaps>)
    depthwise_slices_mma_kernel(const __grid_constant__ DepthwiseArguments<Element, float> a,
                                const __grid_constant__ SlicesGrid grid) {
  if constexpr (has_code(kIsClamp))
    multiply_slices<Element, kTaps, kStride, kWordBytes, kIsClamp>(a, grid);
}

}  // namespace im2win::cuda
