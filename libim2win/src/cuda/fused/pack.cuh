// The filter as im2win_fused reads it (see PackedFilter).
#pragma once

#include <cstdint>

#include "cuda/fused/arguments.cuh"
#include "cuda/fused/operands.cuh"
#include "cuda/fused/pack_arguments.cuh"
#include "cuda/launch.cuh"
#include "cuda/ptx.cuh"

namespace im2win::cuda::fused {

/// What a block packs: through shared memory, as reads follow a filter and writes go from filter to
/// filter. A block of one slab of single pixels would take longer to start than to pack.
template <Operands kOperands>
class FilterPacker {
 public:
  using Moved = fused::Moved<kOperands>;

  __device__ __forceinline__ FilterPacker(const PackArguments& a, PackShared<Moved>& shared)
      : a_(a), shared_(shared) {
    const auto [rest, slab] = a.slabs.divide(static_cast<int32_t>(blockIdx.x));
    const auto [group, filter_block] = a.filter_blocks.divide(rest);
    const auto [tap_group, chunk] = a.chunks.divide(slab);
    const auto [tile, block_of_tile] = a.tile_blocks.divide(filter_block);
    first_slab_ = slab * a.block_slabs;
    chunk_ = chunk * a.block_slabs;
    tap_group_ = tap_group;
    const auto [row, column] = a.column_groups.divide(tap_group);
    first_row_ = row;
    first_column_ = column;
    kind_ = kind_of(a.tile, tap_group);
    const int block_channels = a.block_slabs * a.tile.units * a.tile.unit_channels;
    first_channel_ = chunk * block_channels;
    channels_ = min(static_cast<int>(a.channels) - first_channel_, block_channels);
    in_group_ = filter_block * kPackFilters;
    first_k_ = group * a.filters_per_group + in_group_;
    tile_ = int64_t{group} * a.filter_tiles + tile;
    first_in_tile_ = block_of_tile * kPackFilters;
    filters_ = min(static_cast<int>(a.filters_per_group) - in_group_, kPackFilters);
  }

  /// What takes long to look up and to compute, before the kernel before has ended.
  __device__ __forceinline__ void place_units() {
    const FilterUnit* const order = &a_.order.unit[kind_][0][0];
    const int count = 2 * a_.tile.steps[kind_].count;
    if (takes_words()) {
      for (int i = threadIdx.x; i < count; i += kPackThreads)
        shared_.order[i / 2][i % 2] = order[i];
      return;
    }
    for (int e = 0; e < kUnitElements; ++e) {
      const UnitElement at = element(e);
      offset_[e] = place(at.channel << a_.tile.channel_bits, at.row, at.column);
    }
    // Each lane's is another one, of up to some dozens: constant memory would give them one after another.
    const FilterUnit* const units = ptx::fresh(order);
    for (int i = threadIdx.x; i < count; i += kPackThreads) {
      const FilterUnit unit = units[i];
      shared_.places[i / 2][i % 2] = a_.tile.unit_columns == 0 ? run(unit) : place_of(unit);
    }
  }

  /// All that is left. Or, if not `acts`, a rehearsal, which asks for the filter to come to the L2 cache: instructions
  /// that are gone through for the first time, and memory while much is written, take longer than all else that is to
  /// do for a small filter.
  __device__ __forceinline__ void pack(const Moved* filter, char* packed, bool acts) {
    acts_ = acts;
    if (a_.lines) {
      load_lines(filter);
    } else if (!takes_words()) {
      load(filter);
    }
    if (acts) {
      if (a_.keeps_elements)
        keep_elements(filter, reinterpret_cast<Moved*>(packed + a_.packed.exact));
      if (a_.kept_bytes > 0) keep(reinterpret_cast<const char*>(filter), packed + a_.packed.exact);
    }
    if constexpr (kOperands == Operands::kSplit) store_scales(packed);
    __syncthreads();
    store(filter, packed);
  }

  /// Asks for the words of load_lines() to come to the L2 cache. A kernel that writes them may still run.
  __device__ __forceinline__ void prefetch_lines(const Moved* filter) const {
    const int own = own_filter();
    if (threadIdx.x % 32 == 0 && own < filters_)
      ptx::prefetch(filter + (first_k_ + own) * a_.stride[0] + first_channel_ * a_.stride[1],
                    line_words() * int64_t{kUnitBytes});
  }

  /// A warp brings its filter's elements of the slabs, in the order of memory, to [channel][tap row]
  /// [column]; zeros for filters that there are not and for channels that a filter has not.
  __device__ __forceinline__ void load(const Moved* filter) {
    Moved* const own = shared_.elements + own_filter() * a_.pitch;
    const int count = elements();
    // So many loads at a time, without a branch: they would wait for one another, and memory is far away.
    constexpr int kTogether = 8;
#pragma unroll 1
    for (int first = threadIdx.x % 32; first < count; first += 32 * kTogether) {
      Moved x[kTogether];
      int to[kTogether];
#pragma unroll
      for (int j = 0; j < kTogether; ++j) {
        const FilterElement at = filter_element(first + 32 * j);
        const bool exists = at.exists && first + 32 * j < count;
        const Moved* const from = filter + at.offset(a_.stride);
        if (!acts_) ptx::prefetch_if(exists, from);
        x[j] = ptx::load_if(exists && acts_, from);
        to[j] = at.place;
      }
#pragma unroll
      for (int j = 0; j < kTogether; ++j)
        if (first + 32 * j < count) own[to[j]] = x[j];
    }
  }

  /// And writes them, as they are.
  __device__ __forceinline__ void keep_elements(const Moved* filter, Moved* exact) const {
#pragma unroll 1
    for (int i = threadIdx.x % 32; i < elements(); i += 32)
      if (const FilterElement at = filter_element(i); at.exists)
        exact[at.offset(a_.packed.exact_stride)] = filter[at.offset(a_.stride)];
  }

  /// As load() does, word by word.
  __device__ __forceinline__ void load_lines(const Moved* filter) {
    const int own = own_filter(), exist = own < filters_ ? line_words() : 0;
    const uint4* from = reinterpret_cast<const uint4*>(filter + (first_k_ + own) * a_.stride[0] +
                                                       first_channel_ * a_.stride[1]);
    uint4* to = reinterpret_cast<uint4*>(shared_.elements + own * a_.pitch);
    const int count = elements() / kWord;
    constexpr int kTogether = 4;
#pragma unroll 1
    for (int first = threadIdx.x % 32; first < count; first += 32 * kTogether) {
      uint4 x[kTogether];
#pragma unroll
      for (int j = 0; j < kTogether; ++j)
        x[j] = ptx::load_if(first + 32 * j < exist, from + first + 32 * j);
#pragma unroll
      for (int j = 0; j < kTogether; ++j)
        if (first + 32 * j < count) to[first + 32 * j] = x[j];
    }
  }

  /// This block's part of the bytes that are kept as they lie.
  __device__ __forceinline__ void keep(const char* filter, char* exact) const {
    const int64_t each = a_.kept_bytes / a_.blocks / kUnitBytes * kUnitBytes + kUnitBytes;
    const int64_t begin = blockIdx.x * each, end = min(begin + each, a_.kept_bytes);
    const bool aligned = reinterpret_cast<uintptr_t>(filter) % kUnitBytes == 0;
    const int64_t words_end = aligned ? max(begin, end / kUnitBytes * kUnitBytes) : begin;
    keep_part<uint4>(filter, begin, words_end, exact);
    keep_part<Moved>(filter, words_end, end, exact);
  }

  /// Neighbouring threads write neighbouring filters. Units come from shared memory; or, where words of
  /// the filter are units as they are, from there.
  __device__ __forceinline__ void store(const Moved* elements, char* packed) const {
    const int filter = static_cast<int>(threadIdx.x % kPackFilters);
    const int slab_channels = a_.tile.units * a_.tile.unit_channels;
    if (takes_words()) {
      store_units<false>(packed, filter, [&](int slab, int unit, Moved(&x)[kUnitElements]) {
        load_word(shared_.order[unit / 2][unit % 2], slab * slab_channels, elements, filter, x);
      });
    } else {
      const Moved* const own = shared_.elements + filter * a_.pitch;
      store_units<true>(packed, filter, [&](int slab, int unit, Moved(&x)[kUnitElements]) {
        gather(shared_.places[unit / 2][unit % 2], own + place(slab * slab_channels, 0, 0), x);
      });
    }
  }

  /// The scales of this warp's filter, which it has loaded.
  __device__ __forceinline__ void store_scales(char* packed) {
    __syncwarp();
    const int own = own_filter();
    const int slab_channels = a_.tile.units * a_.tile.unit_channels;
    float* scales = reinterpret_cast<float*>(packed + a_.packed.scales) +
                    (tile_ * a_.tile.slabs() + first_slab_) * a_.tile_filters + first_in_tile_ +
                    own;
    for (int slab = 0; slab < a_.block_slabs; ++slab) {
      const int channels = min(channels_ - slab * slab_channels, slab_channels);
      const Moved* elements = shared_.elements + own * a_.pitch + place(slab * slab_channels, 0, 0);
      Magnitudes magnitudes;
      for (int i = threadIdx.x % 32; i < place(channels, 0, 0); i += 32)
        magnitudes.add(elements[i]);
      magnitudes.merge_warp();
      if (threadIdx.x % 32 != 0) continue;
      const Scale scale = Scale::of(magnitudes);
      shared_.scales[slab][own] = scale;
      if (acts_) scales[slab * a_.tile_filters] = marked(scale);
    }
  }

 private:
  /// Calls find(slab, unit, elements) for each of a filter's.
  template <bool kMayRehearse, class Find>
  __device__ __forceinline__ void store_units(char* packed, int filter, const Find& find) const {
    const int units = 2 * a_.tile.steps[kind_].count, count = a_.block_slabs * units;
    const int unit_bytes = a_.tile_filters * kUnitBytes;
    packed += tile_ * a_.packed.tile_bytes +
              a_.tile.steps_before(tap_group_, chunk_) * kStepUnits * unit_bytes +
              (first_in_tile_ + filter) * kUnitBytes;
    for (int i = static_cast<int>(threadIdx.x / kPackFilters); i < count; i += 32) {
      Moved x[kUnitElements];
      const auto [slab, unit] = a_.slab_units[kind_].divide(i);
      find(slab, unit, x);
      uint4* to = reinterpret_cast<uint4*>(packed + (i / 2 * kStepUnits + i % 2) * unit_bytes);
      if constexpr (kOperands == Operands::kSplit) {
        uint4 high, low;
        split_unit(x, shared_.scales[slab][filter].factor, high, low);
        if (kMayRehearse && !acts_) continue;
        to[0] = high;
        to[2 * a_.tile_filters] = low;
      } else {
        const uint4 word = pack_unit(x);
        if (kMayRehearse && !acts_) continue;
        *to = word;
      }
    }
  }

  template <class Word>
  __device__ __forceinline__ static void keep_part(const char* from, int64_t begin, int64_t end,
                                                   char* to) {
    for (int64_t i = begin + threadIdx.x * sizeof(Word); i < end; i += kPackThreads * sizeof(Word))
      *reinterpret_cast<Word*>(to + i) = *reinterpret_cast<const Word*>(from + i);
  }

  __device__ __forceinline__ bool takes_words() const {
    return kOperands != Operands::kSplit && a_.words;
  }

  /// Of the block's, that a warp brings.
  __device__ __forceinline__ static int own_filter() { return static_cast<int>(threadIdx.x / 32); }
  /// Of a filter and the block's slabs, those that units have beyond its channels among them.
  __device__ __forceinline__ int elements() const {
    return place(static_cast<int>(a_.block_channels.divisor), 0, 0);
  }

  /// Of the warp's filter.
  struct FilterElement {
    int place;  // in shared memory
    bool exists;
    int64_t at[4];  // in the filter

    __device__ __forceinline__ int64_t offset(const int64_t (&stride)[4]) const {
      return at[0] * stride[0] + at[1] * stride[1] + at[2] * stride[2] + at[3] * stride[3];
    }
  };
  /// In the order of memory.
  __device__ __forceinline__ FilterElement filter_element(int i) const {
    const bool channels_fastest = a_.channels_fastest;
    const Divisor inner = channels_fastest ? a_.block_channels : a_.slab_columns;
    const Divisor middle = channels_fastest ? a_.slab_columns : a_.rows[kind_];
    const auto [line, fastest] = inner.divide(i);
    const auto [slowest, between] = middle.divide(line);
    const int channel = channels_fastest ? fastest : slowest;
    const int row = channels_fastest ? slowest : between;
    const int column = channels_fastest ? between : fastest;
    const int own = own_filter();
    const int64_t c =
        first_channel_ + channel - (in_group_ + own) / a_.own_filters * a_.own_channels;
    return {place(channel, row, column),
            own < filters_ && channel < channels_ && c >= 0 && c < a_.own_channels,
            {first_k_ + own, c, first_row_ + row * a_.tile.row_step, first_column_ + column}};
  }

  /// Of a filter's elements of the slab, where these are neighbours.
  __device__ __forceinline__ int line_words() const {
    return channels_ * static_cast<int>(a_.rows[kind_].divisor * a_.slab_columns.divisor) / kWord;
  }

  static constexpr int kUnitElements = traits(kOperands).unit_elements;
  static constexpr int kWord = kUnitBytes / static_cast<int>(sizeof(Moved));
  static constexpr int kStepUnits = 2 * traits(kOperands).parts;  // of one filter

  __device__ __forceinline__ int place(int channel, int row, int column) const {
    const int rows = static_cast<int>(a_.rows[kind_].divisor);
    return (channel * rows + row) * static_cast<int>(a_.slab_columns.divisor) + column;
  }

  /// Of a unit: channels, then columns, then rows, unless elements follow one another in the order of memory.
  struct UnitElement {
    int channel, column, row;
  };
  __device__ __forceinline__ UnitElement element(int e) const {
    if (a_.tile.unit_columns == 0) return {0, e, 0};
    const int channel_mask = a_.tile.unit_channels - 1, channel_bits = __popc(channel_mask);
    const int column_mask = a_.tile.unit_columns - 1, column_bits = __popc(column_mask);
    return {e & channel_mask, e >> channel_bits & column_mask, e >> (channel_bits + column_bits)};
  }

  /// Of elements that follow one another.
  __device__ __forceinline__ UnitPlace run(const FilterUnit& unit) const {
    const int first = unit.unit * kUnitElements;
    const int left = unit.row >= 0 ? place(channels_, 0, 0) - first : 0;
    return {first, left < kUnitElements ? (1u << max(left, 0)) - 1 : ~0u};
  }

  __device__ __forceinline__ UnitPlace place_of(const FilterUnit& unit) const {
    if (unit.row < 0) return {0, 0};
    const int rows = static_cast<int>(a_.rows[kind_].divisor);
    const int columns = static_cast<int>(a_.slab_columns.divisor);
    uint32_t exists = 0;
    for (int e = 0; e < kUnitElements; ++e) {
      const UnitElement at = element(e);
      exists |= uint32_t{unit.row + at.row < rows && unit.column + at.column < columns} << e;
    }
    return {place(a_.tile.channel(unit.unit, 0), unit.row, unit.column), exists};
  }

  /// A unit of a filter's elements from the slab's first on.
  __device__ __forceinline__ void gather(const UnitPlace& unit, const Moved* slab,
                                         Moved (&x)[kUnitElements]) const {
#pragma unroll
    for (int e = 0; e < kUnitElements; ++e)
      x[e] = unit.exists >> e & 1 ? slab[unit.first + offset_[e]] : Moved{};
  }

  __device__ __forceinline__ void load_word(const FilterUnit& unit, int first_channel,
                                            const Moved* from, int filter,
                                            Moved (&x)[kUnitElements]) const {
    const int channel = first_channel + unit.unit * kUnitElements;
    const bool exists = unit.row >= 0 && filter < filters_ && channel < channels_;
    from += (first_k_ + filter) * a_.stride[0] + first_channel_ + channel +
            int64_t{first_row_ + unit.row * a_.tile.row_step} * a_.stride[2] +
            int64_t{first_column_ + unit.column} * a_.stride[3];
    const uint4 word = ptx::load_if(exists, reinterpret_cast<const uint4*>(from));
    static_assert(sizeof x == sizeof word || kOperands == Operands::kSplit);
    memcpy(x, &word, sizeof word);
  }

  /// How the fit travels in the scale: see Multiplier::enter_slab.
  __device__ __forceinline__ static float marked(const Scale& scale) {
    switch (scale.fit) {
      case Fit::kFaint: return -scale.inverse;
      case Fit::kExtreme: return __int_as_float(0x7fffffff);
      default: return scale.inverse;
    }
  }

  const PackArguments& a_;
  PackShared<Moved>& shared_;
  int first_slab_, chunk_, tap_group_, kind_;
  int first_row_, first_column_;  // of the tap group
  int first_channel_, channels_;  // of the slabs
  int in_group_;                  // the block's first filter
  int64_t first_k_;
  bool acts_;
  int filters_;  // of the block
  int64_t tile_;
  int first_in_tile_;
  int32_t offset_[kUnitElements];  // of a unit's elements, from the first
};

/// `kRehearses`: see PackArguments.
template <class Element, Operands kOperands, bool kRehearses>
__global__ void __launch_bounds__(kPackThreads, kPackBlocks)
    fused_pack_kernel(const __grid_constant__ PackArguments a, const Element* __restrict__ filter,
                      char* __restrict__ packed) {
  using Moved = fused::Moved<kOperands>;
  PackShared<Moved>& shared = *reinterpret_cast<PackShared<Moved>*>(dynamic_shared_memory);
  FilterPacker<kOperands> packer(a, shared);
  packer.place_units();
  const Moved* elements = reinterpret_cast<const Moved*>(filter);
  if (a.lines) packer.prefetch_lines(elements);
#pragma unroll 1
  for (int round = kRehearses ? 0 : 1; round < 2; ++round) {
    __syncthreads();
    if (!kRehearses || round == 1) {
      // When this goes on, all before it has ended: the next kernel may read inputs, but not the packed filter.
      ptx::wait_for_kernel_before();
      ptx::let_next_start();
    }
    packer.pack(elements, packed, !kRehearses || round == 1);
  }
}

}  // namespace im2win::cuda::fused
