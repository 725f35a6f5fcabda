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

/// Of split filters of a block: what takes each one's scale out of its sums, negative if some element is faint.
template <class T>
__device__ __forceinline__ const float* filter_scales(const Arguments<typename T::Element>& a,
                                                      const TilePosition& first) {
  const int64_t set = int64_t{first.group} * a.filter_tiles.divisor + first.filter_tile;
  return reinterpret_cast<const float*>(a.filters + a.packed.scales) + set * T::kShape.filters;
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
        is_teller_(ptx::fresh(static_cast<int>(threadIdx.x % 32)) == 0) {
    if constexpr (kSplit && !T::kShape.pixel_major) {
      const int filter = static_cast<int>(threadIdx.x % 128 / 32 * 16 + threadIdx.x % 32 / 4);
      const float* scale = filter_scales<T>(a, first) + filter;
      filter_scale_[0] = scale[0];
      filter_scale_[1] = scale[8];
    }
  }

  /// Hands back the strip's bands before this one, which the warpgroup does not use. It waits for all bands, in
  /// their order: never for one while that before it in the same stage may be to come, which the parity of a
  /// barrier does not tell apart.
  __device__ __forceinline__ void pass_bands(int before) {
    while (left_ < before) {
      barriers().bands.wait_full(at_);
      hand_back(left_ + 1);
    }
  }

  /// The sums of a chunk of a strip's row, before which all bands have been passed, of one of the block's sets
  /// of filters. `next` is the row of what the warpgroup multiplies after that, or as many as the strip has
  /// bands: it hands back those before. Of whole operands, calls issued() when all products are under way.
  template <class Issued>
  __device__ __forceinline__ void multiply(int chunk, int set, int next, Sums<T::kSums>& sums,
                                           const Issued& issued) {
    const auto column = static_cast<uint32_t>(chunk * T::kShape.columns);
    const Place place = {at_, filters_, bands_ + column};
    if (a_.bands.batches == 1) {
      multiply_batches<1>(place, set, sums, issued);
    } else {
      multiply_batches<kMaxBandBatches>(place, set, sums, issued);
    }
    hand_back(min(a_.bands.of_rows(left_ + 1), next));
  }

  __device__ __forceinline__ void leave_strip(int bands) {
    pass_bands(bands);
    left_ = 0;
  }

 private:
  static constexpr bool kSplit = T::kOperands == Operands::kSplit;
  static constexpr int kColumns = 2 * T::kSums;  // of a product
  static constexpr OperandTraits kTraits = traits(T::kOperands);
  static constexpr int kPart = 2 * T::kShape.filters;  // units from high to low filters
  static constexpr int kStep = kTraits.parts * kPart;  // and from a step to the next
  using Product = Wgmma<T::kOperands, kColumns>;
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
  /// Bands further on: all of a row's are in the ring at the same time.
  __device__ __forceinline__ Cursor further(Cursor at, int bands) const {
    at.stage += bands;
    if (at.stage >= a_.bands.stages) {
      at.stage -= a_.bands.stages;
      at.parity ^= 1;
    }
    return at;
  }
  /// Those before this one, each by a lane. They have been used, or waited for.
  __device__ __forceinline__ void hand_back(int before) {
    const int lane = ptx::thread_in_block() % 32;
    if (lane < before - left_) barriers().bands.arrive_empty(further(at_, lane).stage);
    at_ = further(at_, before - left_);
    left_ = before;
  }
  __device__ __forceinline__ static void multiply(Part& sums, const Descriptor& filters,
                                                  const Descriptor& windows, bool accumulate) {
    if constexpr (T::kShape.pixel_major) {
      Product::multiply(sums, windows, filters, accumulate);
    } else {
      Product::multiply(sums, filters, windows, accumulate);
    }
  }
  template <int kSteps>
  __device__ __forceinline__ void advance(Place& place) const {
    place.band = further(place.band, a_.bands.apart);
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
    for (int band = 0; band < a_.bands.count; ++band) {
      barriers().bands.wait_full(place.band);
      const Descriptor filters = place.filters.uniform(), windows = this->windows(place).uniform();
      WgmmaOrder::begin();
#pragma unroll
      for (int i = 0; i < kSteps; ++i)
        multiply(sums.sum, filters + i * kStep, windows + step(i), i > 0 || band > 0);
      WgmmaOrder::commit();
      advance<kSteps>(place);
    }
    issued();
    WgmmaOrder::end(sums.sum);
    sums.doubt[0] = sums.doubt[1] = 0;
  }

  struct Scales {
    float factor[2];  // takes the scales of a band and of a filter, if known, out of a product
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

  /// Low products of a band make one sum, the high ones of each batch another: each goes to float32 sums, with
  /// the scales taken out again, while other warpgroups' products are under way.
  template <int kBatches, int kBatchSteps>
  __device__ __forceinline__ void multiply_split(Place place, Sums<T::kSums>& sums) const {
#pragma unroll
    for (int i = 0; i < T::kSums; ++i) sums.sum[i] = 0;
    constexpr int kSteps = kBatches * kBatchSteps;
    Doubt doubt;
    Part part;
    Scales scales = enter_band(place.band, kSteps, doubt);
    for (int left = a_.bands.count; left > 0; --left) {
      const BandOperands at = operands(place);
      sum_low<kSteps>(at, part);
      sum_high_batches<kBatches, kBatchSteps>(at, scales, part, sums.sum);
      const Scales last = scales;
      advance<kSteps>(place);
      if (left > 1) scales = enter_band(place.band, kSteps, doubt);
      WgmmaOrder::end(part);
      add(part, last, 1, sums.sum);
    }
#pragma unroll
    for (int i = 0; i < 2; ++i) sums.doubt[i] = doubt.exists[i] ? doubt.bound[i] : 0;
  }

  /// After the low ones; the last batch's products are under way in the end.
  template <int kBatches, int kSteps>
  __device__ __forceinline__ void sum_high_batches(const BandOperands& at, const Scales& scales,
                                                   Part& part, Part& sums) const {
#pragma unroll
    for (int i = 0; i < kBatches; ++i) {
      WgmmaOrder::end(part);
      add(part, scales, i == 0 ? kLow : 1, sums);
      sum_high<kSteps>(at, i * kSteps, part);
    }
  }

  template <int kSteps>
  __device__ __forceinline__ void sum_low(const BandOperands& at, Part& part) const {
    WgmmaOrder::begin();
#pragma unroll
    for (int i = 0; i < kSteps; ++i) {
      multiply(part, at.filters + i * kStep, at.low_windows + step(i), i > 0);
      multiply(part, at.filters + i * kStep + kPart, at.windows + step(i), true);
    }
    WgmmaOrder::commit();
  }

  template <int kSteps>
  __device__ __forceinline__ void sum_high(const BandOperands& at, int first, Part& part) const {
    WgmmaOrder::begin();
#pragma unroll
    for (int i = 0; i < kSteps; ++i)
      multiply(part, at.filters + (first + i) * kStep, at.windows + step(first + i), i > 0);
    WgmmaOrder::commit();
  }

  __device__ __forceinline__ static void add(const Part& part, const Scales& scales, float rest,
                                             Part& sums) {
    const float factor[2] = {scales.factor[0] * rest, scales.factor[1] * rest};
#pragma unroll
    for (int i = 0; i < T::kSums; ++i) sums[i] = fmaf(part[i], factor[i >> 1 & 1], sums[i]);
  }

  /// Of the thread's two filters: the bound below which a sum is in doubt, if there is reason for doubt. Of
  /// pixel-major sums: of filters that give reason for doubt, and of others, before their scales are taken out.
  struct Doubt {
    float bound[2] = {0, 0};
    bool exists[2] = {T::kShape.pixel_major, false};
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
  // How many of the strip's bands have been handed back, and where the one after them is.
  int left_ = 0;
  Cursor at_;
  // Of the thread's two; where it has more, they wait until sums are written.
  float filter_scale_[2] = {1, 1};
};

}  // namespace im2win::cuda::fused::stem
