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
      : a_(a), block_(block), thread_(static_cast<int>(threadIdx.x)) {}

  __device__ __forceinline__ void run() {
    for (int32_t number = blockIdx.x; number < a_.tiles; number += gridDim.x) {
      const TilePosition tile = locate(a_, number);
      for (int tap_group = 0; tap_group < a_.tile.tap_groups; ++tap_group) {
        if (tap_group == 0 || a_.tile.column_groups > 1)
          place(tile, first_tap(a_, tap_group).column);
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
    const Moved* from;  // its first channel and row
    int channels;       // from that on
    int row;            // the input's, which may be outside
    RawUnits<T> raw;
  };

  __device__ __forceinline__ bool is_inside(const Source& source, const Place& place) const {
    return static_cast<unsigned>(source.row) + static_cast<unsigned>(place.row) <
           static_cast<unsigned>(a_.h);
  }

  /// Where a tile's positions are in the input, whatever the tap row.
  __device__ __forceinline__ void place(const TilePosition& tile, int tap_column) {
    const LinePixels<Element> pixels(a_, tile, 0);
    sync();  // none reads the last places any more
    for (int position = thread_; position < a_.tile.positions; position += T::kStagingThreads) {
      const auto [plane, in_plane] = a_.plane_positions.divide(position);
      const auto [line, column] = a_.pitch.divide(tile.begin + in_plane);
      const auto [row, image] = a_.tile_images.divide(line);
      const int x = pixels.x(column) + a_.tile.origin[tap_column + plane], down = row * a_.stride_h;
      const bool inside =
          tile.n + image < a_.n &&
          (a_.tile.unit_columns > 1 || static_cast<unsigned>(x) < static_cast<unsigned>(a_.w));
      Place place = {0, x, inside ? down : kNowhere};
      if (raw()) {
        place_in_lines(pixels, image, row, place);
      } else {
        place.offset =
            image * static_cast<int>(a_.stride_n) + down * a_.row_stride + x * a_.column_stride;
      }
      block_.places()[position] = place;
    }
    sync();
  }

  __device__ __forceinline__ void place_in_lines(const LinePixels<Element>& pixels, int image,
                                                 int row, Place& place) const {
    const RawLines& lines = a_.tile.raw;
    const int x = place.column;
    const int line = image * lines.rows + (lines.apart() ? row : 0);
    const int in_line =
        lines.apart() ? x - pixels.begin(kUnitBytes / sizeof(Moved)) : row * a_.stride_h * a_.w + x;
    place.offset = (line * lines.pitch + in_line * a_.raw_column) * static_cast<int>(sizeof(Moved));
    place.column = static_cast<int>(elements_at(x));
  }

  /// A bit for each element of a unit that is in the input, where its first column is x; channels that
  /// do not exist do not count where there are several columns.
  __device__ __forceinline__ uint32_t elements_at(int x) const {
    const int columns = a_.tile.unit_columns, channels = a_.tile.unit_channels;
    if (columns == 1) return ~0u;
    const uint32_t of_column = (1u << a_.channels) - 1;
    uint32_t elements = 0;
    for (int i = 0; i < columns; ++i, x += a_.dilation_w)
      elements |=
          static_cast<unsigned>(x) < static_cast<unsigned>(a_.w) ? of_column << i * channels : 0;
    return elements;
  }

  /// Of a slab. Its lines are there.
  __device__ __forceinline__ Source source_of(const TilePosition& tile, int tap_group,
                                              int chunk) const {
    const int first_channel = chunk * a_.tile.units * a_.tile.unit_channels;
    const int channels = static_cast<int>(a_.channels) - first_channel;
    const LinePixels<Element> pixels(a_, tile, first_tap(a_, tap_group).row);
    const int row = pixels.y(0);
    const Moved* from = origin<T>(a_, tile, first_channel);
    uint32_t lines = 0;
    if (raw()) {
      const int first = pixels.first(0), before = a_.tile.raw.apart() ? 0 : row * a_.w - first;
      lines = ptx::shared_address(block_.raw(lines_.stage)) +
              static_cast<uint32_t>(before * a_.raw_column * static_cast<int>(sizeof(Moved)));
      from += first * a_.raw_column;
    } else {
      from += int64_t{row} * a_.row_stride;
    }
    return {from, channels, row, RawUnits<T>(a_, lines, from, channels)};
  }

  __device__ __forceinline__ void stage(const TilePosition& tile, int tap_group, int chunk) {
    if (raw()) barriers().raw.wait_full(lines_);
    const Source source = source_of(tile, tap_group, chunk);
    if (a_.copies) {
      barriers().slabs.wait_empty(cursor_);
      copy(source);
      barriers().slabs.arrive_full_after_copies(cursor_.stage);
    } else {
      if constexpr (T::kOperands == Operands::kSplit) {
        stage_split(source);
      } else {
        barriers().slabs.wait_empty(cursor_);
        gather(source);
      }
      release(cursor_.stage);
    }
    if (raw()) {
      barriers().raw.arrive_empty(lines_.stage);
      lines_.advance(a_.tile.raw.stages);
    }
    cursor_.advance(a_.tile.slab_stages);
  }

  /// 16 bytes of neighbouring channels at a time; lanes of one position are neighbours in memory. A
  /// thread has the same unit all the time, as the number of units divides that of the threads.
  __device__ __forceinline__ void copy(const Source& source) {
    constexpr int kTogether = 8;
    const int shift = __ffs(a_.tile.units) - 1, apart = T::kStagingThreads >> shift;
    const int unit = thread_ & (a_.tile.units - 1);
    const bool exists = unit * kUnitElements < source.channels;
    const Moved* from = source.from + unit * kUnitElements;
    const Moved* nowhere = reinterpret_cast<const Moved*>(a_.input);
    char* to = block_.slab(cursor_.stage) + unit * a_.tile.positions_pitch * kUnitBytes;
    for (int first = thread_ >> shift; first < a_.tile.positions; first += kTogether * apart) {
      Place place[kTogether];
#pragma unroll
      for (int i = 0; i < kTogether; ++i)
        place[i] = block_.places()[min(first + i * apart, a_.tile.positions - 1)];
#pragma unroll
      for (int i = 0; i < kTogether; ++i) {
        const int position = first + i * apart;
        if (position >= a_.tile.positions) break;
        const bool inside = exists && is_inside(source, place[i]);
        __pipeline_memcpy_async(to + position * kUnitBytes,
                                inside ? from + place[i].offset : nowhere, kUnitBytes,
                                inside ? 0 : kUnitBytes);
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
  static constexpr int kTogether = T::kStagingRegisters < 72 ? 1 : 2;
  static constexpr int kRound = kTogether * T::kStagingThreads;

  __device__ __forceinline__ int slab_units() const { return a_.tile.units * a_.tile.positions; }

  __device__ __forceinline__ void load_round(const Source& source, int first,
                                             Moved (&x)[kTogether][kUnitElements]) {
    const auto for_each = [&](const auto& load) {
#pragma unroll
      for (int i = 0; i < kTogether; ++i) {
        const auto [unit, position] = a_.positions.divide(first + i * T::kStagingThreads);
        Place place = {0, 0, kNowhere};
        if (unit < a_.tile.units) place = block_.places()[position];
        load(place, unit, x[i]);
      }
    };
    if (!raw()) {
      for_each([&](const Place& place, int unit, Moved(&x)[kUnitElements]) {
        load_unit(source, place, unit * a_.tile.unit_channels, x);
      });
    } else if (source.raw.are_whole()) {
      for_each([&](const Place& place, int unit, Moved(&x)[kUnitElements]) {
        source.raw.template load<true>(place, is_inside(source, place), unit, x);
      });
    } else {
      for_each([&](const Place& place, int unit, Moved(&x)[kUnitElements]) {
        source.raw.template load<false>(place, is_inside(source, place), unit, x);
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
  __device__ __forceinline__ void load_unit(const Source& source, const Place& place,
                                            int first_channel, Moved (&x)[kUnitElements]) {
    const bool inside = is_inside(source, place);
    const int channels = source.channels;
    if (a_.tile.unit_columns > 1) {
      load_columns(source.from, place, inside, channels, x);
    } else if (a_.vectors) {
      load_vectors(source.from + first_channel + place.offset, inside && first_channel < channels,
                   x);
    } else {
      const Moved* from = source.from + first_channel * a_.stride_c;
      if constexpr (T::kOperands == Operands::kSplit) {
        if (first_channel + kUnitElements <= channels)
          return ptx::load_if(inside, from + place.offset,
                              a_.stride_c * static_cast<int64_t>(sizeof(Moved)), x);
      }
#pragma unroll
      for (int e = 0; e < kUnitElements; ++e, from += a_.stride_c)
        x[e] = ptx::load_if(inside && first_channel + e < channels, from + place.offset);
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

  /// Reads the slab for its largest magnitude and again to split it.
  __device__ __forceinline__ void stage_split(const Source& source) {
    const Scale scale = Scale::of(merge(!raw()              ? magnitudes_of(source)
                                        : a_.tile.raw.boxed ? magnitudes_of_box(source.channels)
                                                            : magnitudes_of_lines()));
    barriers().slabs.wait_empty(cursor_);
    if (thread_ == 0) barriers().scales[cursor_.stage] = {scale.inverse, scale.fit};
    char* high = block_.slab(cursor_.stage);
    for (int first = thread_; first < slab_units(); first += kRound) {
      Moved x[kTogether][kUnitElements];
      load_round(source, first, x);
      for_round(first, x, [&](int offset, const float(&unit)[kUnitElements]) {
        uint4 parts[2];
        split_unit(unit, scale.factor, parts[0], parts[1]);
        *reinterpret_cast<uint4*>(high + offset) = parts[0];
        *reinterpret_cast<uint4*>(high + a_.shared.part + offset) = parts[1];
      });
    }
  }

  __device__ __forceinline__ Magnitudes magnitudes_of(const Source& source) {
    Magnitudes magnitudes;
    for (int first = thread_; first < slab_units(); first += kRound) {
      Moved x[kTogether][kUnitElements];
      load_round(source, first, x);
#pragma unroll
      for (const auto& unit : x)
#pragma unroll
        for (int e = 0; e < kUnitElements; e += 2) magnitudes.add(unit[e], unit[e + 1]);
    }
    return magnitudes;
  }

  /// Faster, as lines have each element once, and in words; some are of no position, perhaps.
  __device__ __forceinline__ Magnitudes magnitudes_of_lines() {
    const LineExtent* extents = block_.extents(lines_.stage, a_.raw_lines);
    const int words = a_.raw_lines * static_cast<int>(a_.raw_words.divisor);
    Magnitudes magnitudes;
    for (int word = thread_; word < words; word += T::kStagingThreads) {
      const LineExtent extent = extents[a_.raw_words.quotient(word)];
      const int begin = word * kWord;
      if (begin >= extent.end || begin + kWord <= extent.begin) continue;
      float4 x = raw_word(word);
      if (begin < extent.begin || begin + kWord > extent.end) {
        const auto is_out = [&](int i) { return i < extent.begin || i >= extent.end; };
        if (is_out(begin)) x.x = 0;
        if (is_out(begin + 1)) x.y = 0;
        if (is_out(begin + 2)) x.z = 0;
        if (is_out(begin + 3)) x.w = 0;
      }
      magnitudes.add(x);
    }
    return magnitudes;
  }

  /// Of the first so many channels; what is outside the input is zero.
  __device__ __forceinline__ Magnitudes magnitudes_of_box(int channels) {
    const int words = min(channels, a_.tile.raw.channels) * a_.raw_channel / kWord;
    Magnitudes magnitudes;
#pragma unroll 2
    for (int word = thread_; word < words; word += T::kStagingThreads)
      magnitudes.add(raw_word(word));
    return magnitudes;
  }

  /// Of raw lines, in elements.
  static constexpr int kWord = kUnitBytes / sizeof(float);
  __device__ __forceinline__ float4 raw_word(int word) const {
    return reinterpret_cast<const float4*>(block_.raw(lines_.stage))[word];
  }

  /// Over all staging threads. Two sets of results, so that one barrier is enough.
  __device__ __forceinline__ Magnitudes merge(Magnitudes magnitudes) {
    magnitudes.merge_warp();
    Magnitudes* const of_warps = barriers().magnitudes[turn_];
    turn_ ^= 1;
    if (thread_ % 32 == 0) of_warps[thread_ / 32] = magnitudes;
    sync();
#pragma unroll
    for (int i = 0; i < T::kStagingThreads / 32; ++i) magnitudes.merge(of_warps[i]);
    return magnitudes;
  }

  /// What this thread stored becomes visible to those who multiply; wgmma reads by the async proxy.
  __device__ __forceinline__ void release(int stage) {
    if constexpr (T::kInstructions == Instructions::kWgmma) {
      ::cuda::ptx::fence_proxy_async(::cuda::ptx::space_shared);
      __syncwarp();
      if (thread_ % 32 != 0) return;
    }
    barriers().slabs.arrive_full(stage);
  }

  __device__ __forceinline__ void sync() {
    ptx::named_barrier(kStagingBarrier, T::kStagingThreads);
  }

  const Arguments<Element>& a_;
  Block<T> block_;
  Cursor cursor_, lines_;  // of slabs and of raw lines
  int thread_;
  int turn_ = 0;
};

}  // namespace im2win::cuda::fused
