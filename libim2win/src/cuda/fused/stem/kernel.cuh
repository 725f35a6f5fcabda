// im2win_stem. Persistent blocks: a warpgroup makes bands of operands of the input (staging.cuh), others
// multiply them (multiply.cuh) and write (writer.cuh), with their filters in shared memory all along.
#pragma once

#include <cuda/ptx>

#include <cstdint>
#include <type_traits>

#include "cuda/fused/stem/arguments.cuh"
#include "cuda/fused/stem/dense_multiply.cuh"
#include "cuda/fused/stem/dense_staging.cuh"
#include "cuda/fused/stem/filters.cuh"
#include "cuda/fused/stem/multiply.cuh"
#include "cuda/fused/stem/pair_staging.cuh"
#include "cuda/fused/stem/pixel_writer.cuh"
#include "cuda/fused/stem/raw_staging.cuh"
#include "cuda/fused/stem/run_writer.cuh"
#include "cuda/fused/stem/staging.cuh"
#include "cuda/fused/stem/writer.cuh"
#include "cuda/ptx.cuh"

namespace im2win::cuda::fused::stem {

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

  static constexpr bool kTaken = T::kOperands != Operands::kSplit && !T::kShape.dense;

 private:
  static constexpr int kWarpgroups = T::kShape.multiplying_warpgroups;

  int own_;
  int next_ = 0;  // who has the next strip's first piece
};

/// That which a warpgroup is at after this one.
template <class Element>
__device__ __forceinline__ Piece after(const Arguments<Element>& a, Piece piece) {
  const auto of_row = static_cast<int32_t>(a.row_pieces.divisor);
  piece.number += a.next_piece.number;
  piece.row += a.next_piece.row;
  if (piece.number >= of_row) {
    piece.number -= of_row;
    piece.row += a.group_rows;
  }
  return piece;
}

/// `end`: the column after the chunk's.
template <class Element>
__device__ __forceinline__ InRow in_row(const Arguments<Element>& a, int chunk, int end) {
  if (sizeof(Element) != sizeof(float) || ptx::fresh(a.group_rows) == 1) return {0, 0};
  return {chunk > 0 ? kSectorPixels : 0,
          chunk + 1 < a.bands.chunks && end < a.q ? kSectorPixels : 0};
}

/// Of what a warpgroup has multiplied.
template <class T>
using WriterOf =
    std::conditional_t<T::kShape.runs, RunWriter<T>,
                       std::conditional_t<T::kShape.pixel_major, PixelWriter<T>, PieceWriter<T>>>;

template <class T>
using MultiplierOf = std::conditional_t<T::kShape.dense, DenseMultiplier<T>, RowMultiplier<T>>;

/// Of a strip: warpgroups take turns with its pieces.
template <class T>
__device__ __forceinline__ void multiply_strip(const Arguments<typename T::Element>& a,
                                               const StripWalk<typename T::Element>& strip,
                                               int warpgroup, MultiplierOf<T>& multiplier,
                                               Turns<T>& turns, WriterOf<T>& writer) {
  constexpr int kWarpgroups = T::kShape.multiplying_warpgroups;
  const int rows = strip.rows(), bands = strip.bands();
  const bool has_own_rows = a.group_rows > 1;
  Piece piece = has_own_rows ? Piece{warpgroup, 0} : a.piece_of_row(turns.first());
  // Each warpgroup has its turn, though it may have no row.
  const int all_rows = has_own_rows ? (rows + kWarpgroups - 1) / kWarpgroups * kWarpgroups : rows;
  for (; piece.row < all_rows; piece = after(a, piece)) {
    // The same in all lanes. Where registers are short, ptxas would find out ahead of the products whether
    // this piece is the last, and keep that in local memory, from where it comes behind all stores.
    if constexpr (T::kOperands == Operands::kSplit) piece.row = __shfl_sync(~0u, piece.row, 0);
    if (piece.row >= rows) {
      turns.wait();
      turns.pass();
      continue;
    }
    Sums<T::kSums> sums;
    // Before the warpgroup's turn it takes no time.
    if constexpr (Turns<T>::kTaken) clear(sums);
    const int next = after(a, piece).row;
    multiplier.bands().pass(piece.row);
    turns.wait();
    const auto [set, chunk] = a.row_chunks.divide(piece.number);
    multiplier.multiply(chunk, set, next < rows ? next : bands, sums, [&] { turns.pass(); });
    TilePosition tile = strip.first();
    tile.p = (tile.p + piece.row) * output_rows<T>(a);
    tile.q += chunk * T::kShape.columns;
    tile.filter_tile += set;
    writer.write(sums, tile, set, in_row(a, chunk, tile.q + T::kShape.columns));
  }
  turns.leave_strip(all_rows * static_cast<int>(a.row_pieces.divisor));
  multiplier.bands().pass(bands);
  multiplier.bands().enter_strip();
}

/// Of a strip of runs: each warpgroup has some of its own, and no more than the others' before one, and behind the last, to
/// pass.
template <class T>
__device__ __forceinline__ void multiply_runs(const Arguments<typename T::Element>& a,
                                              const StripWalk<typename T::Element>& strip,
                                              int warpgroup, DenseMultiplier<T>& multiplier,
                                              RunWriter<T>& writer) {
  const int rows = strip.rows();
  for (int row = warpgroup; row < rows; row += T::kShape.multiplying_warpgroups) {
    multiplier.bands().hand_back(row);
    const auto band = multiplier.enter();
    TilePosition tile = strip.first();
    tile.p += row;
    for (int set = 0; set < a.sets; ++set, ++tile.filter_tile) {
#pragma unroll 1
      for (int chunk = 0; chunk < kRunChunks; ++chunk) {
        Sums<T::kSums> sums;
        multiplier.multiply(band, chunk, set, sums);
        if (chunk + 1 == kRunChunks && set + 1 == a.sets) multiplier.bands().hand_back(row + 1);
        writer.put(sums, tile, chunk, set);
      }
      writer.send(tile);
    }
  }
  multiplier.bands().hand_back(rows);
  multiplier.bands().enter_strip();
}

template <class T>
__device__ __forceinline__ void multiply_and_write(const Arguments<typename T::Element>& a,
                                                   Block<T> block, int warpgroup) {
  WriterOf<T> writer(a, block, warpgroup);
  ptx::wait_for_kernel_before();  // which packs the filter, perhaps
  StripWalk<typename T::Element> strip(a);
  bring_filters(a, block, static_cast<int>(threadIdx.x) - T::kFirstMultiplier, strip.first());
  MultiplierOf<T> multiplier(a, block, strip.first());
  Turns<T> turns(warpgroup);
  writer.enter(strip.first());
  wait_for_filters<T>(a);
  for (; !strip.ended(); strip.advance()) {
    if constexpr (T::kShape.runs) {
      multiply_runs(a, strip, warpgroup, multiplier, writer);
    } else {
      multiply_strip(a, strip, warpgroup, multiplier, turns, writer);
    }
  }
  turns.finish();
  writer.finish();
}

template <class T>
__device__ __forceinline__ void stage_pairs(const Arguments<typename T::Element>& a, Block<T> block,
                                            int warpgroup) {
  const bool odd = a.padding_left % 2 != 0;
  if (a.stride_w == 1 && odd) return PairStaging<T, 1, true>(a, block, warpgroup).run();
  if (a.stride_w == 1) return PairStaging<T, 1, false>(a, block, warpgroup).run();
  if (odd) return PairStaging<T, 2, true>(a, block, warpgroup).run();
  PairStaging<T, 2, false>(a, block, warpgroup).run();
}

/// By a warpgroup.
template <class T>
__device__ __forceinline__ void stage(const Arguments<typename T::Element>& a, Block<T> block,
                                      int warpgroup) {
  if constexpr (may_stage_raw(T::kShape, T::kOperands)) {
    if (T::kShape.dense || a.bands.raw_bytes > 0) return RawStaging<T>(a, block).run();
  } else if constexpr (T::kShape.dense) {
    if (a.pairs) return stage_pairs(a, block, warpgroup);
    switch (a.channels) {
      case 1: return DenseStaging<T, 1>(a, block, warpgroup).run();
      case 2: return DenseStaging<T, 2>(a, block, warpgroup).run();
      default: return DenseStaging<T, kDenseChannels>(a, block, warpgroup).run();
    }
  } else if constexpr (T::kOperands == Operands::kSplit) {
    if (a.stride_w == 1) return BandStaging<T, 1>(a, block, warpgroup).run();
    if (a.stride_w == 2) return BandStaging<T, 2>(a, block, warpgroup).run();
  }
  if constexpr (!T::kShape.dense) BandStaging<T, kUnitColumns>(a, block, warpgroup).run();
}

template <class T>
__global__ void __launch_bounds__(T::kShape.threads(), 1)
    stem_kernel(const __grid_constant__ Arguments<typename T::Element> a) {
#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 900
  const Block<T> block = {a.shared};
  if (threadIdx.x == 0) {
    constexpr int kWarps = 4;  // of a warpgroup
    barriers().bands.initialize(kMaxBands,
                                lanes_arrive(T::kShape, T::kOperands) ? 32 * kWarps : kWarps,
                                kWarps * T::kShape.multiplying_warpgroups);
    ::cuda::ptx::mbarrier_init(&barriers().filters, 1);
    if constexpr (may_stage_raw(T::kShape, T::kOperands))
      for (RawStage& stage : barriers().raw) ::cuda::ptx::mbarrier_init(&stage.full, 1);
    ::cuda::ptx::fence_mbarrier_init(::cuda::ptx::sem_release, ::cuda::ptx::scope_cluster);
  }
  __syncthreads();
  ptx::let_next_start();

  // The same for a warp, which the compiler must know to keep descriptors in uniform registers.
  const int warpgroup = __shfl_sync(~0u, static_cast<int>(threadIdx.x) / 128, 0);
  if (warpgroup < T::kShape.staging_warpgroups) {
    ptx::give_up_registers<staging_registers(T::kShape)>();
    wait_for_inputs(a);
    stage<T>(a, block, warpgroup);
  } else {
    ptx::take_registers<multiplying_registers(T::kShape)>();
    multiply_and_write<T>(a, block, warpgroup - T::kShape.staging_warpgroups);
  }
#endif
}

}  // namespace im2win::cuda::fused::stem
