// Windows of pixels whose channels are neighbours, on their way to a warp: as rows of their elements, tap after tap, which
// are copied as they are needed. See row_stream.cuh.
#pragma once

#include <cstdint>

#include "cuda/pointwise_mma/arguments.cuh"
#include "cuda/pointwise_mma/ptx.cuh"
#include "cuda/pointwise_mma/row_stream.cuh"
#include "cuda/pointwise_mma/slots.cuh"

namespace im2win::cuda::pointwise_mma {

/// A lane has some of the tile's windows, and copies all their words: neighbours what is side by side in memory, but in
/// shared memory rows of 32 bytes. So words of each four rows are swizzled. Where a step's words are, from the beginning of
/// a window, is the same for all: each lane finds the place of one, and tells the others.
template <class T>
class WindowStream : public Slots<WindowStream<T>, typename T::Element> {
 public:
  using Element = typename T::Element;

  __device__ __forceinline__ WindowStream(const Arguments<Element>& a, int32_t first_tile,
                                          int32_t stride)
      : WindowStream::Slots(a, first_tile, stride) {
    start_tile();
  }

  __device__ __forceinline__ void read(uint32_t slot, RowWords<T>& words) const {
    const int lane = lane_of_warp();
#pragma unroll
    for (int i = 0; i < T::kPixels / 16; ++i)
#pragma unroll
      for (int eight = 0; eight < 2; ++eight) {
        const int row = (2 * i + eight) * 8 + lane / 4;
        words[i][eight] =
            *static_cast<const fused::Pixels<uint32_t, T::kLaneWords>*>(ptx::at_shared_address(
                slot + row * kRowBytes + (lane % 4 * kLaneBytes ^ swizzle(row))));
      }
  }

 private:
  friend typename WindowStream::Slots;
  using WindowStream::Slots::a_, WindowStream::Slots::tile_, WindowStream::Slots::step_;

  static constexpr int kRowBytes = kStepChannels * T::kBytes,
                       kLaneBytes = kLaneChannels * T::kBytes;
  static_assert(kRowBytes == 32 && kLaneBytes == 8);
  static constexpr int kOwn = T::kPixels / 32;  // windows
  static constexpr int kNowhere = 1 << 30;      // no row, whatever it is added to: see kMostExtent

  /// What is added, bit by bit, to places in a row. The smallest words that are read are of eight bytes.
  __device__ __forceinline__ int swizzle(int row) const {
    return a_.input_bytes == 16 ? row / 4 % 2 * 16 : row / 4 % 4 * 8;
  }

  __device__ __forceinline__ void start_tile() {
    const Windows& windows = a_.windows;
#pragma unroll
    for (int i = 0; i < kOwn; ++i) {
      const int32_t pixel = tile_ * T::kPixels + 32 * i + lane_of_warp();
      const bool exists = pixel < a_.pixels;
      const Place at(a_, exists ? pixel : 0);
      const auto [p, q] = windows.outputs.divide(at.pixel);
      left_[i] = q * windows.stride_w - windows.padding_left;
      const int32_t top = p * windows.stride_h - windows.padding_top;
      from_[i] = a_.input + at.image * a_.input_stride[0] + top * windows.input_stride[0] +
                 left_[i] * windows.input_stride[1];
      top_[i] = exists ? top : kNowhere;
    }
  }

  __device__ __forceinline__ void copy() const {
    switch (a_.input_bytes) {
      case 16: return copy_words<16>();
      case 8: return copy_words<8>();
      case 4: return copy_words<4>();
      default: return load_elements();
    }
  }

  /// Of a window's word: its row and column, from the window's first ones, and its place in memory.
  struct Tap {
    int32_t row, column, offset;

    __device__ __forceinline__ Tap of_lane(int lane) const {
      return {__shfl_sync(~0u, row, lane), __shfl_sync(~0u, column, lane),
              __shfl_sync(~0u, offset, lane)};
    }
  };
  __device__ __forceinline__ Tap find(int32_t element) const {
    const Windows& windows = a_.windows;
    const auto [tap, channel] = windows.taps.divide(element);
    const auto [r, s] = windows.filter_columns.divide(tap);
    const int32_t row = r * windows.dilation_h, column = s * windows.dilation_w;
    const int64_t offset = row * windows.input_stride[0] + column * windows.input_stride[1];
    return {element < a_.channels ? row : kNowhere, column, static_cast<int32_t>(offset) + channel};
  }

  /// Calls act(word, i, from, exists) for the lane's words of a step, of windows i. What is not of a window, or of the
  /// input, comes as zeros.
  template <int kBytes, class Act>
  __device__ __forceinline__ void for_each_word(const Act& act) const {
    constexpr int kWords = kRowBytes / kBytes;
    const Tap own = find(step_ * kStepChannels + lane_of_warp() % kWords * (kBytes / T::kBytes));
#pragma unroll
    for (int word = 0; word < kWords; ++word) {
      const Tap tap = own.of_lane(word);
#pragma unroll
      for (int i = 0; i < kOwn; ++i) act(word, i, from_[i] + tap.offset, exists(i, tap));
    }
  }
  template <int kBytes>
  __device__ __forceinline__ void copy_words() const {
    for_each_word<kBytes>([&](int word, int i, const Element* from, bool exists) {
      if constexpr (kBytes == 16)
        copy_cached_if(exists, place(i, word * kBytes), from);
      else
        ptx::copy_async_if<kBytes>(exists, place(i, word * kBytes), from);
    });
  }
  /// Elements of 16 bits are too short for copies.
  __device__ __forceinline__ void load_elements() const {
    uint16_t elements[kStepChannels][kOwn];
    for_each_word<2>([&](int own, int i, const Element* from, bool exists) {
      elements[own][i] = ptx::load_if(exists, reinterpret_cast<const uint16_t*>(from));
    });
#pragma unroll
    for (int own = 0; own < kStepChannels; ++own)
#pragma unroll
      for (int i = 0; i < kOwn; ++i)
        *static_cast<uint16_t*>(ptx::at_shared_address(place(i, own * T::kBytes))) =
            elements[own][i];
  }

  __device__ __forceinline__ uint32_t place(int i, int byte) const {
    const int row = 32 * i + lane_of_warp();
    return this->asked() + row * kRowBytes + (byte ^ swizzle(row));
  }
  /// Whether the tap is a pixel of the input, in the lane's window i.
  __device__ __forceinline__ bool exists(int i, const Tap& tap) const {
    const auto is_below = [](int x, int y, int end) {
      return static_cast<uint32_t>(x) + static_cast<uint32_t>(y) < static_cast<uint32_t>(end);
    };
    return is_below(top_[i], tap.row, a_.windows.h) && is_below(left_[i], tap.column, a_.windows.w);
  }

  // Of what is asked for next, the lane's windows.
  const Element* from_[kOwn];
  int top_[kOwn], left_[kOwn];
};

}  // namespace im2win::cuda::pointwise_mma
