// The GEMM of Algorithm 3 (paper): what its kernels are given, and the part of it that a block has.
//
// M = filters of a group, N = output pixels (n, p, q), K = taps (c, s, r), r fastest, which is the
// order of the im2win tensor. The window element of a pixel and a tap lies at
//   base(pixel) + offset(tap),  offset = c * channel + s * column + r,
// so neighbouring taps of a pixel are neighbours in memory.
//
// A warp's 32 threads are 4 (filters) x 8 (pixels). A thread owns M_T x N_T outputs in groups of V
// neighbours (V = 4: one 16-byte load from shared memory; V = 1 for the ablation).
#pragma once

#include <cstdint>

#include "cuda/divisor.hpp"
#include "cuda/epilogue.cuh"
#include "cuda/im2win/tile.hpp"
#include "cuda/window.cuh"
#include "problem.hpp"

namespace im2win::cuda {

/// How a thread of the loader steps K_B taps on without dividing: the digits of K_B in the mixed
/// radix (R, S), and the elements that the window's address moves by, with corrections for the
/// carries.
struct TapSteps {
  int r, s;            // the radices
  int step_r, step_s;  // the digits
  int64_t step;        // without a carry
  int64_t carry_r;     // from r = R to s + 1
  int64_t carry_s;     // from s = S to c + 1

  TapSteps(const Problem& problem, const WindowLayout& layout, int taps)
      : r(static_cast<int>(problem.r)),
        s(static_cast<int>(problem.s)),
        step_r(taps % r),
        step_s(taps / r % s),
        step(taps / r / s * layout.channel + step_s * layout.column + step_r),
        carry_r(layout.column - r),
        carry_s(layout.channel - s * layout.column) {}
};

struct Im2winArguments {
  const float* windows = nullptr;  // the im2win tensor
  const float* filters = nullptr;  // packed: [group][tile of M_B][tap, padded][M_B]
  Outputs<float, float> outputs;
  WindowProduct exact;  // over packed filters
  TapSteps steps;
  Divisor q, p;
  Divisor filter_tiles, pixel_tiles;
  int64_t blocks;
  int64_t pixels;
  int64_t filters_per_group;
  int64_t padded_taps;
  int taps;
  bool padded;  // whether windows hold elements that are not of the image

  Im2winArguments(const Problem& problem, const WindowLayout& layout, const Im2winTile& tile);
};

using Im2winKernel = void (*)(const Im2winArguments);

template <int kIndex, Im2winVariant kVariant>
struct BlockTile {
  static constexpr Im2winTile kTile = im2win_tile(kIndex, kVariant);
  static constexpr int kM = kTile.filters, kN = kTile.pixels, kK = kTile.taps;
  static constexpr int kMicroM = kTile.micro_filters, kMicroN = kTile.micro_pixels;
  static constexpr int kVector = kTile.vector;
  static constexpr int kThreads = kTile.threads();
  static constexpr int kBuffers = kTile.prefetch ? 2 : 1;

  static constexpr int kLanesM = 4, kLanesN = 8;
  static constexpr int kWarpM = kLanesM * kMicroM, kWarpN = kLanesN * kMicroN;
  static constexpr int kWarpsN = kN / kWarpN;

  // Of the window tile's rows. The loader's warps store 8 taps x 4 pixels transposed: with a pitch
  // of 4 modulo 32 words these go to 32 different banks.
  static constexpr int kPitch = kN + 4;
  // Of the rows in which a warp gathers finished outputs: the 4 rows that its lanes write at a time
  // start 8 banks apart, so that the 16-byte stores of 8 lanes, 4 x 2, meet 32 different banks.
  static constexpr int kOutputRows = kLanesM * kVector;
  static constexpr int kOutputPitch = kWarpN + 8;

  static_assert(kIm2winTapMultiple % kK == 0 && kK % 8 == 0 && kN <= kIm2winMaxPixels);
  static_assert(kM % kWarpM == 0 && kN % kWarpN == 0);
  static_assert(kMicroM % kVector == 0 && kMicroN % kVector == 0 && (kVector == 4 || kVector == 1));
};

/// K_B taps of filters and windows, tap by tap.
template <class T>
struct alignas(16) Tiles {
  float filters[T::kK][T::kM];
  float windows[T::kK][T::kPitch];
};

template <class T>
struct Shared {
  union {
    Tiles<T> tiles[T::kBuffers];
    float outputs[T::kThreads / 32][T::kOutputRows][T::kOutputPitch];
  };
  uint32_t pixels[T::kN];  // base(pixel), from where the image of the block's first one begins
};

/// The part of the GEMM that a block computes.
struct BlockPosition {
  int64_t group, filter_tile, first_pixel;

  /// Blocks of the same windows and neighbouring filters run together: the windows are the larger
  /// operand, and come out of the L2 cache for all but the first.
  template <class T>
  __device__ __forceinline__ static BlockPosition of(const Im2winArguments& a, int64_t block) {
    const auto [rest, filter_tile] = a.filter_tiles.divide(block);
    const auto [group, pixel_tile] = a.pixel_tiles.divide(rest);
    return {group, filter_tile, pixel_tile * T::kN};
  }
};

struct PixelPosition {
  int64_t n, p, q;

  __device__ __forceinline__ static PixelPosition of(const Im2winArguments& a, int64_t pixel) {
    const auto [row, q] = a.q.divide(pixel);
    const auto [n, p] = a.p.divide(row);
    return {n, p, q};
  }

  __device__ __forceinline__ int64_t base(const WindowLayout& layout) const {
    return layout.offset(n, p, q);
  }
  __device__ __forceinline__ int64_t image(const WindowLayout& layout) const {
    return n * layout.image;
  }
};

}  // namespace im2win::cuda
