// im2win_stem. Persistent blocks: a warpgroup makes bands of operands of the input (staging.cuh), others
// multiply them (multiply.cuh) and write (writer.cuh), with their filters in shared memory all along.
#pragma once

#include <cuda/ptx>

#include <cstdint>

#include "cuda/fused/stem/arguments.cuh"
#include "cuda/fused/stem/multiply.cuh"
#include "cuda/fused/stem/staging.cuh"
#include "cuda/fused/stem/writer.cuh"
#include "cuda/fused/writer.cuh"
#include "cuda/ptx.cuh"

namespace im2win::cuda::fused::stem {

/// By one thread.
template <class T>
__device__ __forceinline__ void load_filters(const Arguments<typename T::Element>& a,
                                             Block<T> block, const TilePosition& first) {
  namespace ptx = ::cuda::ptx;
  const auto bytes = static_cast<uint32_t>(a.sets * a.packed.tile_bytes);
  const int64_t set = int64_t{first.group} * a.filter_tiles.divisor + first.filter_tile;
  uint64_t* full = &barriers().filters;
  ptx::mbarrier_arrive_expect_tx(ptx::sem_release, ptx::scope_cta, ptx::space_shared, full, bytes);
  ptx::cp_async_bulk(ptx::space_cluster, ptx::space_global, block.filter_stage(0),
                     a.filters + set * a.packed.tile_bytes, bytes, full);
}

/// Each output row of a strip by one warpgroup; and what rows above and below would have used.
template <class T>
__device__ __forceinline__ void multiply_and_write(const Arguments<typename T::Element>& a,
                                                   Block<T> block, int warpgroup) {
  Writer<T>::place_columns(a, block);
  ptx::named_barrier(kColumnsBarrier, T::kShape.multiplying_threads());
  ptx::wait_for_kernel_before();  // which packs the filter, perhaps
  StripWalk<typename T::Element> strip(a);
  if (threadIdx.x == T::kFirstMultiplier) load_filters(a, block, strip.first());
  RowMultiplier<T> multiplier(a, block, strip.first());
  wait(&barriers().filters, 0);
  for (; !strip.ended(); strip.advance()) {
    const int rows = strip.rows(), bands = strip.bands(), more = a.bands.more_rows();
    for (int row = warpgroup; row < more; row += kRows) multiplier.pass(row - more, bands);
    for (int row = warpgroup; row < rows; row += kRows) {
      for (int set = may_have_sets(T::kShape) ? a.sets - 1 : 0; set >= 0; --set) {
        Sums<T::kSums> sums;
        multiplier.multiply(row, set, sums);
        TilePosition tile = strip.first();
        tile.p += row - warpgroup;
        tile.filter_tile += set;
        if (const RowWriter<T> writer(a, block, tile, warpgroup); writer.takes(sums)) {
          writer.write(sums);
        } else {
          Writer<T>(a, block, tile).write(sums, false);
        }
      }
    }
    for (int row = warpgroup; row < more; row += kRows) multiplier.pass(rows + row, bands);
    multiplier.leave_strip(bands);
  }
}

template <class T>
__global__ void __launch_bounds__(T::kShape.threads(), 1)
    stem_kernel(const __grid_constant__ Arguments<typename T::Element> a) {
#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 900
  const Block<T> block = {a.shared};
  if (threadIdx.x == 0) {
    constexpr int kWarps = 4;  // of a warpgroup
    barriers().bands.initialize(kMaxBands, kWarps, kWarps * a.bands.count);
    ::cuda::ptx::mbarrier_init(&barriers().filters, 1);
    ::cuda::ptx::fence_mbarrier_init(::cuda::ptx::sem_release, ::cuda::ptx::scope_cluster);
  }
  __syncthreads();
  ptx::let_next_start();

  // The same for a warp, which the compiler must know to keep descriptors in uniform registers.
  const int warpgroup = __shfl_sync(~0u, static_cast<int>(threadIdx.x) / 128, 0);
  if (warpgroup == 0) {
    ptx::give_up_registers<kStagingRegisters>();
    wait_for_inputs(a);
    BandStaging<T>(a, block).run();
  } else {
    ptx::take_registers<kMultiplyingRegisters>();
    multiply_and_write<T>(a, block, warpgroup - 1);
  }
#endif
}

}  // namespace im2win::cuda::fused::stem
