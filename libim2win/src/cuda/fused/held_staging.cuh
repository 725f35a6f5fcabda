// Slabs of split operands that come in boxes and are read once: who stages holds their elements in registers until the
// largest magnitude is known.
#pragma once

#include <cstdint>

#include "cuda/fused/arguments.cuh"
#include "cuda/fused/block.cuh"
#include "cuda/fused/operands.cuh"
#include "cuda/fused/raw.cuh"
#include "cuda/fused/split_slabs.cuh"
#include "cuda/fused/stage_tiles.cuh"
#include "cuda/ptx.cuh"

namespace im2win::cuda::fused {

/// For a tile that is held: see Tile.
template <class T>
class HeldStaging {
 public:
  using Element = typename T::Element;

  __device__ __forceinline__ HeldStaging(const Arguments<Element>& a, Block<T> block)
      : a_(a),
        block_(block),
        slabs_(T::kStagingThreads),
        first_slab_(block.slab(0)),
        slab_(ptx::fresh(block.layout.slab)),
        low_(ptx::fresh(block.layout.part)),
        raw_stage_(ptx::fresh(block.layout.raw_stage)),
        slab_stages_(ptx::fresh(a.tile.slab_stages)) {
#pragma unroll
    for (int i = 0; i < kUnits; ++i) {
      const auto [unit, position] =
          a.positions.divide(static_cast<int>(threadIdx.x) + i * T::kStagingThreads);
      const bool exists = unit < a.tile.units;
      const int from =
          RawUnits<T>::offset(a, {a, 0, position}) + RawUnits<T>::offset(a, exists ? unit : 0);
      units_[i] = {ptx::fresh(from),
                   ptx::fresh(exists ? a.tile.place(position, unit) * kUnitBytes : kNowhere)};
    }
  }

  __device__ __forceinline__ void run() {
    stage_tiles(
        a_,
        [&](const TilePosition& tile, int tap_group) {
          raw_units_.enter(a_, block_, tile, first_tap(a_, tap_group));
        },
        [&](int slabs) {
#pragma unroll 1
          for (; slabs > 0; --slabs) stage();
        });
  }

 private:
  static constexpr int kUnits = T::kShape.held_units, kElements = RawUnits<T>::kElements;

  /// One of the thread's units, in bytes.
  struct Unit {
    int from, to;
  };
  static constexpr int kNowhere = -1;

  __device__ __forceinline__ void stage() {
    float x[kUnits][kElements];
    barriers().raw.wait_full(lines_);
    const int lines = lines_.stage * raw_stage_;
#pragma unroll
    for (int i = 0; i < kUnits; ++i)
      raw_units_.load(static_cast<uint32_t>(lines + units_[i].from), x[i]);
    Magnitudes magnitudes;
#pragma unroll
    for (int i = 0; i < kUnits; ++i)
#pragma unroll
      for (int e = 0; e < kElements; e += 2) magnitudes.add(x[i][e], x[i][e + 1]);
    barriers().raw.arrive_empty(lines_.stage);
    lines_.advance(kMaxRawStages);
    const Scale scale = slabs_.scale_of(magnitudes);

    barriers().slabs.wait_empty(cursor_);
    slabs_.tell(scale, cursor_.stage);
    char* const slab = first_slab_ + cursor_.stage * slab_;
#pragma unroll
    for (int i = 0; i < kUnits; ++i)
      if (units_[i].to != kNowhere) slabs_.store(slab + units_[i].to, low_, x[i], scale);
    barriers().slabs.arrive_full_by_warp(cursor_.stage);
    cursor_.advance(slab_stages_);
  }

  const Arguments<Element>& a_;
  Block<T> block_;
  SplitSlabs<T> slabs_;
  RawUnits<T> raw_units_;
  Unit units_[kUnits];
  char* first_slab_;
  int slab_, low_, raw_stage_, slab_stages_;
  Cursor cursor_, lines_;  // of slabs and of raw lines
};

}  // namespace im2win::cuda::fused
