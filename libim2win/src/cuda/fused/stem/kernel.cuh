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

/// What a warpgroup multiplies at a time: a chunk of a row by a set of filters. Those of a strip are dealt in
/// turns, row by row.
template <class T>
class PieceWalk {
 public:
  __device__ __forceinline__ PieceWalk(const Arguments<typename T::Element>& a, int first)
      : chunks_(a.bands.chunks), sets_(a.sets), chunk_(first) {
    settle();
  }
  __device__ __forceinline__ int row() const { return row_; }
  __device__ __forceinline__ int chunk() const { return chunk_; }
  __device__ __forceinline__ int set() const { return set_; }
  __device__ __forceinline__ void advance() {
    chunk_ += kMultiplyingWarpgroups;
    settle();
  }

 private:
  __device__ __forceinline__ void settle() {
    for (; chunk_ >= chunks_; chunk_ -= chunks_) {
      if (++set_ < sets_) continue;
      set_ = 0;
      ++row_;
    }
  }

  int chunks_, sets_;
  int chunk_, set_ = 0, row_ = 0;
};

/// One warpgroup after another multiplies, lest all do at the same time and then write at the same time,
/// while the tensor cores have nothing to do. Not with split operands, whose products wait for sums: there one
/// warpgroup alone would leave gaps.
template <class T>
class Turns {
 public:
  __device__ __forceinline__ explicit Turns(int warpgroup) : own_(warpgroup) {
    if (own_ == kMultiplyingWarpgroups - 1) pass();
  }

  /// Which of a strip's pieces is the first of this warpgroup's.
  __device__ __forceinline__ int first() const {
    return own_ < next_ ? own_ - next_ + kMultiplyingWarpgroups : own_ - next_;
  }
  __device__ __forceinline__ void leave_strip(int pieces) {
    next_ = (next_ + pieces) % kMultiplyingWarpgroups;
  }

  __device__ __forceinline__ void wait() const {
    if constexpr (kTaken) ptx::named_barrier(kFirstTurnBarrier + own_, 2 * 128);
  }
  __device__ __forceinline__ void pass() const {
    if constexpr (kTaken)
      ptx::named_barrier_arrive(kFirstTurnBarrier + (own_ + 1) % kMultiplyingWarpgroups, 2 * 128);
  }
  /// After all strips: who has passed must be met.
  __device__ __forceinline__ void finish() const {
    if (own_ == next_) wait();
  }

 private:
  static constexpr bool kTaken = T::kOperands != Operands::kSplit;

  int own_;
  int next_ = 0;  // who has the next strip's first piece
};

/// Hands back the bands of rows above a strip or below it, `first` and more, which would have used them.
template <class T>
__device__ __forceinline__ void pass_rows(const Arguments<typename T::Element>& a,
                                          const RowMultiplier<T>& multiplier, int warpgroup,
                                          int first, int bands) {
  for (PieceWalk<T> at(a, warpgroup); at.row() < a.bands.more_rows(); at.advance())
    multiplier.pass(first + at.row(), bands);
}

/// Each piece of a strip's rows by one warpgroup.
template <class T>
__device__ __forceinline__ void multiply_and_write(const Arguments<typename T::Element>& a,
                                                   Block<T> block, int warpgroup) {
  Writer<T>::place_columns(a, block);
  ptx::named_barrier(kColumnsBarrier, T::kShape.multiplying_threads());
  ptx::wait_for_kernel_before();  // which packs the filter, perhaps
  StripWalk<typename T::Element> strip(a);
  if (threadIdx.x == T::kFirstMultiplier) load_filters(a, block, strip.first());
  RowMultiplier<T> multiplier(a, block, strip.first());
  Turns<T> turns(warpgroup);
  wait(&barriers().filters, 0);
  for (; !strip.ended(); strip.advance()) {
    const int rows = strip.rows(), bands = strip.bands();
    pass_rows(a, multiplier, warpgroup, -a.bands.more_rows(), bands);
    for (PieceWalk<T> at(a, turns.first()); at.row() < rows; at.advance()) {
      Sums<T::kSums> sums;
      turns.wait();
      multiplier.multiply(at.row(), at.chunk(), at.set(), sums, [&] { turns.pass(); });
      TilePosition tile = strip.first();
      tile.p += at.row() - warpgroup;
      tile.q += at.chunk() * T::kShape.columns;
      tile.filter_tile += at.set();
      if (const RowWriter<T> writer(a, block, tile, warpgroup); writer.takes(sums)) {
        writer.write(sums);
      } else {
        Writer<T>(a, block, tile).write(sums, false);
      }
    }
    pass_rows(a, multiplier, warpgroup, rows, bands);
    turns.leave_strip(rows * a.bands.chunks * a.sets);
    multiplier.leave_strip(bands);
  }
  turns.finish();
  RowWriter<T>::finish();
}

template <class T>
__global__ void __launch_bounds__(T::kShape.threads(), 1)
    stem_kernel(const __grid_constant__ Arguments<typename T::Element> a) {
#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 900
  const Block<T> block = {a.shared};
  if (threadIdx.x == 0) {
    constexpr int kWarps = 4;  // of a warpgroup
    barriers().bands.initialize(kMaxBands, kWarps,
                                kWarps * a.bands.count * a.bands.chunks * a.sets);
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
