// The warps that bring windows to shared memory: their inputs, once for all taps.
#pragma once

#include <cuda_pipeline_primitives.h>
#include <cuda/ptx>

#include <cstdint>

#include "cuda/fused/arguments.cuh"
#include "cuda/fused/block.cuh"
#include "cuda/fused/operands.cuh"
#include "cuda/fused/raw.cuh"
#include "cuda/ptx.cuh"

namespace im2win::cuda::fused {

/// Fills slabs with the inputs under a block's windows, tile after tile.
template <class T>
class WindowStaging {
 public:
  using Element = typename T::Element;

  __device__ __forceinline__ WindowStaging(const Arguments<Element>& a, Block<T> block)
      : a_(a), block_(block), raw_(a, block), thread_(static_cast<int>(threadIdx.x)) {}

  __device__ __forceinline__ void run() {
    if (raw()) {
      for (int i = 1; i < a_.tile.raw.stages; ++i) raw_.bring();
    }
    for (int32_t number = blockIdx.x; number < a_.tiles; number += gridDim.x) {
      const TilePosition tile = locate(a_, number);
      for (int tap_group = 0; tap_group < a_.tile.tap_groups; ++tap_group) {
        place(tile, tap_group);
        for (int chunk = 0; chunk < a_.tile.chunks; ++chunk) stage(tile, tap_group, chunk);
      }
    }
  }

 private:
  static constexpr int kUnitElements = traits(T::kOperands).unit_elements;
  using Moved = fused::Moved<T::kOperands>;

  __device__ __forceinline__ bool raw() const {
    return T::kInstructions == Instructions::kWgmma && a_.tile.raw.stages > 0;
  }

  /// Where a slab's elements come from.
  struct Source {
    const Moved* from;  // its first channel
    int channels;       // from that on
    RawUnits<T> raw;
  };

  /// Where the positions are in the input.
  __device__ __forceinline__ void place(const TilePosition& tile, int tap_group) {
    const Tap tap = first_tap(a_, tap_group);
    const LinePixels<Element> pixels(a_, tile, tap.row);
    sync();  // none reads the places of the group before any more
    for (int position = thread_; position < a_.tile.positions; position += T::kStagingThreads) {
      const auto [plane, in_plane] = a_.plane_positions.divide(position);
      const auto [line, column] = a_.pitch.divide(tile.begin + in_plane);
      const auto [row, image] = a_.tile_images.divide(line);
      const int y = pixels.y(row), x = pixels.x(column) + a_.tile.origin[tap.column + plane];
      const bool inside = y >= 0 && y < a_.h && tile.n + image < a_.n &&
                          (a_.tile.unit_columns > 1 || (x >= 0 && x < a_.w));
      int offset = image * static_cast<int>(a_.stride_n) + y * a_.row_stride + x * a_.column_stride;
      int columns = x;
      if (raw()) {
        const int line = image * a_.tile.raw.rows + (a_.tile.raw.rows > 1 ? row : 0);
        offset = (line * a_.tile.raw.pitch + (y * a_.w + x - pixels.first(row)) * a_.raw_column) *
                 static_cast<int>(sizeof(Moved));
        columns = 0;
        for (int i = 0; i < a_.tile.unit_columns; ++i)
          columns |= static_cast<unsigned>(x + i * a_.dilation_w) < static_cast<unsigned>(a_.w)
                         ? 1 << i
                         : 0;
      }
      block_.places()[position] = {inside ? offset : kNowhere, columns};
    }
    sync();
  }

  __device__ __forceinline__ void stage(const TilePosition& tile, int tap_group, int chunk) {
    const int first_channel = chunk * a_.tile.units * a_.tile.unit_channels;
    const Moved* from = raw_.origin(tile, first_channel);
    const int channels = static_cast<int>(a_.channels) - first_channel;
    if (raw()) {
      sync();  // none reads the lines of the slab before any more
      raw_.bring();
      raw_.wait();
      from += LinePixels<Element>(a_, tile, tap_group).first(0) * a_.raw_column;
    }
    if (a_.copies) {
      barriers().slabs.wait_empty(cursor_);
      copy(from, channels);
      barriers().slabs.arrive_full_after_copies(cursor_.stage);
    } else {
      const Source source = {from, channels, RawUnits<T>(a_, raw_.lines(), from, channels)};
      if constexpr (T::kOperands == Operands::kSplit) {
        stage_split(source);
      } else {
        barriers().slabs.wait_empty(cursor_);
        gather(source);
      }
      release(cursor_.stage);
    }
    if (raw()) raw_.advance();
    cursor_.advance(a_.tile.slab_stages);
  }

  /// 16 bytes of neighbouring channels at a time; lanes of one position are neighbours in memory. A
  /// thread has the same unit all the time, as the number of units divides that of the threads.
  __device__ __forceinline__ void copy(const Moved* from, int channels) {
    constexpr int kTogether = 8;
    const int shift = __ffs(a_.tile.units) - 1, apart = T::kStagingThreads >> shift;
    const int unit = thread_ & (a_.tile.units - 1);
    const bool exists = unit * kUnitElements < channels;
    const Moved* source = from + unit * kUnitElements;
    char* to = block_.slab(cursor_.stage) + unit * a_.tile.positions_pitch * kUnitBytes;
    for (int first = thread_ >> shift; first < a_.tile.positions; first += kTogether * apart) {
      int offset[kTogether];
#pragma unroll
      for (int i = 0; i < kTogether; ++i)
        offset[i] = block_.places()[min(first + i * apart, a_.tile.positions - 1)].offset;
#pragma unroll
      for (int i = 0; i < kTogether; ++i) {
        const int position = first + i * apart;
        if (position >= a_.tile.positions) break;
        const bool inside = offset[i] != kNowhere && exists;
        __pipeline_memcpy_async(to + position * kUnitBytes, inside ? source + offset[i] : source,
                                kUnitBytes, inside ? 0 : kUnitBytes);
      }
    }
  }

  /// Element by element, for any strides.
  __device__ __forceinline__ void gather(const Source& source) {
    char* slab = block_.slab(cursor_.stage);
    for (int first = thread_; first < slab_units(); first += kRound) {
      Moved x[kTogether][kUnitElements];
      load_round(source, first, x);
      for_round(first, x, [&](int offset, const Moved(&unit)[kUnitElements]) {
        *reinterpret_cast<uint4*>(slab + offset) = pack_unit(unit);
      });
    }
  }

  /// A slab's units, in the order unit, position, go in rounds of some for each thread.
  static constexpr int kTogether = T::kStagingRegisters < 80 ? 1 : T::kStagingThreads > 96 ? 2 : 4;
  static constexpr int kRound = kTogether * T::kStagingThreads;

  __device__ __forceinline__ int slab_units() const { return a_.tile.units * a_.tile.positions; }

  __device__ __forceinline__ void load_round(const Source& source, int first,
                                             Moved (&x)[kTogether][kUnitElements]) {
    const auto for_each = [&](const auto& load) {
#pragma unroll
      for (int i = 0; i < kTogether; ++i) {
        const auto [unit, position] = a_.positions.divide(first + i * T::kStagingThreads);
        Place place = {kNowhere, 0};
        if (unit < a_.tile.units) place = block_.places()[position];
        load(place, unit, x[i]);
      }
    };
    if (!raw()) {
      for_each([&](const Place& place, int unit, Moved(&x)[kUnitElements]) {
        load_unit(source.from, place, unit * a_.tile.unit_channels, source.channels, x);
      });
    } else if (source.raw.are_whole()) {
      for_each([&](const Place& place, int unit, Moved(&x)[kUnitElements]) {
        source.raw.template load<true>(place, unit, x);
      });
    } else {
      for_each([&](const Place& place, int unit, Moved(&x)[kUnitElements]) {
        source.raw.template load<false>(place, unit, x);
      });
    }
  }

  __device__ __forceinline__ int place_of(int position, int unit) const {
    if constexpr (!kHasBoxes<T>) return unit * a_.tile.positions_pitch + position;
    return a_.tile.place(position, unit);
  }

  /// Calls use(its place in a slab, in bytes; its elements) for each unit of a round.
  template <class Use>
  __device__ __forceinline__ void for_round(int first, const Moved (&x)[kTogether][kUnitElements],
                                            const Use& use) {
#pragma unroll
    for (int i = 0; i < kTogether; ++i) {
      const auto [unit, position] = a_.positions.divide(first + i * T::kStagingThreads);
      if (unit < a_.tile.units) use(place_of(position, unit) * kUnitBytes, x[i]);
    }
  }

  /// The elements of one unit, zero outside the input.
  __device__ __forceinline__ void load_unit(const Moved* from, const Place& place,
                                            int first_channel, int channels,
                                            Moved (&x)[kUnitElements]) {
    const bool inside = place.offset != kNowhere;
    if (a_.tile.unit_columns > 1) {
      load_columns(from, place, inside, channels, x);
    } else if (a_.vectors) {
      load_vectors(from + first_channel + place.offset, inside && first_channel < channels, x);
    } else {
      const Moved* source = from + first_channel * a_.stride_c;
      if constexpr (T::kOperands == Operands::kSplit) {
        if (first_channel + kUnitElements <= channels)
          return ptx::load_if(inside, source + place.offset,
                              a_.stride_c * static_cast<int64_t>(sizeof(Moved)), x);
      }
#pragma unroll
      for (int e = 0; e < kUnitElements; ++e, source += a_.stride_c)
        x[e] = ptx::load_if(inside && first_channel + e < channels, source + place.offset);
    }
  }

  __device__ __forceinline__ void load_vectors(const Moved* source, bool inside,
                                               Moved (&x)[kUnitElements]) {
    constexpr int kEach = kUnitBytes / static_cast<int>(sizeof(Moved));
#pragma unroll
    for (int i = 0; i < kUnitElements / kEach; ++i) {
      const uint4 vector = ptx::load_if(inside, reinterpret_cast<const uint4*>(source) + i);
      memcpy(&x[i * kEach], &vector, sizeof vector);
    }
  }

  /// Few channels of several tap columns: element e is of channel e mod unit_channels.
  __device__ __forceinline__ void load_columns(const Moved* from, const Place& place, bool inside,
                                               int channels, Moved (&x)[kUnitElements]) {
    const int mask = a_.tile.unit_channels - 1, shift = __popc(mask);
#pragma unroll
    for (int e = 0; e < kUnitElements; ++e) {
      const int channel = e & mask, step = (e >> shift) * a_.dilation_w;
      const bool here = inside && channel < channels &&
                        static_cast<unsigned>(place.column + step) < static_cast<unsigned>(a_.w);
      x[e] = ptx::load_if(here,
                          from + (place.offset + step * a_.column_stride) + channel * a_.stride_c);
    }
  }

  /// Reads the slab for its largest magnitude, and all but the last round again to split it.
  __device__ __forceinline__ void stage_split(const Source& source) {
    const int last = thread_ + (slab_units() - 1) / kRound * kRound;
    Moved x[kTogether][kUnitElements];
    Magnitudes magnitudes;
    for (int first = thread_; first <= last; first += kRound) {
      load_round(source, first, x);
#pragma unroll
      for (const auto& unit : x)
#pragma unroll
        for (int e = 0; e < kUnitElements; e += 2) magnitudes.add(unit[e], unit[e + 1]);
    }
    const Scale scale = Scale::of(merge(magnitudes));

    barriers().slabs.wait_empty(cursor_);
    if (thread_ == 0) barriers().scales[cursor_.stage] = {scale.inverse, scale.fit};
    char* high = block_.slab(cursor_.stage);
    for (int first = last; first >= 0; first -= kRound) {
      if (first != last) load_round(source, first, x);
      for_round(first, x, [&](int offset, const float(&unit)[kUnitElements]) {
        uint4 parts[2];
        split_unit(unit, scale.factor, parts[0], parts[1]);
        *reinterpret_cast<uint4*>(high + offset) = parts[0];
        *reinterpret_cast<uint4*>(high + a_.shared.part + offset) = parts[1];
      });
    }
  }

  /// Over all staging threads. Two sets of results, so that one barrier is enough.
  __device__ __forceinline__ Magnitudes merge(Magnitudes magnitudes) {
    magnitudes.merge_warp();
    Magnitudes(&of_warps)[T::kStagingThreads / 32] = barriers().magnitudes[turn_];
    turn_ ^= 1;
    if (thread_ % 32 == 0) of_warps[thread_ / 32] = magnitudes;
    sync();
#pragma unroll
    for (const Magnitudes& other : of_warps) magnitudes.merge(other);
    return magnitudes;
  }

  /// What this thread stored becomes visible to those who multiply; wgmma reads by the async proxy.
  __device__ __forceinline__ void release(int stage) {
    if constexpr (T::kInstructions == Instructions::kWgmma)
      ::cuda::ptx::fence_proxy_async(::cuda::ptx::space_shared);
    __syncwarp();
    if (thread_ % 32 == 0) barriers().slabs.arrive_full(stage);
  }

  __device__ __forceinline__ void sync() {
    ptx::named_barrier(kStagingBarrier, T::kStagingThreads);
  }

  const Arguments<Element>& a_;
  Block<T> block_;
  RawStaging<T> raw_;
  Cursor cursor_;
  int thread_;
  int turn_ = 0;
};

}  // namespace im2win::cuda::fused
