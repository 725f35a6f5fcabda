// Depthwise convolution of any window, stride and dilation, by FMAs. A block stages its channels'
// input in shared memory as planes of float, zeros outside the image, whatever the layout, so that a
// thread's window is a matter of distances. A row of the input contributes at once to all rows of
// outputs whose windows hold it, with some taps of a row of the filter at a time.
#pragma once

#include "cuda/depthwise/windows_rows.cuh"

namespace im2win::cuda {

/// A thread's outputs: those of a comb in each direction, in the tile.
struct WindowsStrip {
  int channel, row, column;  // the first
  int input;                 // below it in shared memory, but for the comb's columns
  int column_comb, first;    // the comb's, and which of its inputs
  int rows, columns;         // in the image

  __device__ __forceinline__ WindowsStrip(const WindowsGrid& grid, const WindowsPlace& at) {
    const WindowsTile& tile = grid.tile;
    const auto [rest, strip] = grid.strips.divide(static_cast<int>(threadIdx.x));
    const auto [number, band] = grid.bands.divide(rest);
    const auto [across, along_comb] = grid.along.outputs.divide(strip);
    const auto [below, down_comb] = grid.down.outputs.divide(band);
    channel = number;
    column_comb = along_comb;
    first = across * WindowsTile::kColumns + at.shift;
    row = below * tile.thread_rows * grid.down.starts() + down_comb;
    column = across * WindowsTile::kColumns * grid.along.starts() + along_comb;
    input = channel * tile.plane_pitch + row * grid.down.stride * tile.row_pitch;
    const auto share = [](int left, int starts, int most) {
      return left <= 0 ? 0 : min((left - 1) / starts + 1, most);
    };
    const bool is_any = channel < tile.channels && at.k + channel < grid.c;
    rows = is_any ? share(grid.p - at.p - row, grid.down.starts(), tile.thread_rows) : 0;
    columns = share(grid.q - at.q - column, grid.along.starts(), WindowsTile::kColumns);
    if (columns == 0) rows = 0;
  }
};

using WindowsSums = float[WindowsTile::kRows][WindowsTile::kColumns];

/// Adds the products of `rows` rows of weights with the inputs from x on.
template <int kTaps>
__device__ __forceinline__ void add_pass(const float* x, int row_step, const float* weights,
                                         int rows, int thread_rows, WindowsSums& sums) {
  constexpr int kColumns = WindowsTile::kColumns, kPitch = windows_taps_pitch(kTaps);
#pragma unroll 1
  for (int y = 0; y < rows + thread_rows - 1; ++y, x += row_step) {
    float inputs[kColumns + kTaps - 1];
#pragma unroll
    for (int i = 0; i < kColumns + kTaps - 1; ++i) inputs[i] = x[i];
#pragma unroll
    for (int p = 0; p < WindowsTile::kRows; ++p) {
      const int r = y - p;
      if (r < 0 || r >= rows || p >= thread_rows) continue;
      float taps[kPitch];
#pragma unroll
      for (int i = 0; i < kPitch; i += 4)
        reinterpret_cast<float4&>(taps[i]) =
            reinterpret_cast<const float4&>(weights[r * kPitch + i]);
#pragma unroll
      for (int s = 0; s < kTaps; ++s) {
#pragma unroll
        for (int q = 0; q < kColumns; ++q) sums[p][q] = fmaf(taps[s], inputs[q + s], sums[p][q]);
      }
    }
  }
}

/// All passes, kTaps of a row at a time.
template <int kTaps>
__device__ __forceinline__ void add_passes(const WindowsGrid& grid, const WindowsStrip& strip,
                                           const float* input, const float* weights,
                                           WindowsSums& sums) {
  const WindowsTile& tile = grid.tile;
  const int row_floats = tile.row_taps * windows_taps_pitch(kTaps);
  const auto [whole, rest] = grid.down.taps.divide(tile.filter_rows);
  for (int comb = 0; comb < tile.combs; ++comb) {
    const auto [beyond, start] = grid.along.inputs.divide(strip.column_comb * grid.along.stride +
                                                          comb * grid.along.dilation);
    const float* x = input + strip.input + start * grid.comb_pitch + beyond + strip.first;
    for (int pass = 0; pass < grid.comb_passes; ++pass, x += kTaps) {
      for (int row = 0; row < tile.row_passes; ++row, weights += row_floats)
        add_pass<kTaps>(x + row * grid.down.dilation * tile.row_pitch,
                        grid.down.step() * tile.row_pitch, weights, whole + (row < rest),
                        tile.thread_rows, sums);
    }
  }
}

__device__ __forceinline__ void add_all(const WindowsGrid& grid, const WindowsStrip& strip,
                                        const float* input, const float* weights,
                                        WindowsSums& sums) {
  switch (grid.tile.pass_taps) {
    case 2: return add_passes<2>(grid, strip, input, weights, sums);
    case 3: return add_passes<3>(grid, strip, input, weights, sums);
    case 4: return add_passes<4>(grid, strip, input, weights, sums);
    case 5: return add_passes<5>(grid, strip, input, weights, sums);
    default: return add_passes<7>(grid, strip, input, weights, sums);
  }
}

/// Finishes a thread's sums and puts them into shared memory. Those that are not finite are computed
/// again: zeros in the padding and beyond the window make NaN of infinite factors.
template <class Element>
__device__ __forceinline__ void put_outputs(const DepthwiseArguments<Element, float>& a,
                                            const WindowsGrid& grid, const WindowsPlace& at,
                                            const WindowsStrip& strip, const WindowsSums& sums,
                                            float* shared) {
  if (strip.rows == 0) return;
  const int k = at.k + strip.channel, p = at.p + strip.row, q = at.q + strip.column;
  const int down = grid.down.starts(), along = grid.along.starts();
  float* const to = shared + strip.channel * grid.tile.output_pitch +
                    strip.row * grid.tile.columns + strip.column;
  const auto place = [&](int i, int j) { return to + i * down * grid.tile.columns + j * along; };
  float zero = 0;
  const auto put = [&](auto finish) {
#pragma unroll
    for (int i = 0; i < WindowsTile::kRows; ++i) {
      if (i >= strip.rows) break;
#pragma unroll
      for (int j = 0; j < WindowsTile::kColumns; ++j) {
        if (j >= strip.columns) break;
        zero = fmaf(sums[i][j], 0.f, zero);
        *place(i, j) = finish(i, j);
      }
    }
  };
  if (a.clamps) {
    const float bias = a.outputs.bias(k);
    put([&](int i, int j) { return a.clamp(sums[i][j] + bias); });
  } else {
    put([&](int i, int j) {
      return to_compute<float>(finish_any(a, at.n, k, p + i * down, q + j * along, sums[i][j]));
    });
  }
  if (zero == 0) return;
  for (int i = 0; i < strip.rows; ++i)
    for (int j = 0; j < strip.columns; ++j)
      *place(i, j) = to_compute<float>(compute_any(a, at.n, k, p + i * down, q + j * along));
}

template <class Element>
__global__ void __launch_bounds__(WindowsTile::kMaxThreads, WindowsTile::kBlocks)
    depthwise_windows_kernel(const __grid_constant__ DepthwiseArguments<Element, float> a,
                             const __grid_constant__ WindowsGrid grid) {
  follow(false);
  const WindowsTile& tile = grid.tile;
  float* const filters = dynamic_shared<float>();
  float* const planes = filters + tile.channels * tile.filter_pitch;
  const WindowsPlace at(a, grid);
  const int channels = min(tile.channels, grid.c - at.k);
  const int64_t image = int64_t{at.n} * grid.c;
  clear_shared(tile.shared_bytes);
  __syncthreads();
  load_filters(a.filter + at.k * grid.filter_taps.divisor, grid, channels, filters);
  with_word<Element>(tile.is_pixel_major, tile.word, [&](auto layout, auto word) {
    load_input<layout, word>(a.input + image * (grid.h * grid.w), grid, at, planes);
  });
  __pipeline_commit();
  __pipeline_wait_prior(0);
  __syncthreads();

  const WindowsStrip strip(grid, at);
  WindowsSums sums = {};
  if (strip.rows > 0)
    add_all(grid, strip, planes, filters + strip.channel * tile.filter_pitch, sums);
  ptx::let_next_start();
  __syncthreads();  // all of the input is read: the output takes its place
  put_outputs(a, grid, at, strip, sums, planes);
  __syncthreads();
  with_word<Element>(tile.is_pixel_major, tile.output_word, [&](auto layout, auto word) {
    store_output<layout, word>(a.outputs.data() + image * (grid.p * grid.q), grid, at, planes);
  });
}

}  // namespace im2win::cuda
