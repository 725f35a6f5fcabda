// `pointwise`: windows of single pixels, whose channels are neighbours in memory. There is little to compute for what
// is moved, and so all that matters is that memory is never waited for: a block keeps its filters in shared memory,
// a warpgroup brings pixels there, tile after tile, and the others take turns to multiply and write them, each its
// own ones.
#pragma once

#include <cuda/ptx>

#include <cstdint>
#include <type_traits>

#include "cuda/fused/descriptor.cuh"
#include "cuda/fused/pipeline.cuh"
#include "cuda/fused/tile.hpp"
#include "cuda/fused/wgmma.cuh"
#include "cuda/pointwise/arguments.cuh"
#include "cuda/pointwise/staging.cuh"
#include "cuda/pointwise/writer.cuh"
#include "cuda/ptx.cuh"

namespace im2win::cuda::pointwise {

/// Of a thread, once the warpgroups have dealt anew what the block has from launch: multiples of 8.
template <class T>
struct Registers {
  static constexpr int kLaunch = 65536 / T::kShape.threads() / 8 * 8;
  static constexpr int kMultiplying = T::kShape.warpgroups == 2   ? 224
                                      : T::kShape.warpgroups == 3 ? 160
                                                                  : 104;
  static constexpr int kStaging = kLaunch + T::kShape.warpgroups * (kLaunch - kMultiplying);
};

/// Of a warpgroup: its tiles, in turn with others'. It waits for a tile's stages when those of all before have come, or
/// it might take others for its own, of which a barrier's parity cannot tell them.
template <class T>
class Multiplier {
 public:
  __device__ __forceinline__ Multiplier(const Arguments<typename T::Element>& a, int warpgroup)
      : a_(a), warpgroup_(warpgroup) {
    skip(warpgroup);
  }

  /// 64 of its pixels, from one on. `is_first`, `is_last`: of the block's tiles.
  __device__ __forceinline__ void multiply(int pixel, bool is_first, bool is_last, Sums<T>& sums) {
    const bool begins = pixel == 0, ends = pixel + kProductPixels == a_.tile.pixels;
    if (begins && !is_first) ptx::named_barrier(turn_of(warpgroup_), 256);
    fused::Cursor at = at_;
    for (int chunk = 0; chunk < a_.tile.chunks; ++chunk, at.advance(a_.tile.stages)) {
      if (begins) wait_for_stage(at);
      multiply_chunk<kStageChannels / kStepChannels>(
          rows(a_.tile.stages_begin + at.stage * kStageBytes + pixel * a_.tile.row_bytes()), chunk,
          sums);
      ptx::wgmma_wait<1>();
      if (ends && chunk > 0) leave_stage();
    }
    if (begins && !is_last)
      ptx::named_barrier_arrive(turn_of((warpgroup_ + 1) % T::kShape.warpgroups), 256);
    ptx::wgmma_wait<0>();
#pragma unroll
    for (int set = 0; set < T::kShape.sets; ++set) ptx::accumulators_written(sums[set]);
    if (!ends) return;
    leave_stage();
    skip(T::kShape.warpgroups - 1);
  }

 private:
  static constexpr fused::Operands kOperands = std::is_same_v<typename T::Element, __half>
                                                   ? fused::Operands::kHalf
                                                   : fused::Operands::kBFloat16;

  /// A named barrier; 0 is __syncthreads'.
  __device__ __forceinline__ static int turn_of(int warpgroup) { return 1 + warpgroup; }

  __device__ __forceinline__ void wait_for_stage(const fused::Cursor& at) const {
    shared<T>().stages.wait_full(at);
    // Copies are no writes of the async proxy, by which wgmma reads.
    if (a_.copied > 0) ::cuda::ptx::fence_proxy_async(::cuda::ptx::space_shared);
  }
  __device__ __forceinline__ void leave_stage() {
    __syncwarp();
    if (threadIdx.x % 32 == 0) shared<T>().stages.arrive_empty(at_.stage);
    at_.advance(a_.tile.stages);
  }

  __device__ __forceinline__ fused::Descriptor rows(int begin) const {
    return fused::Descriptor(ptx::shared_address(dynamic_shared_memory + begin), 0,
                             static_cast<uint32_t>(8 * a_.tile.row_units),
                             fused::swizzle_of(a_.tile.row_units))
        .uniform();
  }

  /// A chunk's steps: fewer of the last.
  template <int kSteps>
  __device__ __forceinline__ void multiply_chunk(const fused::Descriptor& pixels, int chunk,
                                                 Sums<T>& sums) const {
    if constexpr (kSteps > 1)
      if (a_.channels <= chunk * kStageChannels + (kSteps - 1) * kStepChannels)
        return multiply_chunk<kSteps - 1>(pixels, chunk, sums);
    constexpr int kStep = kStepChannels * 2 / fused::kUnitBytes;
    const fused::Descriptor filters =
        rows(kFiltersBegin + chunk * T::kShape.filters() * a_.tile.row_bytes());
    ptx::wgmma_fence();
#pragma unroll
    for (int step = 0; step < kSteps; ++step)
#pragma unroll
      for (int set = 0; set < T::kShape.sets; ++set)
        fused::Wgmma<kOperands, T::kShape.columns>::multiply(
            sums[set], pixels + step * kStep,
            filters + set * T::kShape.columns * a_.tile.row_units + step * kStep,
            chunk > 0 || step > 0);
    ptx::wgmma_commit();
  }

  /// So many tiles, which are others'.
  __device__ __forceinline__ void skip(int tiles) {
    for (at_.stage += tiles * a_.tile.chunks; at_.stage >= a_.tile.stages;
         at_.stage -= a_.tile.stages)
      at_.parity ^= 1;
  }

  const Arguments<typename T::Element>& a_;
  int warpgroup_;
  fused::Cursor at_;
};

/// By a warpgroup: every so manyth of the block's tiles.
template <class T>
__device__ __forceinline__ void multiply_and_write(const Arguments<typename T::Element>& a,
                                                   int warp) {
  const Share share(a, T::kShape.filters());
  const int warpgroup = warp / 4;
  Multiplier<T> multiplier(a, warpgroup);
  const Writer<T> writer(a, warp);
  fused::wait(&shared<T>().filters_full, 0);
  for (int32_t tile = share.first_tile + warpgroup * share.step; tile < a.tiles;
       tile += T::kShape.warpgroups * share.step) {
    for (int pixel = 0; pixel < a.tile.pixels; pixel += kProductPixels) {
      Sums<T> sums;
      multiplier.multiply(pixel, tile == share.first_tile, tile + share.step >= a.tiles, sums);
      writer.write(sums, tile * a.tile.pixels + pixel);
    }
  }
  writer.finish();
}

template <class T>
__device__ __forceinline__ void initialize_barriers(int stages, bool boxed) {
  namespace ptx = ::cuda::ptx;
  const uint32_t fillers = boxed ? 1 : 128;
  shared<T>().stages.initialize(stages, fillers, 4);
  ptx::mbarrier_init(&shared<T>().filters_full, fillers);
  ptx::fence_mbarrier_init(ptx::sem_release, ptx::scope_cluster);
}

template <class T>
__global__ void __launch_bounds__(T::kShape.threads(), 1)
    pointwise_kernel(const __grid_constant__ Arguments<typename T::Element> a) {
  if (threadIdx.x == 0) initialize_barriers<T>(a.tile.stages, a.copied == 0);
  if (threadIdx.x == 32 && a.copied == 0) {
    ptx::prefetch(a.input_boxes);
    ptx::prefetch(a.filter_boxes);
  }
  if (threadIdx.x == 64 && a.leaving == Leaving::kBoxes) ptx::prefetch(a.output_boxes);
  ptx::wait_for_kernel_before();
  ptx::let_next_start();
  for (int i = static_cast<int>(threadIdx.x); i < T::kShape.filters(); i += T::kShape.threads()) {
    const int filter = Share(a, T::kShape.filters()).first_filter + i;
    shared<T>().biases[i] = filter < a.filters ? a.outputs.bias(filter) : 0;
  }
  __syncthreads();
  // The same for a warp, which the compiler must know to keep descriptors in uniform registers.
  const int warp = __shfl_sync(~0u, static_cast<int>(threadIdx.x) / 32, 0);
  if (warp < 4) {
    ptx::give_up_registers<Registers<T>::kStaging>();
    bring<T>(a);
  } else {
    ptx::take_registers<Registers<T>::kMultiplying>();
    multiply_and_write<T>(a, warp - 4);
  }
}

}  // namespace im2win::cuda::pointwise
