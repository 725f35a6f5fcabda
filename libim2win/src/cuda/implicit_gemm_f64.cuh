// Algorithm 1 of the paper in float64, by tensor cores: the implicit GEMM of M = filters of a group,
// N = output pixels, K = taps, tile by tile. Windows are gathered from the input on the way to shared
// memory, whatever the tensors' strides; taps go in the order in which the input has them.
//
// A padded window's zeros make NaN of weights that are not finite. NaN stays NaN in a sum, so a sum
// that is none has not met one; one that is NaN is computed again from the taps inside the image.
#pragma once

#include "checked.hpp"
#include "cuda/direct.cuh"
#include "cuda/launch.cuh"

namespace im2win::cuda::f64 {

constexpr int kEdge = 64;  // of a block's tile of filters by pixels
constexpr int kTaps = 8;   // that it has at a time
constexpr int kThreads = 128;
constexpr int kLoads = kEdge * kTaps / kThreads;  // of a thread and operand
/// 4 taps of 4 neighbours, which half a warp reads at a time, lie in different banks.
constexpr int kPitch = kEdge + 4;

struct Arguments {
  DirectArguments<double, double> exact;
  Divisor channels, window, columns;  // of a group; of R * S taps; of S
  Divisor p, q;
  Divisor filter_tiles, pixel_tiles;
  int64_t h, w;
  int64_t filters;  // of a group
  int64_t pixels, blocks;
  int taps;
  bool is_padded;

  explicit Arguments(const Problem& problem)
      : exact(problem),
        channels(problem.c_per_group()),
        window(problem.r * problem.s),
        columns(problem.s),
        p(problem.p),
        q(problem.q),
        filter_tiles(ceil_div(problem.k_per_group(), kEdge)),
        pixel_tiles(std::max<int64_t>(ceil_div(problem.output_pixels(), kEdge), 1)),
        h(problem.h),
        w(problem.w),
        filters(problem.k_per_group()),
        pixels(problem.output_pixels()),
        blocks(problem.groups * filter_tiles.divisor * pixel_tiles.divisor),
        taps(static_cast<int>(problem.window_elements())),
        is_padded(problem.is_padded()) {}
};

/// The part of the GEMM that a block computes. Blocks of the same windows run together.
struct Place {
  int64_t group, first_filter, first_pixel;

  __device__ __forceinline__ Place(const Arguments& a, int64_t block) {
    const auto [rest, filter_tile] = a.filter_tiles.divide(block);
    const auto [number, pixel_tile] = a.pixel_tiles.divide(rest);
    group = number;
    first_filter = filter_tile * kEdge;
    first_pixel = pixel_tile * kEdge;
  }
};

__device__ __forceinline__ OutputIndex output_at(const Arguments& a, const Place& place,
                                                 int64_t filter, int64_t pixel) {
  const auto [row, q] = a.q.divide(pixel);
  const auto [n, p] = a.p.divide(row);
  return {n, place.group * a.filters + filter, p, q};
}

/// How far a tap is from the first one of its window and of its filter. Past the last tap: outside
/// any image.
struct Tap {
  int64_t dy, dx;
  int64_t window, filter;  // elements

  /// Neighbours in number are columns of a row, or channels where these are last.
  __device__ __forceinline__ Tap(const Arguments& a, int number, bool are_channels_last) {
    const auto [major, minor] =
        are_channels_last ? a.channels.divide(number) : a.window.divide(number);
    const auto [r, s] = a.columns.divide(are_channels_last ? major : minor);
    const int c = are_channels_last ? minor : major;
    constexpr int64_t kOutside = int64_t{1} << 62;
    dy = number < a.taps ? r * a.exact.dilation_h : kOutside;
    dx = s * a.exact.dilation_w;
    const int64_t(&x)[4] = a.exact.input_stride;
    const int64_t(&f)[4] = a.exact.filter_stride;
    window = c * x[1] + r * a.exact.dilation_h * x[2] + dx * x[3];
    filter = c * f[1] + r * f[2] + s * f[3];
  }
};

/// What a block has in shared memory: of operands the tile that is multiplied and the next one, of
/// taps also the one after that.
struct Shared {
  double filters[2][kTaps][kPitch], windows[2][kTaps][kPitch];
  alignas(16) unsigned char taps[2][kTaps * sizeof(Tap)];

  __device__ __forceinline__ Tap* tile_taps(int tile) {
    return reinterpret_cast<Tap*>(taps[tile % 2]);
  }
};

/// Brings a tile's operands from memory to registers (fetch) and on to shared memory (commit). In
/// either direction neighbouring threads take neighbours in memory: of windows that is pixels, or
/// channels where these are last; of filters taps.
template <bool kChannelsLast>
class Loader {
 public:
  __device__ __forceinline__ Loader(const Arguments& a, const Place& place) : a_(a) {
    const int64_t first_c = place.group * a.channels.divisor;
#pragma unroll
    for (int i = 0; i < kPixels; ++i) {
      const OutputIndex at =
          output_at(a, place, 0, min(place.first_pixel + pixel(i), a.pixels - 1));
      y_[i] = a.exact.vertical.start(at.p);
      x_[i] = a.exact.horizontal.start(at.q);
      const int64_t(&stride)[4] = a.exact.input_stride;
      windows_[i] = a.exact.input + at.n * stride[0] + first_c * stride[1] + y_[i] * stride[2] +
                    x_[i] * stride[3];
    }
    const int64_t k = place.first_filter + filter(0);
    filters_left_ = a.filters - k;
    filter_ = a.exact.filter + (place.group * a.filters + k) * a.exact.filter_stride[0];
  }

  /// The taps of a tile, for fetch() after a barrier.
  __device__ __forceinline__ void tabulate(Shared& shared, int tile) const {
    if (threadIdx.x < kTaps)
      shared.tile_taps(tile)[threadIdx.x] = Tap(a_, tile * kTaps + int(threadIdx.x), kChannelsLast);
  }

  /// Taps past the last are zero in both operands, as 0 * NaN would not be 0.
  __device__ __forceinline__ void fetch(Shared& shared, int tile) {
    const Tap* const taps = shared.tile_taps(tile);
#pragma unroll
    for (int i = 0; i < kLoads / kPixels; ++i) {
      const Tap& tap = taps[window_tap(i)];
#pragma unroll
      for (int j = 0; j < kPixels; ++j) {
        const bool is_inside =
            uint64_t(y_[j] + tap.dy) < uint64_t(a_.h) && uint64_t(x_[j] + tap.dx) < uint64_t(a_.w);
        window_[i * kPixels + j] = is_inside ? windows_[j][tap.window] : 0;
      }
    }
    const Tap& tap = taps[filter_tap()];
    const bool is_tap = tile * kTaps + filter_tap() < a_.taps;
#pragma unroll
    for (int i = 0; i < kLoads; ++i) {
      const int step = filter(i) - filter(0);
      const bool is_any = is_tap && step < filters_left_;
      filters_[i] = is_any ? filter_[step * a_.exact.filter_stride[0] + tap.filter] : 0;
    }
  }

  __device__ __forceinline__ void commit(Shared& shared, int tile) const {
#pragma unroll
    for (int i = 0; i < kLoads; ++i) {
      shared.windows[tile % 2][window_tap(i / kPixels)][pixel(i % kPixels)] = window_[i];
      shared.filters[tile % 2][filter_tap()][filter(i)] = filters_[i];
    }
  }

 private:
  static constexpr int kPixels = kChannelsLast ? kLoads : 1;

  __device__ __forceinline__ static int pixel(int i) {
    return kChannelsLast ? threadIdx.x / kTaps + i * (kThreads / kTaps) : threadIdx.x % kEdge;
  }
  __device__ __forceinline__ static int window_tap(int i) {
    return kChannelsLast ? threadIdx.x % kTaps : threadIdx.x / kEdge + i * (kThreads / kEdge);
  }
  __device__ __forceinline__ static int filter(int i) {
    return threadIdx.x / kTaps + i * (kThreads / kTaps);
  }
  __device__ __forceinline__ static int filter_tap() { return threadIdx.x % kTaps; }

  const Arguments& a_;
  const double* windows_[kPixels];  // of each pixel, from the first tap on
  const double* filter_;
  int64_t y_[kPixels], x_[kPixels];
  int64_t filters_left_;
  double window_[kLoads], filters_[kLoads];
};

/// sums += A B: lane i holds element [i / 4][i % 4] of A, [i % 4][i / 4] of B, and [i / 4] by
/// 2 (i % 4) and the next of the sums (PTX ISA, mma.m8n8k4).
__device__ __forceinline__ void multiply(double (&sums)[2], double a, double b) {
#if __CUDA_ARCH__ >= 800
  // Volatile: all lanes of the warp have to meet here, and not where only some want the sums.
  asm volatile("mma.sync.aligned.m8n8k4.row.col.f64.f64.f64.f64 {%0, %1}, {%2}, {%3}, {%0, %1};"
               : "+d"(sums[0]), "+d"(sums[1])
               : "d"(a), "d"(b));
#else
  __trap();
#endif
}

/// From the taps inside the image alone.
__device__ __noinline__ void write_exact(const Arguments& a, OutputIndex at) {
  const auto& outputs = a.exact.outputs;
  outputs.write(outputs.filter(at.k), outputs.pixel(at.n, at.p, at.q), window_sum(a.exact, at));
}

/// A warp's quarter of the tile, of which a lane holds two neighbouring pixels of every 8 x 8.
class Sums {
 public:
  static constexpr int kSquares = kEdge / 2 / 8;

  __device__ __forceinline__ void add(const double (&filters)[kTaps][kPitch],
                                      const double (&windows)[kTaps][kPitch]) {
    const int lane = threadIdx.x % 32;
#pragma unroll
    for (int tap = 0; tap < kTaps; tap += 4) {
      double a[kSquares], b[kSquares];
#pragma unroll
      for (int i = 0; i < kSquares; ++i) {
        a[i] = filters[tap + lane % 4][first_filter() + 8 * i + lane / 4];
        b[i] = windows[tap + lane % 4][first_pixel() + 8 * i + lane / 4];
      }
#pragma unroll
      for (int m = 0; m < kSquares; ++m)
#pragma unroll
        for (int n = 0; n < kSquares; ++n) multiply(sums_[m][n], a[m], b[n]);
    }
  }

  /// Of each pixel the outputs one after the other.
  __device__ __forceinline__ void write(const Arguments& a, const Place& place) const {
    const int lane = threadIdx.x % 32;
#pragma unroll
    for (int n = 0; n < kSquares; ++n) {
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        const int64_t pixel = place.first_pixel + first_pixel() + 8 * n + lane % 4 * 2 + i;
        if (pixel >= a.pixels) continue;
        const OutputIndex at = output_at(a, place, 0, pixel);
        const auto part = a.exact.outputs.pixel(at.n, at.p, at.q);
#pragma unroll
        for (int m = 0; m < kSquares; ++m) {
          const int64_t filter = place.first_filter + first_filter() + 8 * m + lane / 4;
          const int64_t k = place.group * a.filters + filter;
          const double sum = sums_[m][n][i];
          if (filter >= a.filters) continue;
          if (a.is_padded && sum != sum)
            write_exact(a, {at.n, k, at.p, at.q});
          else
            a.exact.outputs.write(a.exact.outputs.filter(k), part, sum);
        }
      }
    }
  }

 private:
  __device__ __forceinline__ static int first_filter() { return threadIdx.x / 64 * (kEdge / 2); }
  __device__ __forceinline__ static int first_pixel() { return threadIdx.x / 32 % 2 * (kEdge / 2); }

  double sums_[kSquares][kSquares][2] = {};
};

template <bool kChannelsLast>
__global__ void __launch_bounds__(kThreads, 3)
    implicit_gemm_f64_kernel(const __grid_constant__ Arguments a) {
  __shared__ Shared shared;
  if (block_index() >= a.blocks) return;
  const Place place(a, block_index());
  Loader<kChannelsLast> loader(a, place);
  Sums sums;
  loader.tabulate(shared, 0);
  loader.tabulate(shared, 1);
  __syncthreads();
  loader.fetch(shared, 0);
  loader.commit(shared, 0);
  const int tiles = (a.taps + kTaps - 1) / kTaps;
  for (int tile = 0; tile < tiles; ++tile) {
    __syncthreads();
    if (tile + 1 < tiles) loader.fetch(shared, tile + 1);
    if (tile + 2 < tiles) loader.tabulate(shared, tile + 2);
    sums.add(shared.filters[tile % 2], shared.windows[tile % 2]);
    if (tile + 1 < tiles) loader.commit(shared, tile + 1);
  }
  sums.write(a, place);
}

}  // namespace im2win::cuda::f64
