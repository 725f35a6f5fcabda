// Products of windows that are read from lines as they come, through registers: wgmma takes its first operand from
// there, element by element, so that nothing need be put in order for it in shared memory, and a row is any pixel.
#pragma once

#include <cstdint>

#include "cuda/fused/arguments.cuh"
#include "cuda/fused/operand_rings.cuh"
#include "cuda/fused/products.cuh"
#include "cuda/fused/raw.cuh"
#include "cuda/fused/slabs.cuh"
#include "cuda/fused/sums.cuh"

namespace im2win::cuda::fused {

/// Multiplies the windows of 64 pixels a warpgroup, or twice as many, by all of a tile's filters. Slabs are lines (see
/// raw.cuh), and a batch is a tap of a slab's channels: so many elements further on, for all pixels the same. A warp reads
/// eight neighbours of four channels at a time.
template <class T>
class LineMultiplier {
 public:
  __device__ __forceinline__ LineMultiplier(const Arguments<typename T::Element>& a, Block<T> block,
                                            int warpgroup)
      : a_(a),
        block_(block),
        rings_(a, block, warpgroup),
        first_column_(warpgroup * T::kShape.columns +
                      static_cast<int>(threadIdx.x % 128 / 32 * 16 + threadIdx.x % 32 / 4)),
        slab_bytes_(ptx::fresh(block.layout.slab)),
        never_(a.tiles < 0) {
    place_pixels(0);
  }

  /// `more`: whether the block has another tile after this one.
  __device__ __forceinline__ void multiply(const TilePosition& tile, bool more,
                                           SumsOfSets<T>& sums) {
    rings_.enter_tile(more);
    slabs_left_ = a_.tile.slabs();
    tap_group_ = -1;
    chunks_left_ = 0;
    accumulate_ = false;
    if (a_.tile.run > 0) place_pixels(tile.begin);
    enter_slab(tile);
    Windows windows, others = {};
    load(windows);
    while (turn(tile, windows, others, sums) && turn(tile, others, windows, sums)) {
    }
#pragma unroll
    for (Sums<T::kSums>& set : sums) Order<T>::end(set.sum);
    rings_.hand_back(used_);
    rings_.leave_tile();
  }

 private:
  static constexpr OperandTraits kTraits = OperandRings<T>::kTraits;
  static constexpr int kRows = 2;  // pixels of a thread and set
  struct Windows {
    float of[T::kSets][kTraits.batch][2 * kRows];
  };

  /// The products of a batch; when those of the one before are done, which had the other windows, the next ones come in
  /// their place. False after the last.
  __device__ __forceinline__ bool turn(const TilePosition& tile, const Windows& windows,
                                       Windows& others, SumsOfSets<T>& sums) {
    rings_.wait_filters();
    issue(windows, sums);
    const int used = rings_.filter().stage;
    rings_.leave_filters();
    Order<T>::template wait<1>();
    keep(others);
    rings_.hand_back(used_);
    used_.filters = used;
    const bool goes_on = advance(tile);
    if (goes_on) load(others);
    return goes_on;
  }

  /// Products read registers until they are done, which ptxas does not know: it would have what comes next put there. So
  /// they seem to be stored here.
  __device__ __forceinline__ void keep(const Windows& windows) const {
#pragma unroll
    for (const auto& set : windows.of)
#pragma unroll
      for (const float(&step)[2 * kRows] : set)
        ptx::store_unit_if(never_, reinterpret_cast<uint4*>(block_.slab(0)),
                           reinterpret_cast<const uint4&>(step));
  }

  /// Behind a batch. False after the last slab's.
  __device__ __forceinline__ bool advance(const TilePosition& tile) {
    if (--taps_left_ > 0) {
      tap_ += kTraits.batch * static_cast<int>(sizeof(Step));
      return true;
    }
    release_slab();
    rings_.leave_slab();
    if (--slabs_left_ == 0) return false;
    enter_slab(tile);
    return true;
  }

  /// Its last products have begun: all lanes have read it. One tells for its warp, but each where threads fill slabs.
  __device__ __forceinline__ void release_slab() const {
    if (!a_.boxed) return barriers().slabs.arrive_empty(rings_.slab().stage);
    __syncwarp();
    rings_.release_slab(rings_.slab().stage);
  }

  __device__ __forceinline__ void enter_slab(const TilePosition& tile) {
    if (chunks_left_ == 0) enter_group(tile);
    --chunks_left_;
    const int kind = kind_of(a_.tile, tap_group_);
    taps_left_ = a_.tile.steps[kind].count / kTraits.batch;
    tap_ = rings_.offset_in_tile(a_.tile.steps[kind].step);
    barriers().slabs.wait_full(rings_.slab());
  }

  /// Where lines' first pixel is depends on where in a word it is in memory.
  __device__ __forceinline__ void enter_group(const TilePosition& tile) {
    ++tap_group_;
    chunks_left_ = a_.tile.chunks;
    lines_ = RawUnits<T>::address(a_, block_, tile, first_tap(a_, tap_group_),
                                  static_cast<int>(threadIdx.x % 4));
  }

  /// From there, the thread's; those of a run that begins so far behind its first row's beginning.
  __device__ __forceinline__ void place_pixels(int begin) {
#pragma unroll
    for (int i = 0; i < T::kSets * kRows; ++i) {
      const int column = first_column_ + i / kRows * 64 + i % kRows * 8;
      const typename RawUnits<T>::Position at(a_, 0, column < columns() ? begin + column : 0);
      pixel_[i] = static_cast<uint32_t>(RawUnits<T>::offset(a_, at));
    }
  }

  /// Of the tile, those that have lines.
  __device__ __forceinline__ int columns() const {
    return a_.tile.run > 0 ? a_.tile.run : a_.tile.rows * a_.tile.images * a_.tile.pitch;
  }

  __device__ __forceinline__ void load(Windows& windows) const {
    const auto* tap = reinterpret_cast<const Step*>(reinterpret_cast<const char*>(&a_.tile) + tap_);
    const uint32_t further = lines_ + static_cast<uint32_t>(rings_.slab().stage * slab_bytes_) +
                             tap->offset * static_cast<uint32_t>(sizeof(float));
#pragma unroll
    for (int i = 0; i < T::kSets * kRows; ++i) {
      const uint32_t from = pixel_[i] + further;
#pragma unroll
      for (int unit = 0; unit < 2 * kTraits.batch; ++unit)
        windows.of[i / kRows][unit / 2][unit % 2 * kRows + i % kRows] =
            ptx::load_shared<float>(from + static_cast<uint32_t>(unit * a_.unit_bytes));
    }
  }

  __device__ __forceinline__ void issue(const Windows& windows, SumsOfSets<T>& sums) {
    const Descriptor filters = rings_.filters().uniform();
    Order<T>::begin();
#pragma unroll
    for (int i = 0; i < kTraits.batch; ++i)
#pragma unroll
      for (int set = 0; set < T::kSets; ++set)
        WgmmaOfRegisters<T::kOperands, T::kShape.filters>::multiply(
            sums[set].sum, windows.of[set][i], filters + i * rings_.step(), i > 0 || accumulate_);
    Order<T>::commit();
    accumulate_ = true;
  }

  const Arguments<typename T::Element>& a_;
  Block<T> block_;
  OperandRings<T> rings_;
  int first_column_;  // of the thread's pixels in a tile
  int slab_bytes_;
  uint32_t lines_ = 0;                // in shared memory, of the thread's channel
  uint32_t pixel_[T::kSets * kRows];  // from there
  int slabs_left_ = 0, chunks_left_ = 0, tap_group_ = 0;
  int taps_left_ = 0, tap_ = 0;  // of the slab: see OperandRings::offset_in_tile
  StagesInUse used_;             // by products under way
  bool accumulate_ = false;
  bool never_;  // false, as nobody knows
};

}  // namespace im2win::cuda::fused
