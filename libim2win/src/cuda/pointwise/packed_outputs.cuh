// Outputs that are sums with a bias, perhaps bounded from below: packed in shared memory, and from there to where they
// belong.
#pragma once

#include <cuda/ptx>

#include <cstdint>

#include "cuda/fused/matrices.cuh"
#include "cuda/fused/tile.hpp"
#include "cuda/pointwise/arguments.cuh"
#include "cuda/pointwise/walk.cuh"
#include "cuda/ptx.cuh"

namespace im2win::cuda::pointwise {

/// A thread's sums of 64 pixels, set by set (see fused::Wgmma).
template <class T>
using Sums = float[T::kShape.sets][T::kShape.columns / 2];

/// Of a warp, which has all of its block's filters of 16 pixels.
template <class T>
class PackedOutputs {
 public:
  using Element = typename T::Element;

  /// `room`: the warp's. `filters`: of the block's, those that exist.
  __device__ __forceinline__ PackedOutputs(const Arguments<Element>& a, char* room,
                                           int first_filter, int filters)
      : a_(a),
        room_(room),
        first_filter_(first_filter),
        filters_(filters),
        lane_(ptx::thread_in_block() % 32) {}

  __device__ __forceinline__ void write(const Sums<T>& sums, int32_t pixel) const {
    wait_until_read();
    __syncwarp();
    if (a_.leaving == Leaving::kRun) {
      put<true>(sums);
    } else {
      put<false>(sums);
    }
    ::cuda::ptx::fence_proxy_async(::cuda::ptx::space_shared);
    __syncwarp();
    const int pixels = min(a_.pixels - pixel, kWarpPixels);
    if (pixels <= 0) return;
    switch (a_.leaving) {
      case Leaving::kBoxes: return send_boxes(pixel);
      case Leaving::kRun: return send_run(pixel, pixels);
      case Leaving::kPairs: return send_pairs(pixel, pixels);
      default: break;
    }
    switch (a_.word) {
      case 4: return send_words<4>(pixel, pixels);
      case 2: return send_words<2>(pixel, pixels);
      default: send_words<1>(pixel, pixels);
    }
  }

  /// What has left has been read: the room is free.
  __device__ __forceinline__ void wait_until_read() const {
    if (lane_ == 0) ::cuda::ptx::cp_async_bulk_wait_group_read(::cuda::ptx::n32_t<0>{});
  }

 private:
  static constexpr int kEights = T::kShape.columns / 8;
  static constexpr int kElementBytes = static_cast<int>(sizeof(Element));

  /// Where an element is in boxes, whose rows are swizzled: eight rows' words of the same filters have different banks.
  __device__ __forceinline__ const char* place(int pixel, int filter) const {
    const int in_row = filter % kBoxFilters * kElementBytes ^ pixel % 8 * fused::kUnitBytes;
    return room_ + filter / kBoxFilters * kBoxBytes + pixel * kRowBytes + in_row;
  }
  __device__ __forceinline__ uint16_t element(int pixel, int filter) const {
    return *reinterpret_cast<const uint16_t*>(place(pixel, filter));
  }

  /// As rows of boxes, or as a run of pixels. Lane i gives the place of row i mod 16 of eight filters, or of the next
  /// eight.
  template <bool kRun>
  __device__ __forceinline__ void put(const Sums<T>& sums) const {
    const int row = lane_ % 16, next = lane_ / 16;
    const uint32_t room = ptx::shared_address(room_);
    const uint32_t in_box = room + row * kRowBytes, in_run = room + row * filters_ * kElementBytes;
    // For filters that do not exist, which would be the next pixel's.
    const uint32_t nowhere = room + T::kShape.output_bytes() - (16 - row) * fused::kUnitBytes;
    const float low = a_.outputs.low();
    const float* const biases = shared<T>().biases + lane_ % 4 * 2;
#pragma unroll
    for (int eight = 0; eight < T::kShape.sets * kEights; eight += 2) {
      uint32_t pairs[4];
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        const float2 bias = *reinterpret_cast<const float2*>(biases + (eight + i) * 8);
        const float* const sum = &sums[(eight + i) / kEights][(eight + i) % kEights * 4];
#pragma unroll
        for (int half = 0; half < 2; ++half)
          pairs[2 * i + half] =
              fused::packed_pair<Element>(ptx::max_or_nan(sum[2 * half] + bias.x, low),
                                          ptx::max_or_nan(sum[2 * half + 1] + bias.y, low));
      }
      const int unit = eight + next;
      if constexpr (kRun) {
        const bool exists = unit * 8 < filters_;
        ptx::store_matrices(exists ? in_run + unit * fused::kUnitBytes : nowhere, pairs);
      } else {
        ptx::store_matrices(
            in_box + eight / 8 * kBoxBytes + ((eight % 8 + next) ^ row % 8) * fused::kUnitBytes,
            pairs);
      }
    }
  }

  __device__ __forceinline__ void send_boxes(int32_t pixel) const {
    namespace ptx = ::cuda::ptx;
    if (lane_ != 0) return;
    for (int filter = 0; filter < filters_; filter += kBoxFilters) {
      const int32_t at[] = {first_filter_ + filter, pixel, 0, 0};
      ptx::cp_async_bulk_tensor(ptx::space_global, ptx::space_shared, &a_.output_boxes, at,
                                room_ + filter / kBoxFilters * kBoxBytes);
    }
    ptx::cp_async_bulk_commit_group();
  }

  __device__ __forceinline__ void send_run(int32_t pixel, int pixels) const {
    namespace ptx = ::cuda::ptx;
    if (lane_ != 0) return;
    ptx::cp_async_bulk(ptx::space_global, ptx::space_shared, output(pixel), room_,
                       static_cast<uint32_t>(pixels * filters_ * kElementBytes));
    ptx::cp_async_bulk_commit_group();
  }

  /// An odd number of filters: of two pixels at a time, whose word in the middle is of both.
  __device__ __forceinline__ void send_pairs(int32_t pixel, int pixels) const {
    const int half = filters_ / 2, filter = 2 * lane_;
    auto* to = reinterpret_cast<uint32_t*>(output(pixel));
#pragma unroll 2
    for (int row = 0; row < pixels; row += 2, to += filters_) {
      const char* const even = place(row, filter);
      const char* const first = place(row + 1, filter + 1);
      const char* const second = place(row + 1, filter + 2);
#pragma unroll
      for (int box = 0; box < T::kShape.boxes(); ++box) {
        const int at = lane_ + box * kBoxFilters / 2, begin = box * kBoxBytes;
        if (at >= half) break;
        to[at] = *reinterpret_cast<const uint32_t*>(even + begin);
        if (row + 1 < pixels)
          to[half + 1 + at] = *reinterpret_cast<const uint16_t*>(first + begin) |
                              uint32_t{*reinterpret_cast<const uint16_t*>(second + begin)} << 16;
      }
      if (lane_ != 0) continue;
      const uint32_t last = element(row, filters_ - 1);
      if (row + 1 < pixels) {
        to[half] = last | uint32_t{element(row + 1, 0)} << 16;
      } else {
        *reinterpret_cast<uint16_t*>(to + half) = static_cast<uint16_t>(last);
      }
    }
  }

  template <int kWord>
  __device__ __forceinline__ void send_words(int32_t pixel, int pixels) const {
    if (a_.leaving == Leaving::kFewWords) {
      send_few<kWord>(pixel, pixels);
    } else {
      send_rows<kWord>(pixel, pixels);
    }
  }

  /// Lanes have neighbouring words of several pixels.
  template <int kWord>
  __device__ __forceinline__ void send_few(int32_t pixel, int pixels) const {
    using Word = fused::Pixels<Element, kWord>;
    Element* const to = output(pixel);
#pragma unroll 2
    for (Walk at(a_.row_words, lane_); at.row < pixels; at.advance())
      *reinterpret_cast<Word*>(to + at.row * a_.output_stride + at.word * kWord) =
          *reinterpret_cast<const Word*>(place(at.row, at.word * kWord));
  }

  /// Lanes have words of a pixel, or of two.
  template <int kWord>
  __device__ __forceinline__ void send_rows(int32_t pixel, int pixels) const {
    using Word = fused::Pixels<Element, kWord>;
    constexpr int kLanes = kWord == 4 ? kBoxFilters / kWord : 32, kFilters = kLanes * kWord;
    const int filter = lane_ % kLanes * kWord;
    Element* const to = output(pixel) + filter;
#pragma unroll 2
    for (int row = lane_ / kLanes; row < pixels; row += 32 / kLanes)
#pragma unroll
      for (int first = 0; first < T::kShape.filters(); first += kFilters)
        if (first + filter < filters_)
          *reinterpret_cast<Word*>(to + row * a_.output_stride + first) =
              *reinterpret_cast<const Word*>(place(row, first + filter));
  }

  __device__ __forceinline__ Element* output(int32_t pixel) const {
    return a_.outputs.data() + pixel * a_.output_stride + first_filter_;
  }

  const Arguments<Element>& a_;
  char* room_;
  int first_filter_, filters_, lane_;
};

}  // namespace im2win::cuda::pointwise
