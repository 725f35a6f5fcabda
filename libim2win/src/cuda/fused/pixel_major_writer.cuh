// From sums whose rows are pixels to outputs in memory.
#pragma once

#include <algorithm>
#include <cstdint>

#include "cuda/fused/arguments.cuh"
#include "cuda/fused/block.cuh"
#include "cuda/fused/finish.cuh"
#include "cuda/fused/output_rows.cuh"
#include "cuda/fused/pixel_patch.cuh"
#include "cuda/fused/sums.cuh"
#include "cuda/fused/tile_columns.cuh"
#include "cuda/numeric.cuh"
#include "cuda/ptx.cuh"

namespace im2win::cuda::fused {

/// Finishes a thread's sums, of two pixels, for two neighbouring filters of each eight; and writes those of a warpgroup's
/// pixels, some filters at a time, which go through a patch of shared memory so that lanes have neighbouring pixels.
template <class T>
class PixelMajorWriter {
 public:
  using Element = typename T::Element;

  __device__ __forceinline__ PixelMajorWriter(const Arguments<Element>& a, Block<T> block,
                                              const TilePosition& tile, int warpgroup, int set)
      : a_(a),
        block_(block),
        lane_(ptx::thread_in_block() % 32),
        columns_(a, block, tile, warpgroup * a.tile.warpgroup_columns + set * kRowsOfSums),
        first_k_(tile.group * a.filters_per_group + tile.filter_tile * T::kShape.filters),
        left_(static_cast<int>(a.filters_per_group) - tile.filter_tile * T::kShape.filters) {}

  __device__ __forceinline__ void write(Sums<T::kSums>& sums) const {
    if (a_.rechecks && __any_sync(~0u, is_doubtful<T>(sums))) [[unlikely]]
      settle(sums);
    finish(sums);
    switch (a_.row_word) {
      case 4: return store<4>(sums);
      case 2: return store<2>(sums);
      default: store<1>(sums);
    }
  }

 private:
  static constexpr int kRows = 2;
  static constexpr int kEights = T::kShape.filters / 8;
  static constexpr int kRowsOfSums = 64;
  static constexpr int kOwnFilters = kPixelPatchFilters / 4;  // of a patch, that a warp writes

  /// Of the warpgroup.
  __device__ __forceinline__ static int column(int lane, int row) {
    return ptx::thread_in_block() % 128 / 32 * 16 + lane / 4 + 8 * row;
  }
  /// Of the tile: the thread's sum of that number is of a filter and a pixel.
  __device__ __forceinline__ static int filter(int lane, int sum) {
    return sum / 4 * 8 + lane % 4 * 2 + sum % 2;
  }
  __device__ __forceinline__ static constexpr int row(int sum) { return sum / 2 % 2; }

  /// The thread's pixels, if they are outputs.
  struct OwnPixels {
    ColumnPlace place[kRows];
    bool exists[kRows];
  };
  __device__ __forceinline__ OwnPixels own_pixels() const {
    OwnPixels own;
#pragma unroll
    for (int row = 0; row < kRows; ++row) {
      own.place[row] = columns_.located(column(lane_, row));
      own.exists[row] = columns_.is_output(own.place[row], column(lane_, row));
    }
    return own;
  }

  /// Rare: forms sums again that are NaN. Registers have no run-time index, so each turn selects.
  __device__ __forceinline__ void settle(Sums<T::kSums>& sums) const {
    const OwnPixels pixels = own_pixels();
#pragma unroll 1
    for (int turn = 0; turn < T::kSums; ++turn) {
      float own = 0;
#pragma unroll
      for (int i = 0; i < T::kSums; ++i)
        if (i == turn) own = sums.sum[i];
      const bool exists =
          (row(turn) == 0 ? pixels.exists[0] : pixels.exists[1]) && filter(lane_, turn) < left_;
      for_lanes(exists && own != own, [&](int lane) {
        const float again =
            columns_.sum_again(first_k_ + filter(lane, turn), column(lane, row(turn)));
        if (lane_ == lane) own = again;
      });
#pragma unroll
      for (int i = 0; i < T::kSums; ++i)
        if (i == turn) sums.sum[i] = own;
    }
  }

  __device__ __forceinline__ void finish(Sums<T::kSums>& sums) const {
    if (a_.outputs.are_sums()) return;
    if (a_.outputs.only_adds_bias_and_clamps()) {
      const float low = a_.outputs.low();
#pragma unroll
      for (int i = 0; i < T::kSums; ++i) sums.sum[i] = ptx::max_or_nan(sums.sum[i] + bias(i), low);
      return;
    }
    add(sums);
    if (a_.outputs.only_clamps()) {
#pragma unroll
      for (float& sum : sums.sum) sum = ptx::max_or_nan(sum, a_.outputs.low());
    } else if (!a_.outputs.activate_at_once(sums.sum)) {
      activate(sums);
    }
  }

  __device__ __forceinline__ float bias(int sum) const {
    const int own = filter(lane_, sum);
    return own < left_ ? a_.outputs.bias(first_k_ + own) : 0;
  }

  /// The residual and the bias.
  __device__ __forceinline__ void add(Sums<T::kSums>& sums) const {
    const OwnPixels pixels = own_pixels();
    const int64_t stride = a_.outputs.residual_strides()[1];
    const Element* const residual =
        a_.outputs.residual_data() + columns_.first_pixel().residual + first_k_ * stride;
#pragma unroll
    for (int i = 0; i < T::kSums; ++i) {
      const int own = filter(lane_, i);
      const bool has_residual =
          a_.outputs.residual_data() != nullptr && pixels.exists[row(i)] && own < left_;
      const float addend =
          has_residual ? to_compute<float>(residual[pixels.place[row(i)].residual + own * stride])
                       : 0;
      sums.sum[i] = a_.outputs.added(sums.sum[i], addend, bias(i));
    }
  }

  /// In a loop, as these activations are long: slots of shared memory have a run-time index.
  __device__ __forceinline__ void activate(Sums<T::kSums>& sums) const {
    const int warp = (ptx::thread_in_block() - T::kFirstMultiplier) / 32;
    float4* const slots = reinterpret_cast<float4*>(&block_.patch(warp)) + lane_;
    meet();  // none reads the outputs before
#pragma unroll
    for (int first = 0; first < kEights; first += kThreadSlots) {
#pragma unroll
      for (int i = 0; i < kThreadSlots; ++i) {
        const float* const x = &sums.sum[4 * (first + i)];
        slots[i * 32] = make_float4(x[0], x[1], x[2], x[3]);
      }
      activate_slots(a_.outputs, slots);
#pragma unroll
      for (int i = 0; i < kThreadSlots; ++i) {
        const float4 slot = slots[i * 32];
        float* const x = &sums.sum[4 * (first + i)];
        x[0] = slot.x;
        x[1] = slot.y;
        x[2] = slot.z;
        x[3] = slot.w;
      }
    }
  }

  /// Words of so many pixels, of which a lane has as many filters as there are lanes for. The warpgroup's patch is
  /// [filter][pixel].
  template <int kWord>
  __device__ __forceinline__ void store(const Sums<T::kSums>& sums) const {
    constexpr int kLanes = std::min(kRowsOfSums / kWord, 32), kTogether = 32 / kLanes;  // filters
    constexpr int kWords = kRowsOfSums / kWord / kLanes;                                // of a lane
    const int64_t stride = a_.outputs.strides()[1];
    const int warp = ptx::thread_in_block() % 128 / 32;
    const int own = warp * kOwnFilters + lane_ / kLanes, pixel = lane_ % kLanes * kWord;
    int places[kWords];
#pragma unroll
    for (int i = 0; i < kWords; ++i) places[i] = columns_.output_at(pixel + i * kLanes * kWord);
    Element* to = a_.outputs.data() + columns_.first_pixel().output + (first_k_ + own) * stride;
    const float* const from = patch() + own * kPixelPatchPitch + pixel;
    int left = left_ - own;
#pragma unroll
    for (int first = 0; first < T::kShape.filters; first += kPixelPatchFilters) {
      if (first >= left_) break;
      meet();
      put_pixels(patch(), ptx::thread_in_block() % 128, &sums.sum[first / 2]);
      meet();
#pragma unroll
      for (int i = 0; i < kOwnFilters; i += kTogether)
#pragma unroll
        for (int j = 0; j < kWords; ++j)
          if (i < left && places[j] != kNowhere)
            *reinterpret_cast<Pixels<Element, kWord>*>(to + i * stride + places[j]) =
                to_pixels<Element, kWord>(from + i * kPixelPatchPitch + j * kLanes * kWord);
      to += kPixelPatchFilters * stride;
      left -= kPixelPatchFilters;
    }
  }

  __device__ __forceinline__ int warpgroup() const {
    return (ptx::thread_in_block() - T::kFirstMultiplier) / 128;
  }
  /// Its threads.
  __device__ __forceinline__ void meet() const {
    ptx::named_barrier(kPatchesBarrier + warpgroup(), 128);
  }
  __device__ __forceinline__ float* patch() const {
    return reinterpret_cast<float*>(&block_.patch(4 * warpgroup()));
  }

  const Arguments<Element>& a_;
  Block<T> block_;
  int lane_;
  TileColumns<T> columns_;
  int64_t first_k_;  // of the tile's filters, of which so many exist from there on
  int left_;
};

}  // namespace im2win::cuda::fused
