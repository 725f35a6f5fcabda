// Depthwise convolution of any window and any strides, by FMAs. A thread reads the windows of some outputs of the same
// channels straight from memory, a tap of all of them at a time: nothing is staged but weights, so that many loads are
// under way, and what windows have in common comes from the L1 cache.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "checked.hpp"
#include "cuda/depthwise/gather_tile.hpp"
#include "cuda/depthwise/sum.cuh"
#include "cuda/launch.cuh"

namespace im2win::cuda {

/// So many elements, or factors of them, that are read or written at a time.
template <class Value, int kCount>
struct alignas(std::min<size_t>(16, kCount * sizeof(Value))) GatherWord {
  Value elements[kCount];
};

/// Of so many bytes, for load_if().
template <size_t kBytes>
using RawWord = std::conditional_t<
    kBytes == 16, uint4,
    std::conditional_t<kBytes == 8, uint2, std::conditional_t<kBytes == 4, float, uint16_t>>>;

/// The tile and the tensors. Plain data.
struct GatherGrid {
  static constexpr bool kStartsEarly = true;  // before the kernel ahead of it ends: follow()
  GatherTile tile;
  Divisor channel_blocks;
  Divisor neighbours;  // threads: pixels of a plane, or lanes of a pixel
  Divisor tile_taps, tile_columns;
  Divisor p, q;
  int64_t step_n, step_p, step_q;  // from one of a thread's pixels to the next
  int64_t k, r, s;
  int64_t pixels, blocks;

  GatherGrid(const Problem& problem, const GatherTile& chosen)
      : tile(chosen),
        channel_blocks(ceil_div(problem.k, tile.channels())),
        neighbours(tile.is_channel_major ? tile.pixels : tile.lanes),
        tile_taps(tile.taps()),
        tile_columns(tile.columns),
        p(problem.p),
        q(problem.q),
        step_n(tile.pixels / (problem.p * problem.q)),
        step_p(tile.pixels / problem.q % problem.p),
        step_q(tile.pixels % problem.q),
        k(problem.k),
        r(problem.r),
        s(problem.s),
        pixels(problem.output_pixels()),
        blocks(channel_blocks.divisor * ceil_div(pixels, tile.span())) {}
};

/// What a thread computes: a word of channels from k on, of `count` pixels, the first of which is `pixel`.
struct GatherPlace {
  int64_t first_k;  // the block's
  int lane;
  int64_t k, pixel;
  int count;

  __device__ __forceinline__ explicit GatherPlace(const GatherGrid& grid) {
    const GatherTile& tile = grid.tile;
    const auto [pixels, channels] = grid.channel_blocks.divide(block_index());
    const auto [outer, inner] = grid.neighbours.divide(static_cast<int>(threadIdx.x));
    const int number = tile.is_channel_major ? inner : outer;
    first_k = channels * tile.channels();
    lane = tile.is_channel_major ? outer : inner;
    k = first_k + lane * tile.word;
    pixel = pixels * tile.span() + number;
    count = 0;
    const bool is_any = lane < tile.lanes && k < grid.k && number < tile.pixels;
    lane = min(lane, tile.lanes - 1);  // whose weights others read, too
    if (!is_any) return;
    const int left = static_cast<int>(min(grid.pixels - pixel, int64_t{tile.span()}));
#pragma unroll
    for (int i = 0; i < gather_pixels(1); ++i)
      count += i < gather_pixels(tile.word) && i * tile.pixels < left;
  }
};

/// Goes through a thread's pixels.
template <class Number>
struct PixelWalk {
  Number n, p, q;

  __device__ __forceinline__ PixelWalk(const GatherGrid& grid, const GatherPlace& at) {
    const auto [row, column] = grid.q.divide(static_cast<Number>(at.count > 0 ? at.pixel : 0));
    const auto [image, line] = grid.p.divide(row);
    n = image, p = line, q = column;
  }

  __device__ __forceinline__ void next(const GatherGrid& grid) {
    const auto width = static_cast<Number>(grid.q.divisor),
               height = static_cast<Number>(grid.p.divisor);
    n += static_cast<Number>(grid.step_n);
    p += static_cast<Number>(grid.step_p);
    q += static_cast<Number>(grid.step_q);
    if (q >= width) q -= width, ++p;
    if (p >= height) p -= height, ++n;
  }
};

/// One of a thread's pixels: its window's first input, which may be outside the image. Unsigned, as what is before the
/// image is then beyond it, and distances may wrap around. Of a pixel that there is not, all rows are beyond it.
template <class Element, class Distance>
struct GatherWindow {
  using Signed = std::make_signed_t<Distance>;
  const Element* first;
  Distance y, x;

  GatherWindow() = default;

  template <class Compute>
  __device__ __forceinline__ GatherWindow(const DepthwiseArguments<Element, Compute>& a,
                                          const Element* channel, const PixelWalk<Signed>& at,
                                          bool is_any) {
    const auto start = [](const Axis& axis, Signed window) {
      return static_cast<Distance>(window) * static_cast<Distance>(axis.stride) -
             static_cast<Distance>(axis.padding);
    };
    y = is_any ? start(a.vertical, at.p) : static_cast<Distance>(a.vertical.size);
    x = start(a.horizontal, at.q);
    first = channel + at.n * a.input_stride[0] +
            static_cast<Signed>(y * static_cast<Distance>(a.input_stride[2]) +
                                x * static_cast<Distance>(a.input_stride[3]));
  }
};

/// Some rows and columns of the filters of a block's channels, from row r and column s on.
template <class Element, class Compute>
__device__ __forceinline__ void load_weights(const DepthwiseArguments<Element, Compute>& a,
                                             const GatherGrid& grid, int64_t first_k,
                                             int64_t first_r, int64_t first_s, Compute* weights) {
  const GatherTile& tile = grid.tile;
  const int64_t(&stride)[4] = a.filter_stride;
#pragma unroll 2
  for (int i = threadIdx.x; i < tile.channels() * tile.taps(); i += blockDim.x) {
    const auto [channel, tap] = grid.tile_taps.divide(i);
    const auto [row, column] = grid.tile_columns.divide(tap);
    const int64_t k = first_k + channel, r = first_r + row, s = first_s + column;
    if (k >= grid.k || r >= grid.r || s >= grid.s) continue;
    weights[channel * tile.channel_pitch + tap * tile.tap_pitch] =
        to_compute<Compute>(a.filter[k * stride[0] + r * stride[2] + s * stride[3]]);
  }
}

template <class Element, class Compute, int kWord, class Distance>
class GatherSums {
 public:
  static constexpr int kPixels = gather_pixels(kWord);
  using Arguments = DepthwiseArguments<Element, Compute>;
  using Window = GatherWindow<Element, Distance>;
  using Signed = std::make_signed_t<Distance>;
  using Word = GatherWord<Element, kWord>;
  using Factors = GatherWord<Compute, kWord>;

  Compute sums[kPixels][kWord] = {};

  /// Adds what the tile's rows and columns of taps make, from row r and column s on.
  __device__ __forceinline__ void add(const Arguments& a, const GatherGrid& grid, int64_t r,
                                      int64_t s, const Window (&windows)[kPixels],
                                      const Compute* weights) {
    const GatherTile& tile = grid.tile;
    const auto height = static_cast<Distance>(a.vertical.size);
    const auto width = static_cast<Distance>(a.horizontal.size);
    const auto down = static_cast<Distance>(a.vertical.dilation.divisor);
    const auto along = static_cast<Distance>(a.horizontal.dilation.divisor);
    const auto row_pitch = static_cast<Distance>(a.input_stride[2]);
    const auto column_pitch = static_cast<Distance>(a.input_stride[3]);
    const int rows = static_cast<int>(min(grid.r - r, int64_t{tile.rows}));
    const int columns = static_cast<int>(min(grid.s - s, int64_t{tile.columns}));
    const Distance below = static_cast<Distance>(r) * down,
                   beyond = static_cast<Distance>(s) * along;
    Row at[kPixels];
    bool are_columns = true;
#pragma unroll
    for (int i = 0; i < kPixels; ++i) {
      const Distance x = windows[i].x + beyond;
      at[i] = {windows[i].first + static_cast<Signed>(below * row_pitch + beyond * column_pitch), x,
               true};
      are_columns = are_columns && x < width && (columns - 1) * along < width - x;
    }
    Distance y = below;
    for (int row = 0; row < rows; ++row, y += down, weights += tile.columns * tile.tap_pitch) {
      bool are_all = true, is_one = false;
#pragma unroll
      for (int i = 0; i < kPixels; ++i) {
        at[i].is_inside = windows[i].y + y < height;
        are_all = are_all && at[i].is_inside;
        is_one = is_one || at[i].is_inside;
      }
      // A warp goes one way: both would take longer than the one that does for all.
      if (__all_sync(kWarp, are_all && are_columns))
        add_columns<true>(a, tile, at, columns, weights);
      else if (__any_sync(kWarp, is_one))
        add_columns<false>(a, tile, at, columns, weights);
#pragma unroll
      for (Row& each : at) each.first += static_cast<Signed>(down * row_pitch);
    }
  }

 private:
  static constexpr unsigned kWarp = ~0u;

  /// Of the input, below a pixel.
  struct Row {
    const Element* first;
    Distance x;
    bool is_inside;
  };

  /// What is not in the image is zero. Loops are unrolled by a power of two: of others nvcc 13.0 makes more turns than
  /// there are.
  template <bool kAreAll>
  __device__ __forceinline__ void add_columns(const Arguments& a, const GatherTile& tile,
                                              const Row (&rows)[kPixels], int columns,
                                              const Compute* weights) {
    const auto width = static_cast<Distance>(a.horizontal.size);
    const auto along = static_cast<Distance>(a.horizontal.dilation.divisor);
    const auto step = static_cast<Signed>(along * static_cast<Distance>(a.input_stride[3]));
    Distance beyond = 0;
    Signed place = 0;
#pragma unroll 2
    for (int s = 0; s < columns; ++s, beyond += along, place += step, weights += tile.tap_pitch) {
      Word words[kPixels];
#pragma unroll
      for (int i = 0; i < kPixels; ++i)
        words[i] = load_word<kAreAll>(rows[i].is_inside && rows[i].x + beyond < width,
                                      rows[i].first + place);
      const auto factors = *reinterpret_cast<const Factors*>(weights);
#pragma unroll
      for (int i = 0; i < kPixels; ++i)
#pragma unroll
        for (int j = 0; j < kWord; ++j)
          sums[i][j] =
              fma(factors.elements[j], to_compute<Compute>(words[i].elements[j]), sums[i][j]);
    }
  }

  template <bool kIsThere>
  __device__ __forceinline__ static Word load_word(bool is_inside, const Element* p) {
    using Raw = RawWord<sizeof(Word)>;
    const auto* const raw = reinterpret_cast<const Raw*>(p);
    const Raw word = load_if(kIsThere || is_inside, raw);
    return reinterpret_cast<const Word&>(word);
  }
};

/// Computes a thread's outputs in the plainest way.
template <int kWord, class Distance, class Element, class Compute>
__device__ __noinline__ void write_again(const DepthwiseArguments<Element, Compute>& a,
                                         const GatherGrid& grid, const GatherPlace& at) {
  PixelWalk<std::make_signed_t<Distance>> walk(grid, at);
  for (int i = 0; i < at.count; ++i, walk.next(grid))
    for (int j = 0; j < kWord; ++j)
      write_any(a, a.outputs.filter(at.k + j), walk.n, at.k + j, walk.p, walk.q);
}

/// Finishes and writes a thread's sums. Where one is not finite all are computed again: zeros beyond the image make NaN
/// of infinite weights.
template <class Element, class Compute, int kWord, class Distance>
__device__ __forceinline__ void write(const DepthwiseArguments<Element, Compute>& a,
                                      const GatherGrid& grid, const GatherPlace& at,
                                      const GatherSums<Element, Compute, kWord, Distance>& all) {
  using Signed = std::make_signed_t<Distance>;
  using Word = GatherWord<Element, kWord>;
  const int64_t* const stride = a.outputs.strides();
  if (at.count == 0) return;
  Compute zero = 0;
#pragma unroll
  for (const auto& sums : all.sums)
#pragma unroll
    for (const Compute sum : sums) zero = fma(sum, Compute(0), zero);
  if (zero != 0) return write_again<kWord, Distance>(a, grid, at);
  Element* const channel = a.outputs.data() + at.k * stride[1];
  PixelWalk<Signed> walk(grid, at);
  const auto store = [&](auto finish) {
#pragma unroll
    for (int i = 0; i < gather_pixels(kWord); ++i, walk.next(grid)) {
      if (i >= at.count) break;
      Word word;
#pragma unroll
      for (int j = 0; j < kWord; ++j) word.elements[j] = finish(all.sums[i][j], j);
      *reinterpret_cast<Word*>(
          channel + walk.n * stride[0] +
          static_cast<Signed>(static_cast<Distance>(walk.p) * static_cast<Distance>(stride[2]) +
                              static_cast<Distance>(walk.q) * static_cast<Distance>(stride[3]))) =
          word;
    }
  };
  if (a.clamps) {
    Compute bias[kWord];
#pragma unroll
    for (int j = 0; j < kWord; ++j) bias[j] = a.outputs.bias(at.k + j);
    store([&](Compute sum, int j) { return from_compute<Element>(a.clamp(sum + bias[j])); });
  } else {
    store([&](Compute sum, int j) { return finish_any(a, walk.n, at.k + j, walk.p, walk.q, sum); });
  }
}

template <class Element, class Compute, int kWord, class Distance>
__global__ void __launch_bounds__(GatherTile::kThreads, GatherTile::kBlocks)
    depthwise_gather_kernel(const __grid_constant__ DepthwiseArguments<Element, Compute> a,
                            const __grid_constant__ GatherGrid grid) {
  if (block_index() >= grid.blocks) return;
  follow(false);
  using Window = GatherWindow<Element, Distance>;
  const GatherTile& tile = grid.tile;
  const GatherPlace at(grid);
  const Element* const channel = a.input + a.multiplier.quotient(at.k) * a.input_stride[1];
  PixelWalk<std::make_signed_t<Distance>> walk(grid, at);
  Window windows[gather_pixels(kWord)];
#pragma unroll
  for (int i = 0; i < gather_pixels(kWord); ++i, walk.next(grid))
    windows[i] = Window(a, channel, walk, i < at.count);

  Compute* const weights = dynamic_shared<Compute>();
  GatherSums<Element, Compute, kWord, Distance> sums;
  for (int64_t r = 0; r < grid.r; r += tile.rows)
    for (int64_t s = 0; s < grid.s; s += tile.columns) {
      if (r + s > 0) __syncthreads();
      load_weights(a, grid, at.first_k, r, s, weights);
      __syncthreads();
      sums.add(a, grid, r, s, windows, weights + at.lane * tile.word * tile.channel_pitch);
    }
  ptx::let_next_start();
  write(a, grid, at, sums);
}

}  // namespace im2win::cuda
