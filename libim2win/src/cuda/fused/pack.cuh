// The filter as im2win_fused reads it (see PackedFilter).
#pragma once

#include <cstdint>

#include "cuda/fused/arguments.cuh"
#include "cuda/fused/operands.cuh"
#include "cuda/launch.cuh"
#include "cuda/ptx.cuh"

namespace im2win::cuda::fused {

/// Filters of a block, a warp each.
constexpr int kPackFilters = 8;
constexpr int kPackThreads = 32 * kPackFilters;

/// And slabs, at most.
constexpr int kMaxPackSlabs = 8;

template <class Moved>
struct PackShared {
  // Lanes look up different units, for which the parameters' constant memory is slow.
  FilterUnit order[kMaxSteps][2];
  Scale scales[kMaxPackSlabs][kPackFilters];
  alignas(kUnitBytes) Moved elements[1];  // [filter][pitch]
};

/// A slab's steps have two units of eight elements at most for each filter.
constexpr int64_t kMaxPackSharedBytes =
    sizeof(PackShared<float>) + int64_t{kPackFilters} * (kMaxSteps * 2 * 8 + 4) * 4;

struct PackArguments {
  Tile tile;
  FilterOrder order;
  PackedFilter packed;
  // A block packs the filters of so many slabs, neighbours of a tap group, which are counted together.
  int32_t block_slabs;
  Divisor filter_blocks, slabs, chunks, tile_blocks;
  Divisor column_groups;
  Divisor slab_columns, rows[2];  // of a slab's filters; rows by the kind of its tap group
  Divisor slab_units[2];          // likewise
  Divisor block_channels;         // at most
  int64_t blocks;
  int64_t filters_per_group, channels;
  int32_t own_channels, own_filters;  // of a filter's group: see has_merged_groups
  int32_t tile_filters, filter_tiles;
  // Of a filter's elements of a slab in shared memory, an odd number of words: filters differ in banks.
  int32_t pitch;
  bool lines;  // whether these are whole words of neighbours in memory, in the same order
  // The filter is also kept as it is: so many bytes as they lie in memory, or element by element.
  int64_t kept_bytes;
  bool keeps_elements;
  bool channels_fastest;  // of the filter's dimensions
  bool words;             // whether units are 16-byte words of the filter
  int64_t stride[4];

  PackArguments(const Problem& problem, const TileChoice& choice, const KernelShape& shape,
                Operands operands);
};

/// The steps of a filter tile before those of a slab.
__device__ __forceinline__ int64_t steps_before(const Tile& tile, int tap_group, int chunk) {
  const int full = min(tap_group, tile.full_groups);
  const int64_t groups =
      int64_t{full} * tile.steps[0].count + int64_t{tap_group - full} * tile.steps[1].count;
  return groups * tile.chunks + int64_t{chunk} * tile.steps[kind_of(tile, tap_group)].count;
}

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
    filters_ =
        min(static_cast<int>(a.filters_per_group) - filter_block * kPackFilters, kPackFilters);
    tile_ = int64_t{group} * a.filter_tiles + tile;
    first_in_tile_ = block_of_tile * kPackFilters;
  }

  __device__ __forceinline__ int kind() const { return kind_; }

  /// Asks for the words of load_lines() to come to the L2 cache. A kernel that writes them may still run.
  __device__ __forceinline__ void prefetch_lines(const Moved* filter) const {
    const int own = static_cast<int>(threadIdx.x / 32);
    if (threadIdx.x % 32 == 0 && own < filters_)
      ptx::prefetch(filter + (first_k_ + own) * a_.stride[0] + first_channel_ * a_.stride[1],
                    line_words() * int64_t{kUnitBytes});
  }

  /// A warp brings its filter's elements of the slabs, in the order of memory, to [channel][tap row]
  /// [column]; zeros for filters that there are not and for
  /// channels that a filter has not. With `exact` it also writes them there, as they are.
  __device__ __forceinline__ void load(const Moved* filter, Moved* exact) {
    const int own = static_cast<int>(threadIdx.x / 32);
    const bool channels_fastest = a_.channels_fastest;
    const Divisor inner = channels_fastest ? a_.block_channels : a_.slab_columns;
    const Divisor middle = channels_fastest ? a_.slab_columns : a_.rows[kind_];
    const int count = static_cast<int>(inner.divisor * middle.divisor) *
                      (channels_fastest ? static_cast<int>(a_.rows[kind_].divisor) : channels_);
    const int64_t k = first_k_ + own;
    const int first_own = (in_group_ + own) / a_.own_filters * a_.own_channels;
    filter += k * a_.stride[0];
    exact += k * a_.packed.exact_stride[0];
    const int64_t(&kept)[4] = a_.packed.exact_stride;
#pragma unroll 8
    for (int i = threadIdx.x % 32; i < count; i += 32) {
      // No branch: loads would wait for one another.
      const auto [line, fastest] = inner.divide(i);
      const auto [slowest, between] = middle.divide(line);
      const int channel = channels_fastest ? fastest : slowest;
      const int row = channels_fastest ? slowest : between;
      const int column = channels_fastest ? between : fastest;
      const int64_t c = first_channel_ + channel - first_own;  // of the filter's
      const int64_t r = first_row_ + row * a_.tile.row_step;
      const int s = first_column_ + column;
      const bool exists = own < filters_ && channel < channels_ && c >= 0 && c < a_.own_channels;
      const Moved x =
          ptx::load_if(exists, filter + c * a_.stride[1] + r * a_.stride[2] + s * a_.stride[3]);
      if (channel < channels_) shared_.elements[own * a_.pitch + place(channel, row, column)] = x;
      if (a_.keeps_elements && exists) exact[c * kept[1] + r * kept[2] + s * kept[3]] = x;
    }
  }

  /// Likewise, word by word.
  __device__ __forceinline__ void load_lines(const Moved* filter) {
    const int own = static_cast<int>(threadIdx.x / 32), count = line_words();
    const uint4* from = reinterpret_cast<const uint4*>(filter + (first_k_ + own) * a_.stride[0] +
                                                       first_channel_ * a_.stride[1]);
    uint4* to = reinterpret_cast<uint4*>(shared_.elements + own * a_.pitch);
#pragma unroll 4
    for (int i = threadIdx.x % 32; i < count; i += 32)
      to[i] = ptx::load_if(own < filters_, from + i);
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
    const int units = 2 * a_.tile.steps[kind_].count, count = a_.block_slabs * units;
    const int slab_channels = a_.tile.units * a_.tile.unit_channels;
    const int unit_bytes = a_.tile_filters * kUnitBytes;
    packed += tile_ * a_.packed.tile_bytes +
              steps_before(a_.tile, tap_group_, chunk_) * kStepUnits * unit_bytes +
              (first_in_tile_ + filter) * kUnitBytes;
    for (int i = static_cast<int>(threadIdx.x / kPackFilters); i < count; i += 32) {
      Moved x[kUnitElements];
      const auto [slab, in_slab] = a_.slab_units[kind_].divide(i);
      const FilterUnit unit = shared_.order[in_slab / 2][in_slab % 2];
      const int first_channel = slab * slab_channels;  // of the block's
      if (kOperands != Operands::kSplit && a_.words) {
        load_word(unit, first_channel, elements, filter, x);
      } else if (a_.tile.unit_columns == 0) {
        follow(unit, filter, x);
      } else if (a_.tile.unit_channels == kUnitElements) {
        gather_channels(unit, first_channel, filter, x);
      } else {
        gather(unit, first_channel, filter, x);
      }
      uint4* to = reinterpret_cast<uint4*>(packed + (i / 2 * kStepUnits + i % 2) * unit_bytes);
      if constexpr (kOperands == Operands::kSplit) {
        split_unit(x, shared_.scales[slab][filter].factor, to[0], to[2 * a_.tile_filters]);
      } else {
        *to = pack_unit(x);
      }
    }
  }

  /// The scales of this warp's filter, which it has loaded.
  __device__ __forceinline__ void store_scales(char* packed) {
    __syncwarp();
    const int own = static_cast<int>(threadIdx.x / 32);
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
      scales[slab * a_.tile_filters] = marked(scale);
    }
  }

 private:
  template <class Word>
  __device__ __forceinline__ static void keep_part(const char* from, int64_t begin, int64_t end,
                                                   char* to) {
    for (int64_t i = begin + threadIdx.x * sizeof(Word); i < end; i += kPackThreads * sizeof(Word))
      *reinterpret_cast<Word*>(to + i) = *reinterpret_cast<const Word*>(from + i);
  }

  /// Of a filter's elements of the slab, where these are neighbours.
  __device__ __forceinline__ int line_words() const {
    constexpr int kWord = kUnitBytes / sizeof(Moved);
    return channels_ * static_cast<int>(a_.rows[kind_].divisor * a_.slab_columns.divisor) / kWord;
  }

  static constexpr int kUnitElements = traits(kOperands).unit_elements;
  static constexpr int kStepUnits = 2 * traits(kOperands).parts;  // of one filter

  __device__ __forceinline__ int place(int channel, int row, int column) const {
    const int rows = static_cast<int>(a_.rows[kind_].divisor);
    return (channel * rows + row) * static_cast<int>(a_.slab_columns.divisor) + column;
  }

  /// A unit of elements that follow one another.
  __device__ __forceinline__ void follow(const FilterUnit& unit, int filter,
                                         Moved (&x)[kUnitElements]) const {
    const int first = unit.unit * kUnitElements;
    const int count = unit.row >= 0 ? place(channels_, 0, 0) - first : 0;
    const Moved* from = shared_.elements + filter * a_.pitch + first;
#pragma unroll
    for (int e = 0; e < kUnitElements; ++e) x[e] = e < count ? from[e] : Moved{};
  }

  /// A unit of channels alone.
  __device__ __forceinline__ void gather_channels(const FilterUnit& unit, int first_channel,
                                                  int filter, Moved (&x)[kUnitElements]) const {
    const int bits = a_.tile.channel_bits;
    const int channel = first_channel + a_.tile.channel(unit.unit, 0);
    const int channels = unit.row >= 0 ? channels_ - channel : 0;
    const Moved* from =
        shared_.elements + filter * a_.pitch + place(channel, max(int{unit.row}, 0), unit.column);
    const int step = place(1, 0, 0) << bits;
#pragma unroll
    for (int e = 0; e < kUnitElements; ++e) x[e] = e << bits < channels ? from[e * step] : Moved{};
  }

  __device__ __forceinline__ void gather(const FilterUnit& unit, int first_channel, int filter,
                                         Moved (&x)[kUnitElements]) const {
    const int channel_mask = a_.tile.unit_channels - 1, channel_bits = __popc(channel_mask);
    const int column_mask = a_.tile.unit_columns - 1, column_bits = __popc(column_mask);
    const int columns = static_cast<int>(a_.slab_columns.divisor);
    const int rows = static_cast<int>(a_.rows[kind_].divisor);
#pragma unroll
    for (int e = 0; e < kUnitElements; ++e) {
      const int c = first_channel + a_.tile.channel(unit.unit, e & channel_mask);
      const int s = unit.column + (e >> channel_bits & column_mask);
      const int r = unit.row + (e >> (channel_bits + column_bits));
      const bool exists = unit.row >= 0 && c < channels_ && r < rows && s < columns;
      x[e] = exists ? shared_.elements[filter * a_.pitch + place(c, r, s)] : Moved{};
    }
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
  int filters_;  // of the block
  int64_t tile_;
  int first_in_tile_;
};

template <class Element, Operands kOperands>
__global__ void __launch_bounds__(kPackThreads)
    fused_pack_kernel(const __grid_constant__ PackArguments a, const Element* __restrict__ filter,
                      char* __restrict__ packed) {
  using Moved = fused::Moved<kOperands>;
  PackShared<Moved>& shared = *reinterpret_cast<PackShared<Moved>*>(dynamic_shared_memory);
  FilterPacker<kOperands> packer(a, shared);
  for (int i = threadIdx.x; i < 2 * a.tile.steps[packer.kind()].count; i += kPackThreads)
    shared.order[i / 2][i % 2] = a.order.unit[packer.kind()][i / 2][i % 2];
  const Moved* elements = reinterpret_cast<const Moved*>(filter);
  if (a.lines) packer.prefetch_lines(elements);
  // When this goes on, all before it has ended: the next kernel may read inputs, but not the packed filter.
  ptx::wait_for_kernel_before();
  ptx::let_next_start();
  if (a.lines) {
    packer.load_lines(elements);
  } else if (!a.words || a.keeps_elements) {
    packer.load(elements, reinterpret_cast<Moved*>(packed + a.packed.exact));
  }
  packer.keep(reinterpret_cast<const char*>(filter), packed + a.packed.exact);
  if constexpr (kOperands == Operands::kSplit) packer.store_scales(packed);
  __syncthreads();
  packer.store(elements, packed);
}

}  // namespace im2win::cuda::fused
