// From dense bands in shared memory to the sums of an output row, or run: one band has all of its windows.
#pragma once

#include <cstdint>

#include "cuda/fused/descriptor.cuh"
#include "cuda/fused/operands.cuh"
#include "cuda/fused/order.cuh"
#include "cuda/fused/stem/arguments.cuh"
#include "cuda/fused/stem/band_reader.cuh"
#include "cuda/fused/stem/multiply.cuh"
#include "cuda/fused/sums.cuh"
#include "cuda/fused/wgmma.cuh"
#include "cuda/ptx.cuh"

namespace im2win::cuda::fused::stem {

/// As RowMultiplier is for others.
template <class T>
class DenseMultiplier {
 public:
  __device__ __forceinline__ DenseMultiplier(const Arguments<typename T::Element>& a,
                                             Block<T> block, const TilePosition& first)
      : a_(a),
        filters_(Descriptor(ptx::shared_address(block.filter_stage(0)), T::kShape.filters, 8)),
        bands_(Descriptor(ptx::shared_address(block.slab(0)), 0, 8)),
        reader_(a) {
    if constexpr (kSplit) load_scales<T>(a, first, filter_scale_);
  }

  __device__ __forceinline__ BandReader<typename T::Element>& bands() { return reader_; }

  /// A row's, before which all others have been passed.
  struct Band {
    Descriptor windows;
    SlabScale scale;
  };
  /// Once it is there.
  __device__ __forceinline__ Band enter() const {
    const Cursor at = reader_.ahead();
    barriers().bands.wait_full(at);
    const int place = at.stage * (a_.bands.bytes / kUnitBytes);
    Band band = {(bands_ + static_cast<uint32_t>(place)).uniform(), {1, Fit::kGood}};
    if constexpr (kSplit) {
      // Read by the lane that hands the band back, before another's is told.
      if (ptx::thread_in_block() % 32 == 0) band.scale = barriers().scales[at.stage];
      band.scale.inverse = __shfl_sync(~0u, band.scale.inverse, 0);
      band.scale.fit = static_cast<Fit>(__shfl_sync(~0u, static_cast<int32_t>(band.scale.fit), 0));
    }
    return band;
  }

  /// The sums of a chunk of the row, of one of the block's sets of filters.
  __device__ __forceinline__ void multiply(const Band& band, int chunk, int set,
                                           Sums<T::kSums>& sums) const {
    const Descriptors at = {filters_ + static_cast<uint32_t>(set * kDenseSteps * T::kFilterStep),
                            band.windows + static_cast<uint32_t>(chunk * T::kShape.columns)};
    if constexpr (kSplit) {
      multiply_split(at, band.scale, sums);
    } else {
      WgmmaOrder::begin();
#pragma unroll
      for (int i = 0; i < kDenseSteps; ++i)
        Product::multiply(sums.sum, at.filters(i), at.windows + step(i), i > 0);
      WgmmaOrder::commit();
      WgmmaOrder::end(sums.sum);
      sums.doubt[0] = sums.doubt[1] = 0;
    }
  }

  /// Likewise, of a row of which other warpgroups have other chunks: `next` is the row of what this one multiplies after
  /// that, or as many as the strip has bands, before which bands are handed back.
  template <class Issued>
  __device__ __forceinline__ void multiply(int chunk, int set, int next, Sums<T::kSums>& sums,
                                           const Issued&) {
    multiply(enter(), chunk, set, sums);
    reader_.hand_back(min(reader_.left() + 1, next));
  }

 private:
  static constexpr bool kSplit = T::kOperands == Operands::kSplit;
  using Product = Wgmma<T::kOperands, 2 * T::kSums>;
  using Part = float[T::kSums];

  struct Descriptors {
    Descriptor first_filters, windows;

    __device__ __forceinline__ Descriptor filters(int step) const {
      return first_filters + step * T::kFilterStep;
    }
  };

  __device__ __forceinline__ uint32_t step(int i) const {
    return reinterpret_cast<const uint32_t&>(a_.bands.steps[i]);
  }

  /// The high products become the sums where they are.
  __device__ __forceinline__ void multiply_split(const Descriptors& at, const SlabScale& scale,
                                                 Sums<T::kSums>& sums) const {
    const Descriptor low_windows =
        at.windows + static_cast<uint32_t>(a_.bands.part_bytes / kUnitBytes);
    Part low;
    WgmmaOrder::begin();
#pragma unroll
    for (int i = 0; i < kDenseSteps; ++i)
      Product::multiply(sums.sum, at.filters(i), at.windows + step(i), i > 0);
    WgmmaOrder::commit();
    WgmmaOrder::begin();
#pragma unroll
    for (int i = 0; i < kDenseSteps; ++i) {
      Product::multiply(low, at.filters(i), low_windows + step(i), i > 0);
      Product::multiply(low, at.filters(i) + T::kFilterPart, at.windows + step(i), true);
    }
    WgmmaOrder::commit();
    const float factors[2] = {scale.inverse * fabsf(filter_scale_[0]),
                              scale.inverse * fabsf(filter_scale_[1])};
    WgmmaOrder::template wait<1>(sums.sum);
#pragma unroll
    for (int i = 0; i < T::kSums; ++i) sums.sum[i] *= factors[i / 2 % 2];
    WgmmaOrder::end(low);
    add_product_sums(low, factors[0] / kLowScale, factors[1] / kLowScale, sums.sum);
    tell_doubt(scale, sums);
  }

  __device__ __forceinline__ void tell_doubt(const SlabScale& scale, Sums<T::kSums>& sums) const {
    const float bound = scale.inverse * static_cast<float>(kDenseSteps * kBoundOfStep);
#pragma unroll
    for (int i = 0; i < 2; ++i)
      sums.doubt[i] = doubt_of(scale.fit, !(filter_scale_[i] > 0), bound, filter_scale_[i]);
  }

  const Arguments<typename T::Element>& a_;
  Descriptor filters_, bands_;  // of the first step, of the first stage
  BandReader<typename T::Element> reader_;
  float filter_scale_[2] = {1, 1};  // of the thread's two filters
};

}  // namespace im2win::cuda::fused::stem
