// From boxes of float32 lines to slabs of operands. Each unit is at the same place in each slab, but for edges of the
// input, so that it is found once: to find it for each slab takes longer than to move it, as the kernel's parameters are
// in a far cache.
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

/// Fills slabs, tile after tile: threads go through a slab's units and the gaps between them in the order of memory, and
/// each looks up in its part of a table where they come from. What loops read besides is kept in registers.
template <class T>
class PlacedStaging {
 public:
  using Element = typename T::Element;

  __device__ __forceinline__ PlacedStaging(const Arguments<Element>& a, Block<T> block)
      : a_(a),
        block_(block),
        threads_(ptx::fresh(staging_threads<T>(a.tile))),
        first_(static_cast<int>(threadIdx.x)),
        end_(ptx::fresh(a.tile.units * a.tile.positions_pitch)),
        offsets_(kept(ptx::shared_address(block.unit_offsets()))),
        has_zeros_(ptx::fresh(a.tile.raw.has_zeros_around) != 0),
        slabs_(threads_),
        first_slab_(block.slab(0)),
        slab_(ptx::fresh(block.layout.slab)),
        low_(ptx::fresh(block.layout.part)),
        raw_stage_(ptx::fresh(block.layout.raw_stage)),
        slab_stages_(ptx::fresh(a.tile.slab_stages)) {
    if constexpr (kSplits) {
      const uint32_t lines = ptx::shared_address(block.raw(0));
      first_word_ = lines + threadIdx.x * kUnitBytes;
      words_end_ = kept(lines + static_cast<uint32_t>(a.raw_lines * a.tile.raw.pitch * kBytes));
    }
  }

  __device__ __forceinline__ void run() {
    stage_tiles(
        a_,
        [&](const TilePosition& tile, int tap_group) {
          const Tap tap = first_tap(a_, tap_group);
          raw_units_.enter(a_, block_, tile, tap);
          enter(tile, tap);
        },
        [&](int slabs) {
#pragma unroll 1
          for (; slabs > 0; --slabs) stage();
        });
  }

 private:
  static constexpr bool kSplits = T::kOperands == Operands::kSplit;
  static constexpr int kElements = RawUnits<T>::kElements, kBytes = sizeof(float);
  /// Units at a time, as far as there are registers: each would wait for the last one.
  static constexpr int kTogether = !kSplits ? 4 : T::kStagingRegisters < 72 ? 1 : 2;

  __device__ __forceinline__ void sync() const { ptx::named_barrier(kStagingBarrier, threads_); }

  __device__ __forceinline__ static uint32_t kept(uint32_t x) {
    return static_cast<uint32_t>(ptx::fresh(static_cast<int32_t>(x)));
  }

  /// Makes the table, unless it is there: that of positions where edges are others, that of units where runs begin
  /// elsewhere in a row, too.
  __device__ __forceinline__ void enter(const TilePosition& tile, const Tap& tap) {
    const Edges edges = this->edges(tile, tap);
    const bool has_moved = !(edges == placed_for_);
    if (has_moved) {
      placed_for_ = edges;
      sync();  // none reads the last ones any more
      place_positions();
      sync();
    }
    if (has_moved || tile.begin != begin_) place_units(tile.begin);
    begin_ = tile.begin;
  }

  __device__ __forceinline__ Edges edges(const TilePosition& tile, const Tap& tap) const {
    constexpr int kAny = 1 << 30;
    if (has_zeros_) return {1, 0, kAny, 0, kAny};
    return LinePixels<Element>(a_, tile, tap.row).edges();
  }

  /// Of a plane, from its row's beginning on.
  __device__ __forceinline__ int plane_places() const {
    return a_.tile.plane_positions + table_begins(a_.tile);
  }
  __device__ __forceinline__ int16_t* position_offsets() const {
    return block_.unit_offsets() + end_;
  }

  __device__ __forceinline__ void place_positions() const {
    const int places = plane_places();
    for (int plane = 0; plane < a_.tile.planes; ++plane)
#pragma unroll 1
      for (int i = first_; i < places; i += threads_) {
        const typename RawUnits<T>::Position at(a_, plane, i);
        position_offsets()[plane * places + i] =
            at.is_in(placed_for_) ? static_cast<int16_t>(RawUnits<T>::offset(a_, at) / kBytes)
                                  : kOutside;
      }
  }

  /// The thread's.
  __device__ __forceinline__ void place_units(int begin) const {
    const int16_t* const offsets = position_offsets() + begin;
    const int pitch = a_.tile.positions_pitch, positions = a_.tile.positions;
    const int begins = table_begins(a_.tile), unit = RawUnits<T>::offset(a_, 1) / kBytes;
    int position = first_, of_unit = 0;
#pragma unroll 1
    for (int i = first_; i < end_; i += threads_, position += threads_) {
      for (; position >= pitch; position -= pitch) of_unit += unit;
      int offset = kGap;
      if (position < positions) {
        offset = offsets[position + a_.plane_positions.quotient(position) * begins];
        if (offset != kOutside) offset += of_unit;
      }
      block_.unit_offsets()[i] = static_cast<int16_t>(offset);
    }
  }

  __device__ __forceinline__ void stage() {
    barriers().raw.wait_full(lines_);
    const auto lines = static_cast<uint32_t>(lines_.stage * raw_stage_);
    Scale scale;
    if constexpr (kSplits) scale = slabs_.scale_of(magnitudes(lines));
    barriers().slabs.wait_empty(cursor_);
    if constexpr (kSplits) slabs_.tell(scale, cursor_.stage);
    move(lines, first_slab_ + cursor_.stage * slab_, scale);
    barriers().slabs.arrive_full_by_warp(cursor_.stage);
    barriers().raw.arrive_empty(lines_.stage);
    lines_.advance(kMaxRawStages);
    cursor_.advance(slab_stages_);
  }

  /// Lines have each element once, and in words.
  __device__ __forceinline__ Magnitudes magnitudes(uint32_t lines) const {
    Magnitudes magnitudes;
    const uint32_t end = words_end_ + lines;
#pragma unroll 2
    for (uint32_t word = first_word_ + lines; word < end; word += threads_ * kUnitBytes)
      magnitudes.add(ptx::load_shared<float4>(word));
    return magnitudes;
  }

  __device__ __forceinline__ void move(uint32_t lines, char* slab, const Scale& scale) const {
#pragma unroll 1
    for (int first = first_; first < end_; first += kTogether * threads_) {
      int offset[kTogether];
      float x[kTogether][kElements];
#pragma unroll
      for (int i = 0; i < kTogether; ++i) offset[i] = this->offset(first + i * threads_);
#pragma unroll
      for (int i = 0; i < kTogether; ++i) load(offset[i], lines, x[i]);
#pragma unroll
      for (int i = 0; i < kTogether; ++i)
        if (offset[i] != kGap) store(slab + (first + i * threads_) * kUnitBytes, x[i], scale);
    }
  }

  __device__ __forceinline__ void load(int offset, uint32_t lines, float (&x)[kElements]) const {
    const uint32_t from = lines + static_cast<uint32_t>(max(offset, 0) * kBytes);
    if (has_zeros_) return raw_units_.load(from, x);
    raw_units_.load_if(offset >= 0, from, x);
  }

  /// Beyond the last unit there is a gap.
  __device__ __forceinline__ int offset(int unit) const {
    if (unit >= end_) return kGap;
    return ptx::load_shared<int16_t>(offsets_ + static_cast<uint32_t>(unit) * sizeof(int16_t));
  }

  /// Boxes of TF32 come rounded.
  __device__ __forceinline__ void store(char* to, const float (&unit)[kElements],
                                        const Scale& scale) const {
    if constexpr (kSplits) {
      slabs_.store(to, low_, unit, scale);
    } else {
      *reinterpret_cast<float4*>(to) = make_float4(unit[0], unit[1], unit[2], unit[3]);
    }
  }

  const Arguments<Element>& a_;
  Block<T> block_;
  int threads_;
  int first_, end_;   // of a slab's units and gaps: the thread's first, and after all
  uint32_t offsets_;  // the table, in shared memory
  bool has_zeros_;
  Edges placed_for_ = {};
  int begin_ = 0;
  SplitSlabs<T> slabs_;
  RawUnits<T> raw_units_;
  char* first_slab_;
  int slab_, low_, raw_stage_, slab_stages_;
  uint32_t first_word_ = 0, words_end_ = 0;  // of the first stage of lines, the thread's
  Cursor cursor_, lines_;                    // of slabs and of raw lines
};

}  // namespace im2win::cuda::fused
