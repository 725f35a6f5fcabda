// im2win_stem. Persistent blocks: a warpgroup makes bands of operands of the input (staging.cuh), others
// multiply them (multiply.cuh) and write (writer.cuh), with their filters in shared memory all along.
#pragma once

#include <cuda/ptx>

#include <cstdint>
#include <type_traits>

#include "cuda/fused/stem/arguments.cuh"
#include "cuda/fused/stem/multiply.cuh"
#include "cuda/fused/stem/pixel_writer.cuh"
#include "cuda/fused/stem/staging.cuh"
#include "cuda/fused/stem/writer.cuh"
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

/// One warpgroup after another multiplies, lest all do at the same time and then write at the same time,
/// while the tensor cores have nothing to do. Not with split operands, whose products wait for sums: there one
/// warpgroup alone would leave gaps.
template <class T>
class Turns {
 public:
  __device__ __forceinline__ explicit Turns(int warpgroup) : own_(warpgroup) {
    if (own_ == kWarpgroups - 1) pass();
  }

  /// Which of a strip's pieces is the first of this warpgroup's.
  __device__ __forceinline__ int first() const {
    return own_ < next_ ? own_ - next_ + kWarpgroups : own_ - next_;
  }
  __device__ __forceinline__ void leave_strip(int pieces) {
    next_ = (next_ + pieces) % kWarpgroups;
  }

  __device__ __forceinline__ void wait() const {
    if constexpr (kTaken) ptx::named_barrier(kFirstTurnBarrier + own_, 2 * 128);
  }
  __device__ __forceinline__ void pass() const {
    if constexpr (kTaken)
      ptx::named_barrier_arrive(kFirstTurnBarrier + (own_ + 1) % kWarpgroups, 2 * 128);
  }
  /// After all strips: who has passed must be met.
  __device__ __forceinline__ void finish() const {
    if (own_ == next_) wait();
  }

 private:
  static constexpr bool kTaken = T::kOperands != Operands::kSplit;
  static constexpr int kWarpgroups = T::kShape.multiplying_warpgroups;

  int own_;
  int next_ = 0;  // who has the next strip's first piece
};

/// Warpgroups take turns with the pieces of a strip, row by row: each a chunk of a row by a set of filters.
template <class T>
__device__ __forceinline__ void multiply_and_write(const Arguments<typename T::Element>& a,
                                                   Block<T> block, int warpgroup) {
  constexpr int kWarpgroups = T::kShape.multiplying_warpgroups;
  std::conditional_t<T::kShape.pixel_major, PixelWriter<T>, PieceWriter<T>> writer(a, block,
                                                                                   warpgroup);
  ptx::wait_for_kernel_before();  // which packs the filter, perhaps
  StripWalk<typename T::Element> strip(a);
  if (threadIdx.x == T::kFirstMultiplier) load_filters(a, block, strip.first());
  RowMultiplier<T> multiplier(a, block, strip.first());
  Turns<T> turns(warpgroup);
  writer.enter(strip.first());
  wait(&barriers().filters, 0);
  for (; !strip.ended(); strip.advance()) {
    const int rows = strip.rows(), bands = strip.bands();
    const int pieces = rows * static_cast<int>(a.row_pieces.divisor);
    for (int piece = turns.first(); piece < pieces; piece += kWarpgroups) {
      Sums<T::kSums> sums;
      const auto [row, in_row] = a.row_pieces.divide(piece);
      const auto [set, chunk] = a.row_chunks.divide(in_row);
      const int next =
          piece + kWarpgroups < pieces ? a.row_pieces.quotient(piece + kWarpgroups) : bands;
      multiplier.pass_bands(row);
      turns.wait();
      multiplier.multiply(chunk, set, next, sums, [&] { turns.pass(); });
      TilePosition tile = strip.first();
      tile.p += row;
      tile.q += chunk * T::kShape.columns;
      tile.filter_tile += set;
      writer.write(sums, tile);
    }
    turns.leave_strip(pieces);
    multiplier.leave_strip(bands);
  }
  turns.finish();
  writer.finish();
}

template <class T>
__global__ void __launch_bounds__(T::kShape.threads(), 1)
    stem_kernel(const __grid_constant__ Arguments<typename T::Element> a) {
#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 900
  const Block<T> block = {a.shared};
  if (threadIdx.x == 0) {
    constexpr int kWarps = 4;  // of a warpgroup
    barriers().bands.initialize(kMaxBands, kWarps, kWarps * T::kShape.multiplying_warpgroups);
    ::cuda::ptx::mbarrier_init(&barriers().filters, 1);
    ::cuda::ptx::fence_mbarrier_init(::cuda::ptx::sem_release, ::cuda::ptx::scope_cluster);
  }
  __syncthreads();
  ptx::let_next_start();

  // The same for a warp, which the compiler must know to keep descriptors in uniform registers.
  const int warpgroup = __shfl_sync(~0u, static_cast<int>(threadIdx.x) / 128, 0);
  if (warpgroup == 0) {
    ptx::give_up_registers<staging_registers(T::kShape)>();
    wait_for_inputs(a);
    BandStaging<T>(a, block).run();
  } else {
    ptx::take_registers<multiplying_registers(T::kShape)>();
    multiply_and_write<T>(a, block, warpgroup - 1);
  }
#endif
}

}  // namespace im2win::cuda::fused::stem
