// Rows of float pixels from registers to memory, in whole sectors.
#pragma once

#include <cstdint>

#include "cuda/fused/stem/arguments.cuh"
#include "cuda/fused/sums.cuh"
#include "cuda/ptx.cuh"

namespace im2win::cuda::fused::stem {

/// The outputs of a warp: 16 filters of NCHW. Memory takes several times as long for a part of a sector of 32
/// bytes as for a whole one, and rows begin anywhere in one.
///
/// Four lanes have two neighbours each of every eight pixels (see Wgmma). They store a sector at a time: *late*
/// lanes, whose two are beyond its end, those of the eight before. Where rows begin at an odd element, lanes
/// take the second of the lane before, as two that are stored together begin at an even one. What ends amid a
/// sector waits in shared memory for what follows in the row.
template <class T>
class SectorRows {
 public:
  /// `row`: the first filter's first pixel, in memory.
  __device__ __forceinline__ SectorRows(const Arguments<float>& a, Block<T> block, float* row)
      : lane_(ptx::thread_in_block() % 32),
        stride_(a.outputs.strides()[1]),
        row_(row),
        ends_(reinterpret_cast<float4*>(dynamic_shared_memory + block.layout.row_ends) +
              ptx::thread_in_block(T::kFirstMultiplier)) {}

  /// `finished`: what becomes of a sum of filter lane / 4, or of that and 8.
  template <class Finished>
  __device__ __forceinline__ void write(const Sums<T::kSums>& sums, const Finished& finished,
                                        int columns, InRow in_row) const {
    const auto begins = static_cast<uint32_t>(reinterpret_cast<uintptr_t>(row_) / sizeof(float)) |
                        static_cast<uint32_t>(stride_);
    if ((begins | static_cast<uint32_t>(columns)) % 2 != 0) {
      write_rows<true>(sums, finished, columns, in_row, false);
    } else {
      write_rows<false>(sums, finished, columns, in_row, begins % kEight == 0);
    }
  }

  /// What has waited, where those that follow are written otherwise.
  __device__ __forceinline__ void write_ends() const {
    const float4 ends = *ends_;
    Row(*this, 0).template store_parts<true>(0, {ends.x, ends.y}, {0, 0}, {-kEight, 0});
    Row(*this, 1).template store_parts<true>(0, {ends.z, ends.w}, {0, 0}, {-kEight, 0});
  }

 private:
  static constexpr int kEight = kSectorPixels, kEights = T::kShape.columns / kEight;

  struct Extent {
    int begin, end;  // of columns, from the chunk's first
  };

  /// Of the lane's two filters, one.
  class Row {
   public:
    __device__ __forceinline__ Row(const SectorRows& rows, int half) {
      float* const first = rows.row_ + (rows.lane_ / 4 + 8 * half) * rows.stride_;
      const int element =
          static_cast<int>(reinterpret_cast<uintptr_t>(first) / sizeof(float)) & (kEight - 1);
      is_odd_ = element % 2 != 0;
      const int pair = rows.lane_ % 4 * 2, at = (element & ~1) + pair;
      is_late_ = at >= kEight;
      gives_late_ = at + 2 >= kEight;
      column_ = pair - is_odd_ - (is_late_ ? kEight : 0);
      to_ = first + column_;
    }

    /// The lane's part of a sector, between one eight pixels and the next.
    template <bool kMayBeOdd>
    __device__ __forceinline__ float2 pair(float2 before, float2 now) const {
      const float2 own = is_late_ ? before : now;
      if constexpr (!kMayBeOdd) return own;
      const float second = gives_late_ ? before.y : now.y;
      const int lane = ptx::thread_in_block() % 32;
      const float from_lane_before = __shfl_sync(~0u, second, (lane & ~3) | ((lane + 3) & 3));
      return is_odd_ ? float2{from_lane_before, own.x} : own;
    }
    template <bool kMayBeOdd>
    __device__ __forceinline__ void store(int sector, float2 before, float2 now) const {
      ptx::store_streaming(reinterpret_cast<float2*>(to_ + sector * kEight),
                           pair<kMayBeOdd>(before, now));
    }
    /// Of those columns: pairs of both, and if they may be, columns without the other of their pair.
    template <bool kMayBeOdd>
    __device__ __forceinline__ void store_parts(int sector, float2 before, float2 now,
                                                Extent columns) const {
      const float2 pair = this->pair<kMayBeOdd>(before, now);
      const int column = column_ + sector * kEight;
      float* const to = to_ + sector * kEight;
      const bool has_first = column >= columns.begin && column < columns.end;
      const bool has_second =
          kMayBeOdd ? column + 1 >= columns.begin && column + 1 < columns.end : has_first;
      if (has_first && has_second) ptx::store_streaming(reinterpret_cast<float2*>(to), pair);
      if (kMayBeOdd && has_first && !has_second) to[0] = pair.x;
      if (kMayBeOdd && has_second && !has_first) to[1] = pair.y;
    }

   private:
    bool is_odd_, is_late_;
    bool gives_late_;  // whether the lane after it is late, or of the next eight
    int column_;       // of the first of the lane's part of the first sector
    float* to_;
  };

  template <bool kMayBeOdd, class Finished>
  __device__ __forceinline__ void write_rows(const Sums<T::kSums>& sums, const Finished& finished,
                                             int columns, InRow in_row, bool is_aligned) const {
    if (columns > T::kShape.columns - kEight) {
      write_rows<kMayBeOdd, true>(sums, finished, columns, in_row, is_aligned);
    } else {
      write_rows<kMayBeOdd, false>(sums, finished, columns, in_row, is_aligned);
    }
  }

  /// `kFull`: only the first and last sectors may be parts.
  template <bool kMayBeOdd, bool kFull, class Finished>
  __device__ __forceinline__ void write_rows(const Sums<T::kSums>& sums, const Finished& finished,
                                             int columns, InRow in_row, bool is_aligned) const {
    float2 ends[2] = {};
    if (in_row.before > 0) {
      const float4 both = *ends_;
      ends[0] = {both.x, both.y};
      ends[1] = {both.z, both.w};
    }
    const Extent extent = {-in_row.before, min(columns, T::kShape.columns)};
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const Row row(*this, half);
      float2 before = ends[half];
#pragma unroll
      for (int i = 0; i < kEights; ++i) {
        const float* const sum = &sums.sum[4 * i + 2 * half];
        const float2 now = {finished(sum[0], half), finished(sum[1], half)};
        if (kFull && i > 0 && i < kEights - 1) {
          row.template store<kMayBeOdd>(i, before, now);
        } else {
          row.template store_parts<kMayBeOdd>(i, before, now, extent);
        }
        before = now;
      }
      // None if others of the row are to be written with them. (Not a branch: ptxas would keep its condition in local
      // memory, which comes behind all stores.)
      if (!is_aligned)
        row.template store_parts<kMayBeOdd>(kEights, before, {0, 0},
                                            {extent.begin, in_row.after > 0 ? 0 : extent.end});
      ends[half] = before;
    }
    if (in_row.after > 0) *ends_ = {ends[0].x, ends[0].y, ends[1].x, ends[1].y};
  }

  int lane_;
  int64_t stride_;  // from a filter to the next
  float* row_;
  float4* ends_;  // the thread's
};

}  // namespace im2win::cuda::fused::stem
