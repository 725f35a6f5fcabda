// From a warp's sums to its outputs, in registers: bias, residual and activation.
#pragma once

#include <cstdint>

#include "cuda/fused/arguments.cuh"
#include "cuda/fused/block.cuh"
#include "cuda/fused/sums.cuh"
#include "cuda/fused/tile_columns.cuh"
#include "cuda/numeric.cuh"
#include "cuda/ptx.cuh"

namespace im2win::cuda::fused {

/// Whether any of a thread's sums may have to be formed again, if any ever has.
template <class T>
__device__ __forceinline__ bool is_doubtful(const Sums<T::kSums>& sums) {
  if constexpr (T::kOperands == Operands::kSplit) {
    return sums.doubt[0] != 0 || sums.doubt[1] != 0;
  } else {
    // Zero, or NaN where any is NaN (or infinite, which is rare enough): several, as each waits for the last.
    constexpr int kChains = 4;
    float zero[kChains] = {};
#pragma unroll
    for (int i = 0; i < T::kSums; ++i) zero[i % kChains] = fmaf(sums.sum[i], 0, zero[i % kChains]);
    const float all = (zero[0] + zero[1]) + (zero[2] + zero[3]);
    return all != all;
  }
}

/// Calls use(lane) for each lane of which it is true, by all lanes.
template <class Use>
__device__ __forceinline__ void for_lanes(bool of_lane, const Use& use) {
  for (unsigned lanes = __ballot_sync(~0u, of_lane); lanes != 0; lanes &= lanes - 1)
    use(__ffs(static_cast<int>(lanes)) - 1);
}

/// Rare: forms outputs again that are NaN, as their sums may be, of a warp's filters from k on, of which so many exist.
/// locate(filter, column): where an output is put.
template <class T, class Locate>
__device__ __forceinline__ void settle_outputs(const Arguments<typename T::Element>& a,
                                               const TileColumns<T>& columns, int64_t k,
                                               int filters, const Locate& locate) {
  const int own_lane = ptx::thread_in_block() % 32;
  __syncwarp();
#pragma unroll 1
  for (int i = 0; i < T::kShape.columns * kPatchFilters; i += 32) {
    const int column = (i + own_lane) / kPatchFilters, filter = own_lane % kPatchFilters;
    typename T::Element* const output = locate(filter, column);
    const float put = to_compute<float>(*output);
    const ColumnPlace at = columns.located(column);
    const bool doubtful = put != put && filter < filters && columns.is_output(at, column);
    for_lanes(doubtful, [&](int lane) {
      const int64_t own = k + lane % kPatchFilters;
      const float sum = columns.sum_again(own, (i + lane) / kPatchFilters);
      if (own_lane == lane) *output = a.outputs.finished(own, columns.pixel(at), sum);
    });
  }
}

/// Adds what each of a thread's two filters has (see Finisher), and bounds from below.
template <class Element, int kSums>
__device__ __forceinline__ void add_and_bound(const Outputs<Element, float>& outputs,
                                              const float (&addend)[2], float (&sums)[kSums]) {
  const float low = outputs.low();
#pragma unroll
  for (int i = 0; i < kSums; ++i) sums[i] = ptx::max_or_nan(sums[i] + addend[i / 2 % 2], low);
}

/// Makes outputs of a thread's sums where they are: without a residual, and with a short activation.
template <class Element, int kSums>
__device__ __forceinline__ void finish_at_once(const Outputs<Element, float>& outputs,
                                               const float (&bias)[2], float (&sums)[kSums]) {
#pragma unroll
  for (int i = 0; i < kSums; ++i) sums[i] = outputs.added(sums[i], 0, bias[i / 2 % 2]);
  outputs.activate_at_once(sums);
}

/// A thread's sums in slots of shared memory, each 32 from the last. Two slots at a time: each of an activation's steps
/// waits for the last one.
template <class Element>
__device__ __forceinline__ void activate_slots(const Outputs<Element, float>& outputs,
                                               float4* slots) {
#pragma unroll 1
  for (int i = 0; i < kThreadSlots; i += 2) {
    float4 &first = slots[i * 32], &second = slots[(i + 1) * 32];
    float x[8] = {first.x, first.y, first.z, first.w, second.x, second.y, second.z, second.w};
    outputs.activate(x);
    first = make_float4(x[0], x[1], x[2], x[3]);
    second = make_float4(x[4], x[5], x[6], x[7]);
  }
}

/// Of a warp's filters and its warpgroup's columns. A thread has four sums of each eight columns: of two of them,
/// neighbours, for a filter and for that eight after it.
template <class T>
class Finisher {
 public:
  using Element = typename T::Element;

  /// `k`: the warp's first filter, of which so many exist. `slots`: the warp's.
  __device__ __forceinline__ Finisher(const Arguments<Element>& a, int64_t k, int filters,
                                      float4* slots)
      : a_(a), lane_(ptx::thread_in_block() % 32), k_(k), filters_(filters), slots_(slots + lane_) {
#pragma unroll
    for (int half = 0; half < 2; ++half)
      bias_[half] = filter(lane_, half) < filters ? a.outputs.bias(k + filter(lane_, half)) : 0;
  }

  /// Whether any of the warp's sums may have to be formed again.
  __device__ __forceinline__ bool has_doubts(const Sums<T::kSums>& sums) const {
    return a_.rechecks && __any_sync(~0u, is_doubtful<T>(sums));
  }

  /// Forms doubtful sums again (see Sums), which is rare.
  __device__ __forceinline__ void settle(const TileColumns<T>& columns,
                                         Sums<T::kSums>& sums) const {
    for_slots(columns, sums, [&](float4* slots, int first) {
#pragma unroll 1
      for (int i = 0; i < 4 * kThreadSlots; ++i) {
        float& own = reinterpret_cast<float*>(&slots[i / 4 * 32])[i % 4];
        const int half = i / 2 % 2;
        const auto column = [&](int lane) { return first + i / 4 * 8 + lane % 4 * 2 + i % 2; };
        const bool exists = filter(lane_, half) < filters_ &&
                            columns.is_output(columns.located(column(lane_)), column(lane_));
        const bool doubtful =
            exists && !(fabsf(own) >= (half == 0 ? sums.doubt[0] : sums.doubt[1]));
        for_lanes(doubtful, [&](int lane) {
          const float again = columns.sum_again(k_ + filter(lane, half), column(lane));
          if (lane_ == lane) own = again;
        });
      }
    });
  }

  /// Makes outputs of sums. load(first, addends): the residual of the thread's four sums of eight columns, where
  /// there is one.
  template <class Load>
  __device__ __forceinline__ void finish(const TileColumns<T>& columns, Sums<T::kSums>& sums,
                                         const Load& load) const {
    if (a_.outputs.are_sums()) return;
    if (a_.outputs.only_adds_bias_and_clamps()) return add_and_bound(a_.outputs, bias_, sums.sum);
    if (a_.outputs.residual_data() != nullptr) {
      add(columns, sums, load);
    } else {
      add(columns, sums, [](int, float(&addends)[4]) {
        for (float& addend : addends) addend = 0;
      });
    }
    if (a_.outputs.only_clamps()) return add_and_bound(a_.outputs, {0, 0}, sums.sum);
    activate(columns, sums);
  }

  /// With the residual from global memory.
  __device__ __forceinline__ void finish(const TileColumns<T>& columns,
                                         Sums<T::kSums>& sums) const {
    const int64_t stride = a_.outputs.residual_strides()[1];
    const Element* const residual =
        a_.outputs.residual_data() + columns.first_pixel().residual + k_ * stride;
    finish(columns, sums, [&](int first, float(&addends)[4]) {
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        const int column = first + lane_ % 4 * 2 + i;
        const ColumnPlace place = columns.place(column);
        const bool is_output = columns.is_output(place, column);
#pragma unroll
        for (int half = 0; half < 2; ++half) {
          const int filter = this->filter(lane_, half);
          addends[i + 2 * half] =
              is_output && filter < filters_
                  ? to_compute<float>(residual[place.residual + filter * stride])
                  : 0;
        }
      }
    });
  }

 private:
  /// Of the warp's.
  __device__ __forceinline__ static int filter(int lane, int half) { return lane / 4 + 8 * half; }

  /// The residual and the bias.
  template <class Load>
  __device__ __forceinline__ void add(const TileColumns<T>& columns, Sums<T::kSums>& sums,
                                      const Load& load) const {
    // Several times eight columns: their residuals come together.
    constexpr int kTogether = 4;
#pragma unroll
    for (int first = 0; first < T::kShape.columns; first += 8 * kTogether) {
      if (!columns.has_any(first)) continue;
      __syncwarp();  // no loads from further on, for which there are no registers
      const int end = min(first + 8 * kTogether, T::kShape.columns);
      float addends[kTogether][4];
#pragma unroll
      for (int eight = first; eight < end; eight += 8) load(eight, addends[(eight - first) / 8]);
#pragma unroll
      for (int i = first / 2; i < end / 2; ++i) {
        const float addend = addends[(i - first / 2) / 4][i % 4];
        sums.sum[i] = a_.outputs.added(sums.sum[i], addend, bias_[i / 2 % 2]);
      }
    }
  }

  __device__ __forceinline__ void activate(const TileColumns<T>& columns,
                                           Sums<T::kSums>& sums) const {
    if (a_.outputs.activate_at_once(sums.sum)) return;
    for_slots(columns, sums, [&](float4* slots, int) { activate_slots(a_.outputs, slots); });
  }

  /// Calls use(slots of 4 sums each, the first one's column), in a loop, as what is done is long: registers have no
  /// run-time index, but slots have. Behind the last columns there is anything in them.
  template <class Use>
  __device__ __forceinline__ void for_slots(const TileColumns<T>& columns, Sums<T::kSums>& sums,
                                            const Use& use) const {
    constexpr int kColumns = 8 * kThreadSlots;
    const auto swap = [&](int at, const auto& move) {
#pragma unroll
      for (int first = 0; first < T::kShape.columns; first += kColumns) {
        if (first != at) continue;
#pragma unroll
        for (int column = first; column < min(first + kColumns, T::kShape.columns); column += 8)
          move(slots_[(column - first) / 8 * 32], &sums.sum[column / 2]);
      }
    };
#pragma unroll 1
    for (int first = 0; first < T::kShape.columns; first += kColumns) {
      if (!columns.has_any(first)) continue;
      swap(first, [](float4& slot, const float* x) { slot = make_float4(x[0], x[1], x[2], x[3]); });
      use(slots_, first);
      swap(first, [](const float4& slot, float* x) {
        x[0] = slot.x;
        x[1] = slot.y;
        x[2] = slot.z;
        x[3] = slot.w;
      });
    }
  }

  const Arguments<Element>& a_;
  int lane_;
  int64_t k_;
  int filters_;
  float4* slots_;  // the thread's
  float bias_[2];
};

}  // namespace im2win::cuda::fused
