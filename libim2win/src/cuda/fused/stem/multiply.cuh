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

  /// The sums of a strip's row, of one of the block's sets of filters. With the first set, which comes
  /// last, the row's bands are handed back.
  __device__ __forceinline__ void multiply(int row, int set, Sums<T::kSums>& sums) const {
    if (a_.bands.batches == 1) {
      multiply_batches<1>(row, set, sums);
    } else {
      multiply_batches<kMaxBandBatches>(row, set, sums);
    }
  }

  /// Hands back what a row above or below the strip would have used of its bands.
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

  /// A band of the row: its windows, and the filters that they meet.
  struct Place {
    Cursor band;
    Descriptor filters, windows;
  };

  __device__ __forceinline__ Descriptor windows(const Cursor& band) const {
    return bands_ + static_cast<uint32_t>(band.stage) * (a_.bands.bytes / uint32_t{kUnitBytes});
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

  __device__ __forceinline__ Place begin(int row) const {
    const Cursor band = cursor(row);
    return {band, filters_, windows(band)};
  }
  template <int kSteps>
  __device__ __forceinline__ void advance(Place& place) const {
    advance(place.band);
    place.filters = place.filters + kSteps * kStep;
    place.windows = windows(place.band);
  }
  __device__ __forceinline__ uint32_t step(int i) const {
    return reinterpret_cast<const uint32_t&>(a_.bands.steps[i]);
  }

  /// Code for each number of steps: while products are under way, the compiler takes no branches.
  template <int kBatches>
  __device__ __forceinline__ void multiply_batches(int row, int set, Sums<T::kSums>& sums) const {
    switch (a_.bands.batch_steps) {
      case 2: return multiply_row<kBatches, 2>(row, set, sums);
      case 3: return multiply_row<kBatches, 3>(row, set, sums);
      case 4: return multiply_row<kBatches, 4>(row, set, sums);
      default: return multiply_row<kBatches, max_batch_steps(T::kOperands)>(row, set, sums);
    }
  }

  template <int kBatches, int kSteps>
  __device__ __forceinline__ void multiply_row(int row, int set, Sums<T::kSums>& sums) const {
    if constexpr (kSplit) {
      multiply_split<kBatches, kSteps>(row, sums);
    } else {
      multiply_whole<kBatches * kSteps>(row, set, sums);
    }
  }

  /// One sum an output all the way.
  template <int kSteps>
  __device__ __forceinline__ void multiply_whole(int row, int set, Sums<T::kSums>& sums) const {
    Place place = begin(row);
    place.filters = place.filters + static_cast<uint32_t>(set * a_.bands.count * kSteps * kStep);
    const Cursor first = place.band;
    for (int band = 0; band < a_.bands.count; ++band) {
      barriers().bands.wait_full(place.band);
      WgmmaOrder::begin();
#pragma unroll
      for (int i = 0; i < kSteps; ++i)
        Product::multiply(sums.sum, place.filters + i * kStep, place.windows + step(i),
                          i > 0 || band > 0);
      WgmmaOrder::commit();
      advance<kSteps>(place);
    }
    WgmmaOrder::end(sums.sum);
    if (set == 0) hand_back_all(first);
    sums.doubt[0] = sums.doubt[1] = 0;
  }

  struct Scales {
    float factor[2];  // takes the scales of a band and of a filter out of a product
  };

  static constexpr float kLow = 1.0f / 2048;

  /// Low products of a band make one sum, the high ones of each batch another. Of two sets of registers, one
  /// sums while what is in the other goes to float32 sums, with the scales taken out again.
  template <int kBatches, int kSteps>
  __device__ __forceinline__ void multiply_split(int row, Sums<T::kSums>& sums) const {
#pragma unroll
    for (int i = 0; i < T::kSums; ++i) sums.sum[i] = 0;
    Doubt doubt;
    Place place = begin(row);
    Scales scales = enter_band(place.band, kBatches * kSteps, doubt);
    for (int left = a_.bands.count; left > 0; --left) {
      Part even, odd;
      sum_low<kBatches * kSteps>(place, even);
      sum_high<kSteps>(place, 0, odd);
      add_last(even, scales, kLow, sums.sum);
#pragma unroll
      for (int i = 1; i < kBatches; i += 2) {
        sum_high<kSteps>(place, i * kSteps, even);
        add_last(odd, scales, 1, sums.sum);
        sum_high<kSteps>(place, (i + 1) * kSteps, odd);
        add_last(even, scales, 1, sums.sum);
      }
      const Cursor used = place.band;
      const Scales last = scales;
      advance<kBatches * kSteps>(place);
      if (left > 1) scales = enter_band(place.band, kBatches * kSteps, doubt);
      WgmmaOrder::end(odd);
      hand_back(used);
      add(odd, last, 1, sums.sum);
    }
#pragma unroll
    for (int i = 0; i < 2; ++i) sums.doubt[i] = doubt.exists[i] ? doubt.bound[i] : 0;
  }

  template <int kSteps>
  __device__ __forceinline__ void sum_low(const Place& place, Part& part) const {
    const auto low = static_cast<uint32_t>(a_.bands.part_bytes / kUnitBytes);
    WgmmaOrder::begin();
#pragma unroll
    for (int i = 0; i < kSteps; ++i) {
      const Descriptor f = place.filters + i * kStep, w = place.windows + step(i);
      Product::multiply(part, f, w + low, i > 0);
      Product::multiply(part, f + kPart, w, true);
    }
    WgmmaOrder::commit();
  }

  template <int kSteps>
  __device__ __forceinline__ void sum_high(const Place& place, int first, Part& part) const {
    WgmmaOrder::begin();
#pragma unroll
    for (int i = 0; i < kSteps; ++i)
      Product::multiply(part, place.filters + (first + i) * kStep, place.windows + step(first + i),
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
