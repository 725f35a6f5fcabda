// Rows of pixels (see tile.hpp) of inputs that are no words of 16 bytes, and so cannot come as boxes.
#pragma once

#include <cstdint>

#include "cuda/fused/arguments.cuh"
#include "cuda/fused/block.cuh"
#include "cuda/fused/operands.cuh"
#include "cuda/fused/raw.cuh"
#include "cuda/fused/slabs.cuh"
#include "cuda/ptx.cuh"

namespace im2win::cuda::fused {

/// Element by element, to where boxes would have put them.
template <class T>
class PixelRowStaging {
 public:
  __device__ __forceinline__ PixelRowStaging(const Arguments<typename T::Element>& a,
                                             Block<T> block)
      : a_(a), block_(block) {}

  __device__ __forceinline__ void run() {
    wait_for_inputs(a_);
    for (SlabWalk<typename T::Element> at(a_); !at.ended(a_); at.advance(a_))
      stage(at.tile, at.slab.chunk);
  }

 private:
  using Moved = fused::Moved<T::kOperands>;
  static constexpr int kWordPixels = kUnitBytes / static_cast<int>(sizeof(Moved));

  __device__ __forceinline__ void stage(const TilePosition& tile, int chunk) {
    const int rows = a_.tile.units * a_.tile.unit_channels;
    barriers().slabs.wait_empty(cursor_);
    char* const slab = block_.slab(cursor_.stage);
    const int words = T::kShape.columns / kWordPixels * rows;
    for (int i = static_cast<int>(threadIdx.x); i < words; i += T::kStagingThreads) {
      const int row = i / kRowUnits, word = i % kRowUnits;  // of all blocks of pixels
      const int column = row / rows * kRowPixels + word * kWordPixels;
      Moved x[kWordPixels];
      load(tile, chunk * rows + row % rows, column, x);
      *reinterpret_cast<uint4*>(slab + swizzled_place(row, word, kRowUnits) * kUnitBytes) =
          pack_unit(x);
    }
    barriers().slabs.arrive_full_by_warp(cursor_.stage);
    cursor_.advance(a_.tile.slab_stages);
  }

  /// Neighbours, zero outside the input.
  __device__ __forceinline__ void load(const TilePosition& tile, int channel, int column,
                                       Moved (&x)[kWordPixels]) const {
    const auto [row, pixel] = a_.pitch.divide(tile.begin + column);
    const bool exists = channel < a_.channels && tile.p + row < a_.h;
    const Moved* from = origin<T>(a_, tile, channel) + int64_t{tile.p + row} * a_.row_stride +
                        int64_t{pixel} * a_.column_stride;
#pragma unroll
    for (int i = 0; i < kWordPixels; ++i)
      x[i] = ptx::load_if(exists && pixel + i < a_.w, from + int64_t{i} * a_.column_stride);
  }

  const Arguments<typename T::Element>& a_;
  Block<T> block_;
  Cursor cursor_;
};

}  // namespace im2win::cuda::fused
