// The multiplying warpgroups of im2win_stem: from bands in shared memory to the sums of an output row.
#pragma once

#include <cstdint>

#include "cuda/fused/descriptor.cuh"
#include "cuda/fused/operands.cuh"
#include "cuda/fused/order.cuh"
#include "cuda/fused/stem/arguments.cuh"
#include "cuda/fused/stem/band_reader.cuh"
#include "cuda/fused/sums.cuh"
#include "cuda/fused/wgmma.cuh"
#include "cuda/ptx.cuh"

namespace im2win::cuda::fused::stem {

/// Of split filters of a block: what takes each one's scale out of its sums, negative if some element is faint.
template <class T>
__device__ __forceinline__ const float* filter_scales(const Arguments<typename T::Element>& a,
                                                      const TilePosition& first) {
  const int64_t set = int64_t{first.group} * a.filter_tiles.divisor + first.filter_tile;
  return reinterpret_cast<const float*>(a.filters + a.packed.scales) + set * T::kShape.filters;
}

/// Those of a thread's two filters.
template <class T>
__device__ __forceinline__ void load_scales(const Arguments<typename T::Element>& a,
                                            const TilePosition& first, float (&scales)[2]) {
  const int filter = static_cast<int>(threadIdx.x % 128 / 32 * 16 + threadIdx.x % 32 / 4);
  const float* scale = filter_scales<T>(a, first) + filter;
  scales[0] = scale[0];
  scales[1] = scale[8];
}

/// Of a filter's sums: the bound below which one is in doubt, if there is reason for doubt.
__device__ __forceinline__ float doubt_of(Fit worst, bool is_faint, float bound, float scale) {
  if (worst == Fit::kExtreme) bound = __int_as_float(0x7fffffff);
  return worst != Fit::kGood || is_faint ? bound * fabsf(scale) : 0;
}

/// Multiplies an output row's bands by the filters, which stay.
template <class T>
class RowMultiplier {
 public:
  __device__ __forceinline__ RowMultiplier(const Arguments<typename T::Element>& a, Block<T> block,
                                           const TilePosition& first)
      : a_(a),
        filters_(Descriptor(ptx::shared_address(block.filter_stage(0)), T::kShape.filters, 8)),
        bands_(Descriptor(ptx::shared_address(block.slab(0)), 0, 8)),
        reader_(a) {
    if constexpr (kSplit && !T::kShape.pixel_major) load_scales<T>(a, first, filter_scale_);
  }

  __device__ __forceinline__ BandReader<typename T::Element>& bands() { return reader_; }

  /// The sums of a chunk of a strip's row, before which all bands have been passed, of one of the block's sets
  /// of filters. `next` is the row of what the warpgroup multiplies after that, or as many as the strip has
  /// bands: it hands back those before. Of whole operands, calls issued() when all products are under way.
  template <class Issued>
  __device__ __forceinline__ void multiply(int chunk, int set, int next, Sums<T::kSums>& sums,
                                           const Issued& issued) {
    const Row row = enter_row(chunk, next);
    if (a_.bands.batches == 1) {
      multiply_batches<1>(row, set, sums, issued);
    } else {
      multiply_batches<kMaxBandBatches>(row, set, sums, issued);
    }
    hand_back(min(row.first + a_.bands.of_rows(1), next));
  }

 private:
  static constexpr bool kSplit = T::kOperands == Operands::kSplit;
  static constexpr int kColumns = 2 * T::kSums;  // of a product
  using Product = Wgmma<T::kOperands, kColumns>;
  using Part = float[T::kSums];

  /// The bands that a row's windows meet, of which each lane knows one: where the chunk's windows are in it,
  /// and how it was scaled.
  struct Row {
    Descriptor windows;
    SlabScale scale;
    // Of the strip's bands, the row's first, and that from which on the warpgroup needs others after it.
    int first, next;
  };

  /// Pixel-major rows of split operands begin when their first bands are there, and hand back each when it has
  /// been used: the ring may have room for no more than those of the rows under way. Others wait once, for the
  /// last of each warpgroup that stages: with these all are there.
  static constexpr bool kWaitsForBands = kSplit && T::kShape.pixel_major;

  __device__ __forceinline__ Row enter_row(int chunk, int next) const {
    const int last = a_.bands.more_rows();
    if constexpr (!kWaitsForBands) {
      for (int i = 0; i < min(T::kShape.staging_warpgroups, last + 1); ++i)
        barriers().bands.wait_full(reader_.ahead(last - i));
    }
    const int lane = ptx::thread_in_block() % 32, band = min(lane, a_.bands.count - 1);
    const int stage = reader_.ahead(band * a_.bands.apart).stage;
    const int place = chunk * T::kShape.columns + stage * (a_.bands.bytes / kUnitBytes);
    Row row = {bands_ + static_cast<uint32_t>(place), {1, Fit::kGood}, reader_.left(), next};
    if constexpr (kSplit && !kWaitsForBands)
      if (lane == band) row.scale = barriers().scales[stage];
    return row;
  }

  /// Where rows have waited for their last band only, each is waited for.
  __device__ __forceinline__ void hand_back(int before) {
    reader_.template hand_back<!kWaitsForBands>(before);
  }
  __device__ __forceinline__ static void multiply(Part& sums, const Descriptor& filters,
                                                  const Descriptor& windows, bool accumulate) {
    if constexpr (T::kShape.pixel_major) {
      Product::multiply(sums, windows, filters, accumulate);
    } else {
      Product::multiply(sums, filters, windows, accumulate);
    }
  }
  __device__ __forceinline__ uint32_t step(int i) const {
    return reinterpret_cast<const uint32_t&>(a_.bands.steps[i]);
  }

  /// Code for each number of steps: while products are under way, the compiler takes no branches.
  template <int kBatches, class Issued>
  __device__ __forceinline__ void multiply_batches(const Row& row, int set, Sums<T::kSums>& sums,
                                                   const Issued& issued) {
    switch (a_.bands.batch_steps) {
      case 2: return multiply_row<kBatches, 2>(row, set, sums, issued);
      case 3: return multiply_row<kBatches, 3>(row, set, sums, issued);
      case 4: return multiply_row<kBatches, 4>(row, set, sums, issued);
      default: return multiply_row<kBatches, max_batch_steps(T::kOperands)>(row, set, sums, issued);
    }
  }

  /// How many bands windows meet, from the least to the most, that usually take so many steps: of 3, 5 to 7 and,
  /// pixel-major, 11 taps. 0: any number.
  struct UsualBands {
    int least, most;
  };
  static constexpr UsualBands usual_bands(int batches, int batch_steps) {
    if (T::kShape.pixel_major)
      return batches > 1 && batch_steps == 3 ? UsualBands{3, 3} : UsualBands{};
    if (batches > 1) return {};
    return batch_steps == 2 ? UsualBands{2, 2} : UsualBands{batch_steps == 3 ? 3 : 4, 4};
  }

  template <int kBatches, int kSteps, class Issued>
  __device__ __forceinline__ void multiply_row(const Row& row, int set, Sums<T::kSums>& sums,
                                               const Issued& issued) {
    if constexpr (kSplit) {
      constexpr UsualBands kUsual = usual_bands(kBatches, kSteps);
      if constexpr (kUsual.most > 0)
        if (a_.bands.count == kUsual.most)
          return multiply_bands<kBatches, kSteps, kUsual.most>(row, sums);
      if constexpr (kUsual.least < kUsual.most)
        if (a_.bands.count == kUsual.least)
          return multiply_bands<kBatches, kSteps, kUsual.least>(row, sums);
      multiply_bands<kBatches, kSteps>(row, sums);
    } else {
      multiply_whole<kBatches * kSteps>(row, set, sums, issued);
    }
  }

  /// One sum an output all the way.
  template <int kSteps, class Issued>
  __device__ __forceinline__ void multiply_whole(const Row& row, int set, Sums<T::kSums>& sums,
                                                 const Issued& issued) const {
    for (int band = 0; band < a_.bands.count; ++band) {
      const Descriptor filters = filters_of<kSteps>(set * a_.bands.count + band);
      const Descriptor windows = row.windows.uniform(band);
      WgmmaOrder::begin();
#pragma unroll
      for (int i = 0; i < kSteps; ++i)
        multiply(sums.sum, filters + i * T::kFilterStep, windows + step(i), i > 0 || band > 0);
      WgmmaOrder::commit();
    }
    issued();
    WgmmaOrder::end(sums.sum);
    sums.doubt[0] = sums.doubt[1] = 0;
  }

  /// Those that a band's windows meet.
  template <int kSteps>
  __device__ __forceinline__ Descriptor filters_of(int band) const {
    return (filters_ + static_cast<uint32_t>(band * kSteps * T::kFilterStep)).uniform();
  }

  /// Of a band.
  struct BandOperands {
    Descriptor filters, windows, low_windows;
    float inverse;
  };

  /// Before the band's products: those who look at another lane's numbers wait for them.
  template <int kSteps>
  __device__ __forceinline__ BandOperands operands(Row& row, int band) const {
    if constexpr (kWaitsForBands) {
      const Cursor at = reader_.ahead(row.first + band * a_.bands.apart - reader_.left());
      barriers().bands.wait_full(at);
      const SlabScale scale = barriers().scales[at.stage];
      row.scale.inverse = scale.inverse;
      if (scale.fit > row.scale.fit) row.scale.fit = scale.fit;
    }
    const Descriptor windows = row.windows.uniform(band);
    return {filters_of<kSteps>(band), windows,
            windows + static_cast<uint32_t>(a_.bands.part_bytes / kUnitBytes),
            kWaitsForBands ? row.scale.inverse : __shfl_sync(~0u, row.scale.inverse, band)};
  }
  /// How well any of the row's bands was scaled, if each lane knows one or all have been met.
  __device__ __forceinline__ static Fit worst_fit(const Row& row) {
    const auto fit = static_cast<uint32_t>(row.scale.fit);
    return static_cast<Fit>(kWaitsForBands ? fit : __reduce_max_sync(~0u, fit));
  }

  // Low products of a band make one sum, the high ones of each batch another: each goes to float32 sums, with
  // the scales taken out again, while others are under way.

  struct Factors {
    float high[2], low[2];
  };
  /// Take the scales of the band and of a filter, if known, out of products.
  __device__ __forceinline__ Factors factors(const BandOperands& of) const {
    const float high[2] = {of.inverse * fabsf(filter_scale_[0]),
                           of.inverse * fabsf(filter_scale_[1])};
    return {{high[0], high[1]}, {high[0] / kLowScale, high[1] / kLowScale}};
  }

  /// All of a band's but its first high ones, which are under way. Its low products then still are.
  template <int kBatches, int kBatchSteps>
  __device__ __forceinline__ void multiply_band(const BandOperands& of, const Factors& factors,
                                                Part& high, Part& low, Sums<T::kSums>& sums) const {
    sum_low<kBatchSteps>(of, 0, low);
#pragma unroll
    for (int i = 1; i <= kBatches; ++i) {
      WgmmaOrder::template wait<1>(high);
      add_product_sums(high, factors.high[0], factors.high[1], sums.sum);
      if (i == kBatches) continue;
      sum_high<kBatchSteps>(of, i * kBatchSteps, high);
      sum_low<kBatchSteps>(of, i * kBatchSteps, low);
    }
  }

  /// Of so many bands, those of the next are under way when the low ones of one are added; or of any number,
  /// in a loop, which none may go round under way.
  template <int kBatches, int kBatchSteps, int kBands = 0>
  __device__ __forceinline__ void multiply_bands(Row row, Sums<T::kSums>& sums) {
#pragma unroll
    for (int i = 0; i < T::kSums; ++i) sums.sum[i] = 0;
    constexpr int kSteps = kBatches * kBatchSteps;
    constexpr bool kOverlaps = kBands > 0;
    const int bands = kOverlaps ? kBands : a_.bands.count;
    float all_inverses = 0;
    Part high, low;
    BandOperands at = operands<kSteps>(row, 0);
    if constexpr (kOverlaps) sum_high<kBatchSteps>(at, 0, high);
#pragma unroll(kOverlaps ? kBands : 1)
    for (int band = 0; band < bands; ++band) {
      if constexpr (!kOverlaps) sum_high<kBatchSteps>(at, 0, high);
      const Factors of = factors(at);
      multiply_band<kBatches, kBatchSteps>(at, of, high, low, sums);
      all_inverses += at.inverse;
      const bool more = band + 1 < bands;
      if (more) at = operands<kSteps>(row, band + 1);
      if (kOverlaps && more) {
        sum_high<kBatchSteps>(at, 0, high);
        WgmmaOrder::template wait<1>(low);
      } else {
        WgmmaOrder::end(low);
      }
      if constexpr (kWaitsForBands) hand_back(min(row.first + band * a_.bands.apart + 1, row.next));
      add_product_sums(low, of.low[0], of.low[1], sums.sum);
    }
    tell_doubt(worst_fit(row), all_inverses * static_cast<float>(kSteps * kBoundOfStep), sums);
  }

  /// Of the thread's two filters. Of pixel-major sums: of filters that give reason for doubt, and of others, before their
  /// scales are taken out.
  __device__ __forceinline__ void tell_doubt(Fit worst, float bound, Sums<T::kSums>& sums) const {
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      const bool is_faint = T::kShape.pixel_major ? i == 0 : !(filter_scale_[i] > 0);
      sums.doubt[i] = doubt_of(worst, is_faint, bound, filter_scale_[i]);
    }
  }

  template <int kSteps>
  __device__ __forceinline__ void sum_high(const BandOperands& at, int first, Part& part) const {
    WgmmaOrder::begin();
#pragma unroll
    for (int i = 0; i < kSteps; ++i)
      multiply(part, at.filters + (first + i) * T::kFilterStep, at.windows + step(first + i),
               i > 0);
    WgmmaOrder::commit();
  }

  template <int kSteps>
  __device__ __forceinline__ void sum_low(const BandOperands& at, int first, Part& part) const {
    WgmmaOrder::begin();
#pragma unroll
    for (int i = first; i < first + kSteps; ++i) {
      multiply(part, at.filters + i * T::kFilterStep, at.low_windows + step(i), i > 0);
      multiply(part, at.filters + i * T::kFilterStep + T::kFilterPart, at.windows + step(i), true);
    }
    WgmmaOrder::commit();
  }

  const Arguments<typename T::Element>& a_;
  Descriptor filters_, bands_;  // of the first step, of the first stage
  BandReader<typename T::Element> reader_;
  // Of the thread's two; where it has more, they wait until sums are written.
  float filter_scale_[2] = {1, 1};
};

}  // namespace im2win::cuda::fused::stem
