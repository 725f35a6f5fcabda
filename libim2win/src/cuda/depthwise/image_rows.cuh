// Depthwise convolution in NCHW of 16-bit elements, by tensor cores, a row of a plane at a time. A row of
// the input times a band matrix of a filter row's weights is part of a row of outputs, 8 columns of it. The
// same rows of 16 images are the other factor: so what lies outside the image is so for all of a product,
// and rows need no alignment but that of a pair.
//
// Blocks are short, many on a multiprocessor: some load while others compute.
#pragma once

#include <cuda_pipeline.h>

#include <type_traits>

#include "checked.hpp"
#include "cuda/depthwise/mma.cuh"
#include "cuda/depthwise/slices_band.cuh"
#include "cuda/depthwise/tile.hpp"
#include "cuda/launch.cuh"

namespace im2win::cuda {

/// The tile and the tensors. Plain data.
struct ImageRowsGrid {
  static constexpr bool kStartsEarly = true;
  ImageRowsTile tile;
  Divisor row_tiles, channel_tiles, pairs, bands;
  int n, c, h, w, p, q;
  int64_t image_inputs, image_outputs;  // elements
  int64_t blocks;

  ImageRowsGrid(const Problem& problem, const ImageRowsTile& chosen)
      : tile(chosen),
        row_tiles(ceil_div(problem.p, tile.rows())),
        channel_tiles(problem.c / tile.channels),
        pairs(tile.pairs),
        bands(tile.bands),
        n(static_cast<int>(problem.n)),
        c(static_cast<int>(problem.c)),
        h(static_cast<int>(problem.h)),
        w(static_cast<int>(problem.w)),
        p(static_cast<int>(problem.p)),
        q(static_cast<int>(problem.q)),
        image_inputs(problem.c * problem.h * problem.w),
        image_outputs(problem.c * problem.p * problem.q),
        blocks(row_tiles.divisor * channel_tiles.divisor * ceil_div(problem.n, tile.kImages)) {}
};

/// What a block computes: rows from first_p on of some channels of 16 images. Of an image, what it loads and
/// what it stores are a run each: so many words, from the one that begins with an element's number on.
struct ImageRowsPlace {
  int first_n, images;
  int first_c;
  int first_p, rows;
  int first_input, input_words;
  int first_output, output_words;

  template <int kTaps, int kStride>
  __device__ __forceinline__ static ImageRowsPlace of(const ImageRowsGrid& grid, int padding_top) {
    const auto [place, row_tile] = grid.row_tiles.divide(static_cast<int>(blockIdx.x));
    const auto [group, channel_tile] = grid.channel_tiles.divide(place);
    const int channels = grid.tile.channels;
    ImageRowsPlace at;
    at.first_n = group * ImageRowsTile::kImages;
    at.images = min(ImageRowsTile::kImages, grid.n - at.first_n);
    at.first_c = channel_tile * channels;
    at.first_p = row_tile * grid.tile.rows();
    at.rows = min(grid.tile.rows(), grid.p - at.first_p);
    const bool whole = grid.row_tiles.divisor == 1;
    const int first_y = at.first_p * kStride - padding_top;
    const int top = whole ? 0 : min(max(first_y, 0), grid.h);
    const int end_y = whole ? grid.h : first_y + (at.rows - 1) * kStride + kTaps;
    const int bottom = max(top, min(end_y, grid.h));
    at.first_input = ((at.first_c * grid.h + top) * grid.w) & ~7;
    at.input_words =
        (((at.first_c + channels - 1) * grid.h + bottom) * grid.w - at.first_input + 7) / 8;
    at.first_output = (at.first_c * grid.p + at.first_p) * grid.q;
    at.output_words = channels * at.rows * grid.q / 8;
    return at;
  }
};

/// Calls copy(to, from) for so many words of each of some images, that are to_pitch and from_pitch words
/// apart. Eight threads take every eighth word of an image, so that addresses grow by constants.
template <class To, class From, class Copy>
__device__ __forceinline__ void copy_image_words(int images, int words, To* to, int64_t to_pitch,
                                                 From* from, int64_t from_pitch, Copy copy) {
  constexpr int kTeam = 8, kBatch = 7;
  const int thread = threadIdx.x, word = thread % kTeam;
  for (int image = thread / kTeam; image < images; image += blockDim.x / kTeam) {
    To* next_to = to + image * to_pitch + word;
    From* next_from = from + image * from_pitch + word;
#pragma unroll 1
    for (int left = words - word; left > 0; left -= kBatch * kTeam) {
#pragma unroll
      for (int i = 0; i < kBatch; ++i)
        if (left > i * kTeam) copy(next_to + i * kTeam, next_from + i * kTeam);
      next_to += kBatch * kTeam;
      next_from += kBatch * kTeam;
    }
  }
}

/// The input's way to shared memory, images an odd number of words apart: so the lanes of a warp find eight
/// images' pairs in different banks. Zeros are what windows hold beside that, and in place of rows.
__device__ __forceinline__ void load_image_rows(const uint4* input, const ImageRowsGrid& grid,
                                                const ImageRowsPlace& at, uint4* shared) {
  using Tile = ImageRowsTile;
  const int pitch = grid.tile.input_words, image = threadIdx.x;
  copy_image_words(
      at.images, at.input_words, shared, pitch,
      input + (at.first_n * grid.image_inputs + at.first_input) / 8, grid.image_inputs / 8,
      [](uint4* to, const uint4* from) { __pipeline_memcpy_async(to, from, sizeof(uint4)); });
  __pipeline_commit();
  if (image >= Tile::kImages) return;
#pragma unroll 1
  for (int word = image < at.images ? at.input_words : 0; word < pitch; ++word)
    shared[image * pitch + word] = uint4{0, 0, 0, 0};
  if (image >= Tile::kZeroWords) return;
  shared[image - Tile::kZeroWords] = uint4{0, 0, 0, 0};
  shared[Tile::kImages * pitch + image] = uint4{0, 0, 0, 0};
}

__device__ __forceinline__ void store_image_rows(uint4* output, const ImageRowsGrid& grid,
                                                 const ImageRowsPlace& at, const uint4* shared) {
  copy_image_words(at.images, at.output_words,
                   output + (at.first_n * grid.image_outputs + at.first_output) / 8,
                   grid.image_outputs / 8, shared, grid.tile.output_words,
                   [](uint4* to, const uint4* from) { *to = *from; });
}

/// What a warp computes: a band of the tile's rows, two parts of them next to each other, of a channel.
struct ImageRowsBand {
  int k, first_p, first_q;
  int rows;
  int first_y, input_rows;  // below them, also outside the image
  int first_x;              // of the windows, even; may be before the image
  bool is_wide;             // whether the second part's windows are as long as the first one's
  int input, output;        // elements of the tile before row first_y, and before the first output

  template <int kTaps, int kStride>
  __device__ __forceinline__ static ImageRowsBand of(const ImageRowsGrid& grid,
                                                     const ImageRowsPlace& at, int padding_top,
                                                     int padding_left) {
    constexpr int kColumns = ImageRowsTile::kColumns;
    const int warp = __shfl_sync(~0u, static_cast<int>(threadIdx.x / 32), 0);
    const auto [place, band] = grid.bands.divide(warp);
    const auto [channel, pair] = grid.pairs.divide(place);
    const int first_row = band * grid.tile.band_rows;
    ImageRowsBand mine;
    mine.k = at.first_c + channel;
    mine.first_p = at.first_p + first_row;
    mine.first_q = pair * 2 * kColumns;
    mine.rows = min(grid.tile.band_rows, at.rows - first_row);
    mine.first_y = mine.first_p * kStride - padding_top;
    mine.input_rows = mine.rows > 0 ? (mine.rows - 1) * kStride + kTaps : 0;
    mine.first_x = (mine.first_q * kStride - padding_left) & ~1;
    const int last_q = min(mine.first_q + 2 * kColumns, grid.q) - 1;
    const int end_x = min(last_q * kStride - padding_left + kTaps, grid.w);
    mine.is_wide = end_x - mine.first_x > 2 * kStride * kColumns;
    mine.input = (mine.k * grid.h + mine.first_y) * grid.w - at.first_input;
    mine.output = (channel * at.rows + first_row) * grid.q + mine.first_q;
    return mine;
  }
};

/// The fragments of the band matrices: of the part, and of a half of its windows, 8 columns.
template <int kTaps, int kStride>
struct RowWeights {
  static constexpr int kHalves = kStride + 1;
  uint32_t fragments[kTaps][2][kHalves];

  __device__ __forceinline__ RowWeights(const uint16_t* filter, const ImageRowsBand& band,
                                        int padding_left, int width) {
    constexpr int kCount = kTaps * kTaps, kColumns = ImageRowsTile::kColumns;
    static_assert(kCount < 32, "a lane has a weight and the next, the last one has the first");
    const int lane = threadIdx.x % 32;
    const uint32_t weight = lane < kCount ? filter[lane] : 0;
    const uint32_t pair = weight | __shfl_sync(~0u, weight, (lane + 1) % 32) << 16;
#pragma unroll
    for (int part = 0; part < 2; ++part) {
#pragma unroll
      for (int half = 0; half < kHalves; ++half) {
        const int x = band.first_x + (part * kStride + half) * kColumns + lane % 4 * 2;
        const int q = band.first_q + part * kColumns + lane / 4;
        const int s = x - q * kStride + padding_left;
        uint32_t mask = 0;
#pragma unroll
        for (int i = 0; i < 2; ++i)
          if (unsigned(s + i) < kTaps && unsigned(x + i) < unsigned(width))
            mask |= 0xffffu << 16 * i;
#pragma unroll
        for (int r = 0; r < kTaps; ++r)
          fragments[r][part][half] = __shfl_sync(~0u, pair, (r * kTaps + s) & 31) & mask;
      }
    }
  }
};

/// A row's windows: the lane's pairs of its two images, of each half.
template <int kStride, bool kIsWide>
struct RowWindows {
  static constexpr int kHalves = 2 * kStride + kIsWide;
  uint32_t words[kHalves][2];

  __device__ __forceinline__ RowWindows(uint32_t first, uint32_t second) {
#pragma unroll
    for (int half = 0; half < kHalves; ++half) {
      words[half][0] = load_shared(first + 16 * half);
      words[half][1] = load_shared(second + 16 * half);
    }
  }
};

/// The sums of the rows of outputs whose windows hold a row of the input, of both parts.
template <class Element, int kTaps, int kStride, bool kIsWide>
struct RowSums {
  using Phases = BandPhases<kTaps, kStride>;
  using Weights = RowWeights<kTaps, kStride>;
  using Windows = RowWindows<kStride, kIsWide>;
  float sums[Phases::kLive][2][4];

  __device__ __forceinline__ void start(int live, const float (&initial)[4]) {
#pragma unroll
    for (int i = 0; i < 8; ++i) sums[live][i / 4][i % 4] = initial[i % 4];
  }

  /// The sums, which start anew after this.
  __device__ __forceinline__ void take(int live, const float (&initial)[4], float (&taken)[2][4]) {
#pragma unroll
    for (int i = 0; i < 8; ++i) taken[i / 4][i % 4] = sums[live][i / 4][i % 4];
    start(live, initial);
  }

  __device__ __forceinline__ void add(int phase, const Weights& weights, const Windows& windows) {
#pragma unroll
    for (int r = phase % kStride; r < kTaps; r += kStride) {
      float(&sum)[2][4] = sums[Phases::live(phase, r)];
      multiply<kStride + 1>(sum[0], weights.fragments[r][0], windows, 0);
      multiply<kStride + kIsWide>(sum[1], weights.fragments[r][1], windows, kStride);
    }
  }

 private:
  /// So many halves of the windows, from `first` on.
  template <int kHalves>
  __device__ __forceinline__ static void multiply(float (&sum)[4],
                                                  const uint32_t (&weight)[Weights::kHalves],
                                                  const Windows& windows, int first) {
    const auto& x = windows.words;
    if constexpr (kHalves >= 2)
      multiply_16<Element>(sum, {x[first][0], x[first][1], x[first + 1][0], x[first + 1][1]},
                           weight[0], weight[1]);
    if constexpr (kHalves != 2)
      multiply_8<Element>(sum, {x[first + kHalves - 1][0], x[first + kHalves - 1][1], 0, 0},
                          weight[kHalves - 1]);
  }
};

/// Finishes a warp's sums and puts them into shared memory, in pairs of neighbours.
template <class Element, bool kIsClamp>
class PairWriter {
 public:
  __device__ __forceinline__ PairWriter(const DepthwiseArguments<Element, float>& arguments,
                                        const ImageRowsGrid& grid, const ImageRowsBand& band,
                                        const uint4* shared)
      : a_(arguments),
        grid_(grid),
        clamp_(a_.clamp),
        q_(band.first_q + int(threadIdx.x % 4) * 2),
        second_(keep(8 * grid.tile.output_words * 16)) {
    row_ = shared_address(shared) + second_ / 8 * (threadIdx.x % 32 / 4) +
           band.output * int(sizeof(Element)) + threadIdx.x % 4 * 4;
  }

  __device__ __forceinline__ void write(float (&sums)[2][4]) {
    activate<kIsClamp>(a_, reinterpret_cast<float(&)[8]>(sums));
#pragma unroll
    for (int part = 0; part < 2; ++part) {
      const int q = q_ + part * ImageRowsTile::kColumns;
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        const Pair<Element> pair =
            clamp_(pair_of<Element>(sums[part][2 * i], sums[part][2 * i + 1]));
        finiteness_.add(pair);
        if (q < grid_.q)
          store_shared(row_ + 16 * part + i * second_, reinterpret_cast<const uint32_t&>(pair));
      }
    }
    row_ += grid_.q * int(sizeof(Element));
  }

  /// False if what the lane wrote may be wrong: zeros beside the bands make NaN of infinite factors
  /// that are not an output's own.
  __device__ __forceinline__ bool is_right() const { return finiteness_.is_finite(); }

 private:
  const DepthwiseArguments<Element, float>& a_;
  const ImageRowsGrid& grid_;
  PairClamp<Element> clamp_;
  Finiteness<Element> finiteness_;
  int q_;       // of the lane's first pair
  int second_;  // bytes to its other image's
  uint32_t row_;
};

/// Computes the warp's band again. It works out where that is by itself, so that nothing is kept for it.
template <int kTaps, int kStride, class Element>
__device__ __noinline__ void correct(const DepthwiseArguments<Element, float>& a,
                                     const ImageRowsGrid& grid, Element* shared) {
  const int padding_top = static_cast<int>(a.vertical.padding);
  const auto at = ImageRowsPlace::of<kTaps, kStride>(grid, padding_top);
  const auto band = ImageRowsBand::of<kTaps, kStride>(grid, at, padding_top,
                                                      static_cast<int>(a.horizontal.padding));
  const int columns = min(2 * ImageRowsTile::kColumns, grid.q - band.first_q);
  for (int image = 0; image < at.images; ++image) {
    Element* const first = shared + image * grid.tile.output_words * 8 + band.output;
    for (int i = threadIdx.x % 32; i < band.rows * columns; i += 32) {
      const int row = i / columns, column = i % columns;
      first[row * grid.q + column] =
          compute_any(a, at.first_n + image, band.k, band.first_p + row, band.first_q + column);
    }
  }
}

/// The warp's band, from shared memory to shared memory. False if an output may be wrong.
template <class Element, int kTaps, int kStride, bool kIsWide, bool kIsClamp>
__device__ __forceinline__ bool compute_band(const DepthwiseArguments<Element, float>& a,
                                             const ImageRowsGrid& grid, const ImageRowsBand& band,
                                             const RowWeights<kTaps, kStride>& weights,
                                             const float (&initial)[4], const uint4* input,
                                             const uint4* output) {
  using Phases = BandPhases<kTaps, kStride>;
  using Sums = RowSums<Element, kTaps, kStride, kIsWide>;
  const int lane = threadIdx.x % 32, pitch = grid.tile.input_words * 16;
  const int second = keep(8 * pitch), row_bytes = grid.w * int(sizeof(Element));
  const uint32_t zeros = shared_address(input - ImageRowsTile::kZeroWords) + lane % 4 * 4;
  uint32_t row = shared_address(input) + lane / 4 * pitch + lane % 4 * 4 +
                 (band.input + band.first_x) * int(sizeof(Element));
  const int top = max(0, -band.first_y);
  const int inside = max(0, min(band.input_rows, grid.h - band.first_y) - top);
  const auto load = [&](int i) {
    const bool is_inside = unsigned(i - top) < unsigned(inside);
    const typename Sums::Windows windows(is_inside ? row : zeros, is_inside ? row + second : zeros);
    row += row_bytes;
    return windows;
  };
  Sums sums;
#pragma unroll
  for (int live = 0; live < Phases::kLive; ++live) sums.start(live, initial);
  PairWriter<Element, kIsClamp> writer(a, grid, band, output);
  typename Sums::Windows windows = load(0);
  // While a row is multiplied, the next one is on its way, and outputs that the one before completed leave.
#pragma unroll 1
  for (int first = 0; first <= band.input_rows; first += Phases::kPeriod) {
#pragma unroll
    for (int phase = 0; phase < Phases::kPeriod; ++phase) {
      const int i = first + phase, before = (phase + Phases::kPeriod - 1) % Phases::kPeriod;
      const bool is_complete = Phases::is_last(before);
      float taken[2][4];
      if (is_complete) sums.take(Phases::live(before, kTaps - 1), initial, taken);
      const typename Sums::Windows next = load(i + 1);
      sums.add(phase, weights, windows);
      windows = next;
      if (is_complete && i >= kTaps && i <= band.input_rows) writer.write(taken);
    }
  }
  return writer.is_right();
}

template <class Element, int kTaps, int kStride, bool kIsClamp>
__device__ __forceinline__ void multiply_image_rows(const DepthwiseArguments<Element, float>& a,
                                                    const ImageRowsGrid& grid) {
  const int padding_top = static_cast<int>(a.vertical.padding);
  const int padding_left = static_cast<int>(a.horizontal.padding);
  const auto at = ImageRowsPlace::of<kTaps, kStride>(grid, padding_top);
  uint4* const input = dynamic_shared<uint4>() + ImageRowsTile::kZeroWords;
  uint4* const output =
      input + ImageRowsTile::kImages * grid.tile.input_words + ImageRowsTile::kZeroWords;
  follow();
  load_image_rows(reinterpret_cast<const uint4*>(a.input), grid, at, input);
  const auto band = ImageRowsBand::of<kTaps, kStride>(grid, at, padding_top, padding_left);
  const RowWeights<kTaps, kStride> weights(
      reinterpret_cast<const uint16_t*>(a.filter) + band.k * kTaps * kTaps, band, padding_left,
      grid.w);
  const float bias = a.outputs.bias(band.k);
  // Four registers, as products take it, that the compiler does not know to be the same.
  const float initial[4] = {__shfl_sync(~0u, bias, 0), __shfl_sync(~0u, bias, 1),
                            __shfl_sync(~0u, bias, 2), __shfl_sync(~0u, bias, 3)};
  __pipeline_wait_prior(0);
  __syncthreads();
  const auto compute = [&](auto is_wide) {
    return compute_band<Element, kTaps, kStride, is_wide, kIsClamp>(a, grid, band, weights, initial,
                                                                    input, output);
  };
  const bool is_right = band.is_wide ? compute(std::true_type{}) : compute(std::false_type{});
  if (!__all_sync(~0u, is_right))
    correct<kTaps, kStride>(a, grid, reinterpret_cast<Element*>(output));
  __syncthreads();
  store_image_rows(reinterpret_cast<uint4*>(a.outputs.data()), grid, at, output);
}

template <class Element, int kTaps, int kStride, bool kIsClamp>
__global__ void __launch_bounds__(32 * ImageRowsTile::kMaxWarps, 2)
    depthwise_image_rows_kernel(const __grid_constant__ DepthwiseArguments<Element, float> a,
                                const __grid_constant__ ImageRowsGrid grid) {
  if constexpr (has_code(kIsClamp)) multiply_image_rows<Element, kTaps, kStride, kIsClamp>(a, grid);
}

}  // namespace im2win::cuda
