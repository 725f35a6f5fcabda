// Depthwise convolution in NCHW of any window, stride and dilation, by FMAs. A block stages planes of some
// channels in shared memory as they are: they are one piece of memory, in words of 16 bytes, whatever the
// width of rows. A thread's windows are summed one after the other, over the taps inside the image alone,
// so that nothing is known of the padding but where it is.
#pragma once

#include "checked.hpp"
#include "cuda/depthwise/run.cuh"
#include "cuda/depthwise/sum.cuh"
#include "cuda/depthwise/whole_planes_tile.hpp"
#include "cuda/launch.cuh"

namespace im2win::cuda {

/// An axis of the image, in 32 bits. Plain data.
struct WholePlanesAxis {
  int size, taps, stride, padding, dilation;

  explicit WholePlanesAxis(const Axis& axis)
      : size(static_cast<int>(axis.size)),
        taps(static_cast<int>(axis.taps)),
        stride(static_cast<int>(axis.stride)),
        padding(static_cast<int>(axis.padding)),
        dilation(static_cast<int>(axis.dilation.divisor)) {}

  __device__ __forceinline__ int start(int window) const { return window * stride - padding; }
};

/// The tile and the image. Plain data.
struct WholePlanesGrid {
  static constexpr bool kStartsEarly = true;  // before the kernel ahead of it ends: follow()
  Divisor channel_tiles, team_threads, q;
  WholePlanesAxis down, along;
  int tile_planes, filter_bytes;
  int c, p, inputs, outputs, taps;
  int64_t blocks;

  WholePlanesGrid(const Problem& problem, const WholePlanesTile& tile)
      : channel_tiles(ceil_div(problem.c, tile.planes)),
        team_threads(tile.team_threads),
        q(problem.q),
        down(Axis::vertical(problem)),
        along(Axis::horizontal(problem)),
        tile_planes(tile.planes),
        filter_bytes(static_cast<int>(tile.filter_bytes)),
        c(static_cast<int>(problem.c)),
        p(static_cast<int>(problem.p)),
        inputs(static_cast<int>(problem.h * problem.w)),
        outputs(static_cast<int>(problem.p * problem.q)),
        taps(static_cast<int>(problem.r * problem.s)),
        blocks(problem.n * channel_tiles.divisor) {}
};

/// A plane in shared memory, its filter, and where its outputs go.
template <class Element>
class WholePlane {
 public:
  __device__ __forceinline__ WholePlane(const DepthwiseArguments<Element, float>& a,
                                        const WholePlanesGrid& grid, int image, int k,
                                        const Element* inputs, const float* weights)
      : a_(a),
        grid_(grid),
        image_(image),
        k_(k),
        inputs_(inputs),
        weights_(weights),
        outputs_(a.outputs.data() + (int64_t{image} * grid.c + k) * grid.outputs),
        bias_(a.outputs.bias(k)) {}

  /// By 3x3 windows without a stride. A thread has every dilation-th output of a column: a row of the input
  /// is part of three of them.
  __device__ __forceinline__ void write_columns(const Team& team) const {
    const int combs = min(grid_.down.dilation, grid_.p);
    const int width = static_cast<int>(grid_.q.divisor);
    for (int i = team.thread; i < combs * width; i += team.threads) {
      const auto [p, q] = grid_.q.divide(i);
      write_column(p, q);
    }
  }

  /// By any windows, one after the other.
  __device__ __forceinline__ void write_windows(const Team& team) const {
    for (int i = team.thread; i < grid_.outputs; i += team.threads) {
      const auto [p, q] = grid_.q.divide(i);
      outputs_[i] = finish(p, q, sum(p, q));
    }
  }

 private:
  static constexpr int kTaps = 3;

  /// Those from p on, in turns of a row of the input that is the first, the second and the last of the
  /// windows of three outputs.
  __device__ __forceinline__ void write_column(int p, int q) const {
    const int width = static_cast<int>(grid_.q.divisor), height = grid_.down.size;
    const int step = grid_.down.dilation, input_step = step * grid_.along.size;
    bool are_inside[kTaps];
    const Element* columns[kTaps];
    float weights[kTaps][kTaps];
#pragma unroll
    for (int s = 0; s < kTaps; ++s) {
      const int x = grid_.along.start(q) + s * grid_.along.dilation;
      are_inside[s] = unsigned(x) < unsigned(grid_.along.size);
      columns[s] = inputs_ + grid_.down.start(p) * grid_.along.size + x;
#pragma unroll
      for (int r = 0; r < kTaps; ++r) weights[r][s] = weights_[r * kTaps + s];
    }
    float sums[kTaps] = {};  // of the outputs whose last, middle and first row is next
    for (int y = grid_.down.start(p), end = p - 2 * step; end < grid_.p; y += step, end += step) {
      if (unsigned(y) < unsigned(height)) {
#pragma unroll
        for (int s = 0; s < kTaps; ++s) {
          if (!are_inside[s]) continue;
          const float input = to_compute<float>(*columns[s]);
#pragma unroll
          for (int r = 0; r < kTaps; ++r)
            sums[kTaps - 1 - r] = fmaf(weights[r][s], input, sums[kTaps - 1 - r]);
        }
      }
      if (end >= p) outputs_[end * width + q] = finish(end, q, sums[0]);
      sums[0] = sums[1];
      sums[1] = sums[2];
      sums[2] = 0;
#pragma unroll
      for (const Element*& column : columns) column += input_step;
    }
  }

  __device__ __forceinline__ float sum(int p, int q) const {
    const TapRange rows = a_.vertical.inside(p), columns = a_.horizontal.inside(q);
    const int first = static_cast<int>(columns.begin), end = static_cast<int>(columns.end);
    const int y = grid_.down.start(p), x = grid_.along.start(q);
    float sum = 0;
    for (int r = static_cast<int>(rows.begin); r < static_cast<int>(rows.end); ++r) {
      const Element* const row = inputs_ + (y + r * grid_.down.dilation) * grid_.along.size + x;
      const float* const weights = weights_ + r * grid_.along.taps;
#pragma unroll 4
      for (int s = first; s < end; ++s)
        sum = fmaf(weights[s], to_compute<float>(row[s * grid_.along.dilation]), sum);
    }
    return sum;
  }

  __device__ __forceinline__ Element finish(int p, int q, float sum) const {
    return a_.clamps ? from_compute<Element>(a_.clamp(sum + bias_))
                     : finish_any(a_, image_, k_, p, q, sum);
  }

  const DepthwiseArguments<Element, float>& a_;
  const WholePlanesGrid& grid_;
  int image_, k_;
  const Element* inputs_;
  const float* weights_;
  Element* outputs_;
  float bias_;
};

template <class Element, bool kIsByColumns>
__global__ void __launch_bounds__(WholePlanesTile::kMaxThreads)
    depthwise_whole_planes_kernel(const __grid_constant__ DepthwiseArguments<Element, float> a,
                                  const __grid_constant__ WholePlanesGrid grid) {
  follow(false);
  unsigned char* const shared = dynamic_shared<unsigned char>();
  const auto [image, channel_tile] = grid.channel_tiles.divide(static_cast<int>(blockIdx.x));
  const int first_k = channel_tile * grid.tile_planes;
  const int planes = min(grid.tile_planes, grid.c - first_k);
  const Element* const source = a.input + (int64_t{image} * grid.c + first_k) * grid.inputs;
  const Run<Element> input(source, planes * grid.inputs, shared + grid.filter_bytes);
  input.load(source, Team::block());
  __pipeline_commit();
  float* const weights = reinterpret_cast<float*>(shared);
  for (int i = threadIdx.x; i < planes * grid.taps; i += blockDim.x)
    weights[i] = to_compute<float>(a.filter[first_k * grid.taps + i]);
  __pipeline_wait_prior(0);
  __syncthreads();

  const Team team = Team::of(grid.team_threads);
  for (int number = team.first; number < planes; number += team.step) {
    const WholePlane<Element> plane(a, grid, image, first_k + number,
                                    input.shared() + number * grid.inputs,
                                    weights + number * grid.taps);
    if constexpr (kIsByColumns)
      plane.write_columns(team);
    else
      plane.write_windows(team);
  }
  ptx::let_next_start();
}

}  // namespace im2win::cuda
