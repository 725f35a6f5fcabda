// The warps that bring windows to shared memory: their inputs, once for all taps.
#pragma once

#include <cuda_pipeline_primitives.h>

#include <cstdint>

#include "cuda/fused/arguments.cuh"
#include "cuda/fused/block.cuh"
#include "cuda/fused/clear.cuh"
#include "cuda/fused/operands.cuh"
#include "cuda/fused/raw.cuh"
#include "cuda/fused/slabs.cuh"
#include "cuda/fused/split_slabs.cuh"
#include "cuda/ptx.cuh"

namespace im2win::cuda::fused {

/// Fills slabs with the inputs under a block's windows, tile after tile.
template <class T>
class WindowStaging {
 public:
  using Element = typename T::Element;

  __device__ __forceinline__ WindowStaging(const Arguments<Element>& a, Block<T> block)
      : a_(a),
        block_(block),
        thread_(static_cast<int>(threadIdx.x)),
        threads_(staging_threads<T>(a.tile)),
        slabs_(threads_) {}

  __device__ __forceinline__ void run() {
    bool is_first = true;
    for (SlabWalk<Element> at(a_); !at.ended(a_); at.advance(a_)) {
      const auto [tap_group, chunk, left, enters_group] = at.slab;
      if (enters_group) {
        const Tap tap = first_tap(a_, tap_group);
        place(at.tile, tap.column);
        enter(at.tile, tap);
      }
      if (is_first) wait_to_stage(a_);
      is_first = false;
      stage(chunk);
    }
    if constexpr (kRoundsCopies<T>)
      if (copied_stage_ >= 0) release_rounded<0>();
  }

 private:
  static constexpr int kUnitElements = traits(T::kOperands).unit_elements;
  using Moved = fused::Moved<T::kOperands>;

  __device__ __forceinline__ bool raw() const {
    return T::kInstructions == Instructions::kWgmma && a_.tile.raw.stages > 0;
  }

  /// Where a slab's elements come from: the rows' places and these channels.
  struct Source {
    const Moved* from;   // its first channel in the input
    int channels;        // from that on
    uint32_t raw_stage;  // bytes from the first raw stage to its own
  };

  __device__ __forceinline__ bool is_inside(const Place& place) const {
    return static_cast<unsigned>(row_) + static_cast<unsigned>(place.row) <
           static_cast<unsigned>(a_.h);
  }

  /// Places from a run's row's beginning on; of planes, one after the other.
  __device__ __forceinline__ int plane_places() const {
    return a_.tile.plane_positions + table_begins(a_.tile);
  }

  /// Where a tile's positions are in the input, whatever the tap row. The table is good for all tiles that
  /// have the same edges.
  __device__ __forceinline__ void place(const TilePosition& tile, int tap_column) {
    const int first = a_.tile.origin[tap_column];
    const int x0 = LinePixels<Element>(a_, tile, 0).x(0) + first;
    const int width = (a_.tile.pitch - 1) * a_.stride_w + a_.reach + 1;
    Edges edges = {a_.tile.images, 0, width};
    if (!a_.tile.raw.has_zeros_around)
      edges = {static_cast<int32_t>(min(a_.n - tile.n, int64_t{a_.tile.images})), min(x0, 0),
               min(a_.w - x0, width)};
    if (edges == barriers().placed_for) return;
    sync();  // none reads the last places any more
    if (thread_ == 0) barriers().placed_for = edges;
    for (int plane = 0; plane < a_.tile.planes; ++plane) {
      for (int i = thread_; i < plane_places(); i += threads_) {
        const auto [line, column] = a_.pitch.divide(i);
        const auto [row, image] = a_.tile_images.divide(line);
        const int right = column * a_.stride_w + a_.tile.origin[tap_column + plane] - first;
        const uint32_t elements = elements_at(right, edges);
        block_.places()[plane * plane_places() + i] = {
            offset(image, row, right), elements,
            image < edges.images && elements != 0 ? row * a_.stride_h : kNowhere};
      }
    }
    sync();
  }

  /// See Place: of a row of positions, so many columns to the right of the first.
  __device__ __forceinline__ int offset(int image, int row, int right) const {
    if (!raw())
      return image * static_cast<int>(a_.stride_n) + row * a_.stride_h * a_.row_stride +
             right * a_.column_stride;
    return RawUnits<T>::offset(a_, image, row, right);
  }

  /// A bit for each element of a unit that is in the input, where its first column is so far to the right.
  /// Where units have several columns, channels that do not exist do not count, but as lines of zeros.
  __device__ __forceinline__ uint32_t elements_at(int right, const Edges& edges) const {
    const int columns = a_.tile.unit_columns, channels = a_.tile.unit_channels;
    const bool has_zeros = raw() && !a_.tile.raw.boxed && a_.tile.raw.channels >= channels;
    const uint32_t of_column =
        (1u << (has_zeros ? channels : min(static_cast<int>(a_.channels), channels))) - 1;
    uint32_t elements = 0;
    for (int i = 0; i < columns; ++i, right += a_.dilation_w)
      elements |= right >= -edges.left && right < edges.right ? of_column << i * channels : 0;
    return elements;
  }

  /// What slabs of the tile's rows under these taps have in common.
  __device__ __forceinline__ void enter(const TilePosition& tile, const Tap& tap) {
    const LinePixels<Element> pixels(a_, tile, tap.row);
    const int x0 = pixels.x(0) + a_.tile.origin[tap.column];
    row_ = pixels.y(0);
    places_ = block_.places() + tile.begin;
    from_ = origin<T>(a_, tile, 0);
    if (raw()) {
      raw_units_.enter(a_, block_, tile, tap);
    } else {
      from_ += int64_t{row_} * a_.row_stride + int64_t{x0} * a_.column_stride;
    }
  }

  __device__ __forceinline__ Source source_of(int chunk) const {
    const int first_channel = chunk * a_.tile.units * a_.tile.unit_channels;
    return {from_ + first_channel * a_.stride_c, static_cast<int>(a_.channels) - first_channel,
            static_cast<uint32_t>(lines_.stage * block_.layout.raw_stage)};
  }

  __device__ __forceinline__ void stage(int chunk) {
    if (raw()) barriers().raw.wait_full(lines_);
    stage_units(source_of(chunk));
    if (raw()) {
      barriers().raw.arrive_empty(lines_.stage);
      lines_.advance(a_.tile.raw.stages);
    }
    cursor_.advance(a_.tile.slab_stages);
  }

  /// Unit by unit.
  __device__ __forceinline__ void stage_units(const Source& source) {
    if constexpr (T::kOperands != Operands::kSplit) {
      if (a_.copied_bytes > 0) {
        if constexpr (kRoundsCopies<T>) return stage_rounded(source);
        barriers().slabs.wait_empty(cursor_);
        copy(source);
        return barriers().slabs.arrive_full_after_copies(cursor_.stage);
      }
    }
    if constexpr (T::kOperands == Operands::kSplit) {
      stage_split(source);
    } else {
      barriers().slabs.wait_empty(cursor_);
      gather(source);
    }
    release(cursor_.stage);
  }

  __device__ __forceinline__ int place_of_position(int position) const {
    if (a_.tile.run == 0) return position;
    return position + a_.plane_positions.quotient(position) * table_begins(a_.tile);
  }

  /// Copies, of which the tensor cores would cut off what TF32 has no bits for. So they are rounded where they lie, while
  /// those of the next slab are under way: unless this has no room before the last one is released.
  __device__ __forceinline__ void stage_rounded(const Source& source) {
    if (copied_stage_ >= 0 && !__all_sync(~0u, barriers().slabs.is_empty(cursor_)))
      release_rounded<0>();
    barriers().slabs.wait_empty(cursor_);
    copy(source);
    __pipeline_commit();
    if (copied_stage_ >= 0) release_rounded<1>();
    copied_stage_ = cursor_.stage;
  }

  /// The slab whose copies are the last but for those of so many others.
  template <int kOthers>
  __device__ __forceinline__ void release_rounded() {
    __pipeline_wait_prior(kOthers);
    const CopiedUnits own = copied_units();
    char* const slab = block_.slab(copied_stage_) + own.offset;
    const auto unit = [&](int position) {
      return reinterpret_cast<uint4*>(slab + position * kUnitBytes);
    };
    constexpr int kTogether = 4;
    for (int first = own.position; first < a_.tile.positions; first += kTogether * own.apart) {
      uint4 x[kTogether];
#pragma unroll
      for (int i = 0; i < kTogether; ++i)
        if (first + i * own.apart < a_.tile.positions) x[i] = *unit(first + i * own.apart);
#pragma unroll
      for (int i = 0; i < kTogether; ++i)
        if (first + i * own.apart < a_.tile.positions)
          *unit(first + i * own.apart) = rounded_unit(x[i]);
    }
    release(copied_stage_);
    copied_stage_ = -1;
  }

  /// A thread has the same unit all the time, as the number of units divides that of the threads; of each so many
  /// positions one. Lanes of one position are neighbours in memory.
  struct CopiedUnits {
    int unit, position, apart;
    int offset;  // of the unit's first position in a slab, in bytes
  };
  __device__ __forceinline__ CopiedUnits copied_units() const {
    const int shift = __ffs(a_.tile.units) - 1, unit = thread_ & (a_.tile.units - 1);
    return {unit, thread_ >> shift, threads_ >> shift, unit * a_.tile.positions_pitch * kUnitBytes};
  }

  __device__ __forceinline__ void copy(const Source& source) {
    switch (a_.copied_bytes) {
      case 16: return copy<16>(source);
      case 8: return copy<8>(source);
      default: return copy<4>(source);
    }
  }

  /// Units of neighbouring channels, so many bytes at a time.
  template <int kBytes>
  __device__ __forceinline__ void copy(const Source& source) {
    constexpr int kTogether = 8, kElements = kBytes / static_cast<int>(sizeof(Moved));
    const auto [unit, own_first, apart, offset] = copied_units();
    const int channels = source.channels - unit * kUnitElements;  // from the unit's first on
    const Moved* from = source.from + unit * kUnitElements;
    const uint32_t to =
        ptx::shared_address(block_.slab(cursor_.stage)) + static_cast<uint32_t>(offset);
    for (int first = own_first; first < a_.tile.positions; first += kTogether * apart) {
      Place place[kTogether];
#pragma unroll
      for (int i = 0; i < kTogether; ++i)
        place[i] = places_[place_of_position(min(first + i * apart, a_.tile.positions - 1))];
#pragma unroll
      for (int i = 0; i < kTogether; ++i) {
        const int position = first + i * apart;
        if (position >= a_.tile.positions) break;
        const bool inside = is_inside(place[i]);
        const Moved* own = from + place[i].offset;
        const uint32_t to_unit = to + static_cast<uint32_t>(position * kUnitBytes);
#pragma unroll
        for (int e = 0; e < kUnitElements; e += kElements)
          ptx::copy_async_if<kBytes>(inside && e < channels, to_unit + e * sizeof(Moved), own + e);
      }
    }
  }

  /// Element by element, for any strides.
  __device__ __forceinline__ void gather(const Source& source) {
    char* slab = block_.slab(cursor_.stage);
    const auto load = [&](const Place& place, int unit, Moved(&x)[kUnitElements]) {
      load_from_anywhere(source, place, unit, x);
    };
    for_units(load, [&](int offset, const Moved(&unit)[kUnitElements]) {
      *reinterpret_cast<uint4*>(slab + offset) = pack_unit(unit);
    });
  }

  /// For each of the thread's units: load(its place, its number, its elements), then use(where in a slab, in
  /// bytes; the elements). A slab's units are in the order unit, position; all threads go around as often.
  template <class Load, class Use>
  __device__ __forceinline__ void for_units(const Load& load, const Use& use) const {
    constexpr int kTogether = T::kStagingRegisters < 72 ? 1 : 2;
    const int positions = a_.tile.positions, units = a_.tile.units;
    const auto step = a_.positions.divide(threads_);
    auto [unit, position] = a_.positions.divide(thread_);
    for (int done = 0; done < units * positions; done += kTogether * threads_) {
      Moved x[kTogether][kUnitElements];
      int offset[kTogether];
#pragma unroll
      for (int i = 0; i < kTogether; ++i) {
        const bool exists = unit < units;
        offset[i] = exists ? place_of(position, unit) * kUnitBytes : -1;
        load(places_[place_of_position(position)], exists ? unit : 0, x[i]);
        unit += step.quotient;
        position += step.remainder;
        if (position >= positions) {
          position -= positions;
          ++unit;
        }
      }
#pragma unroll
      for (int i = 0; i < kTogether; ++i)
        if (offset[i] >= 0) use(offset[i], x[i]);
    }
  }

  __device__ __forceinline__ void load_from_anywhere(const Source& source, const Place& place,
                                                     int unit, Moved (&x)[kUnitElements]) const {
    if (!raw()) return load_unit(source, place, unit, x);
    const uint32_t from = source.raw_stage + place.offset;
    if (a_.tile.raw.has_zeros_around) return raw_units_.load(from, unit, x);
    const uint32_t elements =
        is_inside(place) ? raw_units_.existing(place, unit, source.channels) : 0;
    if (__all_sync(~0u, elements == raw_units_.kAll)) return raw_units_.load(from, unit, x);
    raw_units_.load_existing(from, unit, elements, x);
  }

  __device__ __forceinline__ int place_of(int position, int unit) const {
    if constexpr (!kHasBoxes<T>) return unit * a_.tile.positions_pitch + position;
    return a_.tile.place(position, unit);
  }

  /// The elements of one unit, zero outside the input.
  __device__ __forceinline__ void load_unit(const Source& source, const Place& place, int unit,
                                            Moved (&x)[kUnitElements]) const {
    const bool inside = is_inside(place);
    const int channels = source.channels, first_channel = a_.tile.channel(unit, 0);
    if (a_.tile.unit_columns > 1) {
      load_columns(source.from, place.offset, inside ? place.elements : 0, x);
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
      const int64_t step = a_.stride_c << a_.tile.channel_bits;
#pragma unroll
      for (int e = 0; e < kUnitElements; ++e, from += step)
        x[e] = ptx::load_if(inside && first_channel + (e << a_.tile.channel_bits) < channels,
                            from + place.offset);
    }
  }

  __device__ __forceinline__ void load_vectors(const Moved* source, bool inside,
                                               Moved (&x)[kUnitElements]) const {
    constexpr int kEach = kUnitBytes / static_cast<int>(sizeof(Moved));
#pragma unroll
    for (int i = 0; i < kUnitElements / kEach; ++i) {
      const uint4 vector = ptx::load_if(inside, reinterpret_cast<const uint4*>(source) + i);
      memcpy(&x[i * kEach], &vector, sizeof vector);
    }
  }

  /// Few channels of several tap columns: element e is of channel e mod unit_channels.
  __device__ __forceinline__ void load_columns(const Moved* from, int offset, uint32_t elements,
                                               Moved (&x)[kUnitElements]) const {
    const int mask = a_.tile.unit_channels - 1, shift = __popc(mask);
#pragma unroll
    for (int e = 0; e < kUnitElements; ++e) {
      const int step = (e >> shift) * a_.dilation_w;
      x[e] = ptx::load_if((elements >> e & 1) != 0,
                          from + (offset + step * a_.column_stride) + (e & mask) * a_.stride_c);
    }
  }

  /// Reads the slab for its largest magnitude and again to split it.
  __device__ __forceinline__ void stage_split(const Source& source) {
    const Scale scale = slabs_.scale_of(!raw()              ? magnitudes_of(source)
                                        : a_.tile.raw.boxed ? magnitudes_of_box()
                                                            : magnitudes_of_lines());
    barriers().slabs.wait_empty(cursor_);
    slabs_.tell(scale, cursor_.stage);
    char* const slab = block_.slab(cursor_.stage);
    const auto load = [&](const Place& place, int unit, float(&x)[kUnitElements]) {
      load_from_anywhere(source, place, unit, x);
    };
    for_units(load, [&](int offset, const float(&unit)[kUnitElements]) {
      slabs_.store(slab + offset, a_.shared.part, unit, scale);
    });
  }

  __device__ __forceinline__ Magnitudes magnitudes_of(const Source& source) {
    Magnitudes magnitudes;
    const auto load = [&](const Place& place, int unit, float(&x)[kUnitElements]) {
      load_unit(source, place, unit, x);
    };
    for_units(load, [&](int, const float(&unit)[kUnitElements]) {
#pragma unroll
      for (int e = 0; e < kUnitElements; e += 2) magnitudes.add(unit[e], unit[e + 1]);
    });
    return magnitudes;
  }

  /// Faster, as lines have each element once, and in words; some are of no position, perhaps. As many
  /// lanes share a line as it has words, or a warp; or, if lines are few, all threads.
  __device__ __forceinline__ Magnitudes magnitudes_of_lines() {
    const LineExtent* extents = block_.extents(lines_.stage, a_.raw_lines);
    const bool are_few = a_.raw_lines < threads_ / 32;
    const int shift = 32 - __clz(min(a_.tile.raw.pitch / kWord, 32) - 1);
    const int threads = are_few ? threads_ : 1 << shift;
    const int first_line = are_few ? 0 : thread_ >> shift;
    const int lines = are_few ? 1 : threads_ >> shift;  // at a time
    const int own = (are_few ? thread_ : thread_ & (threads - 1)) * kWord;
    Magnitudes magnitudes;
    for (int line = first_line; line < a_.raw_lines; line += lines) {
      const LineExtent extent = extents[line];
      for (int begin = (extent.begin & -kWord) + own; begin < extent.end;
           begin += threads * kWord) {
        float4 x = raw_word(begin / kWord);
        if (begin < extent.begin || begin + kWord > extent.end) {
          const auto is_out = [&](int i) { return i < extent.begin || i >= extent.end; };
          if (is_out(begin)) x.x = 0;
          if (is_out(begin + 1)) x.y = 0;
          if (is_out(begin + 2)) x.z = 0;
          if (is_out(begin + 3)) x.w = 0;
        }
        magnitudes.add(x);
      }
    }
    return magnitudes;
  }

  /// What is outside the input is zero.
  __device__ __forceinline__ Magnitudes magnitudes_of_box() {
    const int words = a_.raw_lines * a_.tile.raw.pitch / kWord;
    Magnitudes magnitudes;
#pragma unroll 2
    for (int word = thread_; word < words; word += threads_) magnitudes.add(raw_word(word));
    return magnitudes;
  }

  /// Of raw lines, in elements.
  static constexpr int kWord = kUnitBytes / sizeof(float);
  __device__ __forceinline__ float4 raw_word(int word) const {
    return reinterpret_cast<const float4*>(block_.raw(lines_.stage))[word];
  }

  /// What this thread stored becomes visible to those who multiply.
  __device__ __forceinline__ void release(int stage) {
    if constexpr (T::kInstructions == Instructions::kWgmma) {
      barriers().slabs.arrive_full_by_warp(stage);
    } else {
      barriers().slabs.arrive_full(stage);
    }
  }

  __device__ __forceinline__ void sync() { ptx::named_barrier(kStagingBarrier, threads_); }

  const Arguments<Element>& a_;
  Block<T> block_;
  Cursor cursor_, lines_;  // of slabs and of raw lines
  int copied_stage_ = -1;  // whose copies are yet to be rounded
  int thread_, threads_;
  // Of the tile's rows under a tap group (see enter): the first's number, which may be outside, ...
  int row_ = 0;
  const Place* places_ = nullptr;
  const Moved* from_ = nullptr;  // and the input from its first channel on
  RawUnits<T> raw_units_;
  SplitSlabs<T> slabs_;
};

}  // namespace im2win::cuda::fused
