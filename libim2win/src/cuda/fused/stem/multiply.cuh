// The multiplying warpgroups of im2win_stem: from bands in shared memory to the sums of an output row.
#pragma once

#include <cstdint>

#include "cuda/fused/descriptor.cuh"
#include "cuda/fused/multiply.cuh"
#include "cuda/fused/order.cuh"
#include "cuda/fused/stem/arguments.cuh"
#include "cuda/fused/wgmma.cuh"
#include "cuda/ptx.cuh"

namespace im2win::cuda::fused::stem {

/// Multiplies an output row's bands by the filters, which stay.
template <class T>
class RowMultiplier {
 public:
  __device__ __forceinline__ RowMultiplier(const Arguments<typename T::Element>& a, Block<T> block,
                                           const TilePosition& first)
      : a_(a),
        filters_(Descriptor(ptx::shared_address(block.filter_stage(0)), T::kShape.filters, 8)),
        bands_(Descriptor(ptx::shared_address(block.slab(0)), 0, 8)),
        is_teller_(ptx::fresh(static_cast<int>(threadIdx.x % 32)) == 0) {
    if constexpr (kSplit) {
      const int64_t set = int64_t{first.group} * a.filter_tiles.divisor + first.filter_tile;
      const int filter = static_cast<int>(threadIdx.x % 128 / 32 * 16 + threadIdx.x % 32 / 4);
      const float* scale = reinterpret_cast<const float*>(a.filters + a.packed.scales) +
                           set * T::kShape.filters + filter;
      filter_scale_[0] = scale[0];
      filter_scale_[1] = scale[8];
    }
  }

  /// The sums of a chunk of a strip's row, of one of the block's sets of filters; and hands its bands back.
  /// Of whole operands, calls issued() when all products are under way.
  template <class Issued>
  __device__ __forceinline__ void multiply(int row, int chunk, int set, Sums<T::kSums>& sums,
                                           const Issued& issued) const {
    const Place place = begin(row, chunk);
    if (a_.bands.batches == 1) {
      multiply_batches<1>(place, set, sums, issued);
    } else {
      multiply_batches<kMaxBandBatches>(place, set, sums, issued);
    }
  }

  /// Hands back what a chunk of a row above or below the strip would have used of its bands.
  __device__ __forceinline__ void pass(int row, int bands) const {
    for (int i = 0; i < a_.bands.count; ++i) {
      const int band = row + i * a_.bands.apart;
      if (band < 0 || band >= bands) continue;
      const Cursor at = cursor(band);
      barriers().bands.wait_full(at);
      hand_back(at);
    }
  }

  __device__ __forceinline__ void leave_strip(int bands) { bands_before_ += bands; }

 private:
  static constexpr bool kSplit = T::kOperands == Operands::kSplit;
  static constexpr OperandTraits kTraits = traits(T::kOperands);
  static constexpr int kPart = 2 * T::kShape.filters;  // units from high to low filters
  static constexpr int kStep = kTraits.parts * kPart;  // and from a step to the next
  using Product = Wgmma<T::kOperands, T::kShape.columns>;
  using Part = float[T::kSums];

  /// A band of the row, the filters that its windows meet, and where these would be in the first stage.
  struct Place {
    Cursor band;
    Descriptor filters, first_windows;
  };

  __device__ __forceinline__ Descriptor windows(const Place& place) const {
    return place.first_windows +
           static_cast<uint32_t>(place.band.stage) * (a_.bands.bytes / uint32_t{kUnitBytes});
  }
  __device__ __forceinline__ Cursor cursor(int band) const {
    const auto [round, stage] = a_.band_stages.divide(bands_before_ + band);
    return {stage, static_cast<uint32_t>(round) & 1};
  }
  /// The stage of a row's i-th band: all of them are in the ring at the same time.
  __device__ __forceinline__ int stage_of(const Cursor& first, int i) const {
    const int stage = first.stage + i * a_.bands.apart;
    return stage < a_.bands.stages ? stage : stage - a_.bands.stages;
  }
  __device__ __forceinline__ void advance(Cursor& band) const {
    const int stage = stage_of(band, 1);
    band.parity ^= stage < band.stage ? 1 : 0;
    band.stage = stage;
  }
  __device__ __forceinline__ void hand_back(const Cursor& band) const {
    if (is_teller_) barriers().bands.arrive_empty(band.stage);
  }
  /// All of a row's bands, each by a lane.
  __device__ __forceinline__ void hand_back_all(const Cursor& first) const {
    const int lane = ptx::thread_in_block() % 32;
    if (lane < a_.bands.count) barriers().bands.arrive_empty(stage_of(first, lane));
  }

  __device__ __forceinline__ Place begin(int row, int chunk) const {
    const auto column = static_cast<uint32_t>(chunk * T::kShape.columns);
    return {cursor(row), filters_, bands_ + column};
  }
  template <int kSteps>
  __device__ __forceinline__ void advance(Place& place) const {
    advance(place.band);
    place.filters = place.filters + kSteps * kStep;
  }
  __device__ __forceinline__ uint32_t step(int i) const {
    return reinterpret_cast<const uint32_t&>(a_.bands.steps[i]);
  }

  /// Code for each number of steps: while products are under way, the compiler takes no branches.
  template <int kBatches, class Issued>
  __device__ __forceinline__ void multiply_batches(const Place& place, int set,
                                                   Sums<T::kSums>& sums,
                                                   const Issued& issued) const {
    switch (a_.bands.batch_steps) {
      case 2: return multiply_row<kBatches, 2>(place, set, sums, issued);
      case 3: return multiply_row<kBatches, 3>(place, set, sums, issued);
      case 4: return multiply_row<kBatches, 4>(place, set, sums, issued);
      default:
        return multiply_row<kBatches, max_batch_steps(T::kOperands)>(place, set, sums, issued);
    }
  }

  template <int kBatches, int kSteps, class Issued>
  __device__ __forceinline__ void multiply_row(const Place& place, int set, Sums<T::kSums>& sums,
                                               const Issued& issued) const {
    if constexpr (kSplit) {
      multiply_split<kBatches, kSteps>(place, sums);
    } else {
      multiply_whole<kBatches * kSteps>(place, set, sums, issued);
    }
  }

  /// One sum an output all the way.
  template <int kSteps, class Issued>
  __device__ __forceinline__ void multiply_whole(Place place, int set, Sums<T::kSums>& sums,
                                                 const Issued& issued) const {
    place.filters = place.filters + static_cast<uint32_t>(set * a_.bands.count * kSteps * kStep);
    const Cursor first = place.band;
    for (int band = 0; band < a_.bands.count; ++band) {
      barriers().bands.wait_full(place.band);
      const Descriptor filters = place.filters.uniform(), windows = this->windows(place).uniform();
      WgmmaOrder::begin();
#pragma unroll
      for (int i = 0; i < kSteps; ++i)
        Product::multiply(sums.sum, filters + i * kStep, windows + step(i), i > 0 || band > 0);
      WgmmaOrder::commit();
      advance<kSteps>(place);
    }
    issued();
    WgmmaOrder::end(sums.sum);
    hand_back_all(first);
    sums.doubt[0] = sums.doubt[1] = 0;
  }

  struct Scales {
    float factor[2];  // takes the scales of a band and of a filter out of a product
  };

  static constexpr float kLow = 1.0f / 2048;

  /// Of a band.
  struct BandOperands {
    Descriptor filters, windows, low_windows;
  };

  __device__ __forceinline__ BandOperands operands(const Place& place) const {
    const auto low = static_cast<uint32_t>(a_.bands.part_bytes / kUnitBytes);
    return {place.filters.uniform(), windows(place).uniform(), (windows(place) + low).uniform()};
  }

  /// Low products of a band make one sum, the high ones of each batch another. Of two sets of registers, one
  /// sums while what is in the other goes to float32 sums, with the scales taken out again. Between bands none
  /// does: ptxas would make products wait for one another that are under way from a turn of a loop to the next.
  template <int kBatches, int kBatchSteps>
  __device__ __forceinline__ void multiply_split(Place place, Sums<T::kSums>& sums) const {
#pragma unroll
    for (int i = 0; i < T::kSums; ++i) sums.sum[i] = 0;
    constexpr int kSteps = kBatches * kBatchSteps;
    Doubt doubt;
    Part even, odd;
    Scales scales = enter_band(place.band, kSteps, doubt);
    for (int left = a_.bands.count; left > 0; --left) {
      const BandOperands at = operands(place);
      sum_low<kSteps>(at, even);
      sum_high_batches<kBatches, kBatchSteps>(at, scales, even, odd, sums.sum);
      const Cursor used = place.band;
      const Scales last = scales;
      advance<kSteps>(place);
      if (left > 1) scales = enter_band(place.band, kSteps, doubt);
      WgmmaOrder::end(odd);
      hand_back(used);
      add(odd, last, 1, sums.sum);
    }
#pragma unroll
    for (int i = 0; i < 2; ++i) sums.doubt[i] = doubt.exists[i] ? doubt.bound[i] : 0;
  }

  /// While low products are under way in `even`; those of the last batch are in the end, in `odd`.
  template <int kBatches, int kSteps>
  __device__ __forceinline__ void sum_high_batches(const BandOperands& at, const Scales& scales,
                                                   Part& even, Part& odd, Part& sums) const {
    static_assert(kBatches % 2 == 1);
    sum_high<kSteps>(at, 0, odd);
    add_last(even, scales, kLow, sums);
#pragma unroll
    for (int i = 1; i < kBatches; i += 2) {
      sum_high<kSteps>(at, i * kSteps, even);
      add_last(odd, scales, 1, sums);
      sum_high<kSteps>(at, (i + 1) * kSteps, odd);
      add_last(even, scales, 1, sums);
    }
  }

  template <int kSteps>
  __device__ __forceinline__ void sum_low(const BandOperands& at, Part& part) const {
    WgmmaOrder::begin();
#pragma unroll
    for (int i = 0; i < kSteps; ++i) {
      Product::multiply(part, at.filters + i * kStep, at.low_windows + step(i), i > 0);
      Product::multiply(part, at.filters + i * kStep + kPart, at.windows + step(i), true);
    }
    WgmmaOrder::commit();
  }

  template <int kSteps>
  __device__ __forceinline__ void sum_high(const BandOperands& at, int first, Part& part) const {
    WgmmaOrder::begin();
#pragma unroll
    for (int i = 0; i < kSteps; ++i)
      Product::multiply(part, at.filters + (first + i) * kStep, at.windows + step(first + i),
                        i > 0);
    WgmmaOrder::commit();
  }

  /// All but the last products issued are done.
  __device__ __forceinline__ static void add_last(Part& part, const Scales& scales, float rest,
                                                  Part& sums) {
    WgmmaOrder::wait<1>();
    ptx::accumulators_written(part);
    add(part, scales, rest, sums);
  }
  __device__ __forceinline__ static void add(const Part& part, const Scales& scales, float rest,
                                             Part& sums) {
    const float factor[2] = {scales.factor[0] * rest, scales.factor[1] * rest};
#pragma unroll
    for (int i = 0; i < T::kSums; ++i) sums[i] = fmaf(part[i], factor[i >> 1 & 1], sums[i]);
  }

  /// Of the thread's two filters: the bound below which a sum is in doubt, if there is reason for doubt.
  struct Doubt {
    float bound[2] = {0, 0};
    bool exists[2] = {false, false};
  };

  /// Waits for it.
  __device__ __forceinline__ Scales enter_band(const Cursor& band, int steps, Doubt& doubt) const {
    barriers().bands.wait_full(band);
    const SlabScale scale = scale_of(band);
    Scales scales;
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      scales.factor[i] = scale.inverse * fabsf(filter_scale_[i]);
      doubt.exists[i] |= scale.fit != Fit::kGood || !(filter_scale_[i] > 0);
      doubt.bound[i] += scale.fit == Fit::kExtreme
                            ? __int_as_float(0x7fffffff)
                            : scales.factor[i] * static_cast<float>(steps * kBoundOfStep);
    }
    return scales;
  }

  /// Read by those that tell when the band has been used.
  __device__ __forceinline__ SlabScale scale_of(const Cursor& band) const {
    SlabScale scale = {1, Fit::kGood};
    if (is_teller_) scale = barriers().scales[band.stage];
    scale.inverse = __shfl_sync(~0u, scale.inverse, 0);
    scale.fit = static_cast<Fit>(__shfl_sync(~0u, static_cast<int>(scale.fit), 0));
    return scale;
  }

  const Arguments<typename T::Element>& a_;
  Descriptor filters_, bands_;  // of the first step, of the first stage
  bool is_teller_;              // one lane of a warp: see arrivals
  int bands_before_ = 0;        // those of the strips before
  float filter_scale_[2] = {};
};

}  // namespace im2win::cuda::fused::stem
