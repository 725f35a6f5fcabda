// Where channels are neighbours: pixels on their way to a warp, as rows of channels. See stream.cuh.
#pragma once

#include <cstdint>

#include "cuda/pointwise_mma/arguments.cuh"
#include "cuda/pointwise_mma/slots.cuh"

namespace im2win::cuda::pointwise_mma {

/// What products take of a slot, the lane's channels: of each sixteen pixels, pixel lane / 4, and the one eight after it.
template <class T>
using RowWords = fused::Pixels<uint32_t, T::kLaneWords>[T::kPixels / 16][2];

/// A slot has a step's channels of each pixel, one after the other: four lanes read a row, and neighbours neighbours.
template <class T>
class RowStream : public Slots<RowStream<T>, typename T::Element> {
 public:
  using Element = typename T::Element;

  __device__ __forceinline__ RowStream(const Arguments<Element>& a, int32_t first_tile,
                                       int32_t stride)
      : RowStream::Slots(a, first_tile, stride) {}

  __device__ __forceinline__ void read(uint32_t slot, RowWords<T>& words) const {
    const int lane = lane_of_warp();
    const uint32_t own = slot + lane / 4 * kRowBytes + lane % 4 * kLaneChannels * T::kBytes;
#pragma unroll
    for (int i = 0; i < T::kPixels / 16; ++i)
#pragma unroll
      for (int eight = 0; eight < 2; ++eight)
        words[i][eight] = *static_cast<const fused::Pixels<uint32_t, T::kLaneWords>*>(
            ptx::at_shared_address(own + (2 * i + eight) * 8 * kRowBytes));
  }

 private:
  friend typename RowStream::Slots;
  using RowStream::Slots::a_, RowStream::Slots::tile_, RowStream::Slots::step_;

  static constexpr int kRowBytes = kStepChannels * T::kBytes;

  __device__ __forceinline__ void start_tile() const {}
  __device__ __forceinline__ void copy() const {
    switch (a_.input_bytes) {
      case 16: return copy_words<16>();
      case 8: return copy_words<8>();
      case 4: return copy_words<4>();
      default: return load_elements();
    }
  }

  /// Channels and pixels that are not there come as zeros.
  template <int kBytes>
  __device__ __forceinline__ void copy_words() const {
    each_word<kBytes>([](uint32_t to, const Element* from, bool exists) {
      ptx::copy_async_if<kBytes>(exists, to, from);
    });
  }
  __device__ __forceinline__ void load_elements() const {
    if constexpr (T::kBytes == 2)
      each_word<2>([](uint32_t to, const Element* from, bool exists) {
        *static_cast<uint16_t*>(ptx::at_shared_address(to)) =
            ptx::load_if(exists, reinterpret_cast<const uint16_t*>(from));
      });
  }

  template <int kBytes, class Do>
  __device__ __forceinline__ void each_word(const Do& act) const {
    constexpr int kRowWords = kRowBytes / kBytes, kLanes = kRowWords < 32 ? kRowWords : 32;
    constexpr int kRowsAtOnce = 32 / kLanes;
    static_assert(kRowWords <= 32);
    const int lane = lane_of_warp();
    const int row = lane / kLanes, at = lane % kLanes * (kBytes / T::kBytes);
    const int32_t pixel = tile_ * T::kPixels + row, channel = step_ * kStepChannels + at;
    const bool is_channel = channel < a_.channels;
    const Element* from = a_.input + (is_channel ? pixel * a_.input_stride[0] + channel : 0);
    const int64_t stride = is_channel ? kRowsAtOnce * a_.input_stride[0] : 0;
    const uint32_t to = this->asked() + row * kRowBytes + at * T::kBytes;
#pragma unroll
    for (int i = 0; i < T::kPixels / kRowsAtOnce; ++i, from += stride)
      act(to + i * kRowsAtOnce * kRowBytes, from,
          is_channel && pixel + i * kRowsAtOnce < a_.pixels);
  }
};

}  // namespace im2win::cuda::pointwise_mma
