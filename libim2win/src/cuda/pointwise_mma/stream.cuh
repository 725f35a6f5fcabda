// Of planes: pixels on their way to a warp, by way of its slots, as rows of pixels of a channel.
#pragma once

#include <cstdint>

#include "cuda/pointwise_mma/arguments.cuh"
#include "cuda/pointwise_mma/slots.cuh"

namespace im2win::cuda::pointwise_mma {

/// What products take of a slot, the lane's: words of the row of each of its channels.
template <class T>
using Words = fused::Pixels<typename T::Element, T::kWord>[kLaneChannels][T::kWords];

/// A slot has a row of each channel of a step. Lanes copy neighbouring words of rows, whole sectors of memory at a time,
/// and read words of four rows, four apart: rows are swizzled, so that what is read at a time is in different banks.
template <class T>
struct Slot {
  static constexpr int kRowWords = kRowBytes / T::kWordBytes;
  static constexpr int kLaneWords = kRowWords > 32 ? kRowWords / 32 : 1;  // of a row, copied
  static constexpr int kRowsAtOnce = kLaneWords > 1 ? 1 : 32 / kRowWords;

  /// What is added, bit by bit, to places in a row. Words of 16 bytes are read eight at a time: two columns of 16 bytes,
  /// four apart, of each row. Of smaller ones it is four columns in a row, or two, of which some are the same word's.
  __device__ __forceinline__ static constexpr int swizzle(int row) {
    const int four = row / kLaneChannels;
    const int column = T::kWordBytes == 16  ? four
                       : T::kWordBytes == 8 ? four % 2 + four / 2 * 4
                                            : four * 2;
    return column * 16;
  }
};

template <class T>
class Stream : public Slots<Stream<T>, typename T::Element> {
 public:
  using Element = typename T::Element;

  __device__ __forceinline__ Stream(const Arguments<Element>& a, int32_t first_tile, int32_t stride)
      : Stream::Slots(a, first_tile, stride) {
    const int lane = lane_of_warp();
    row_ = lane % 4 * kLaneChannels * kRowBytes;
    word_ = word_of_column(lane / 4) * T::kWordBytes ^ Slot<T>::swizzle(lane % 4 * kLaneChannels);
    start_tile();
  }

  __device__ __forceinline__ void read(uint32_t slot, Words<T>& words) const {
#pragma unroll
    for (int i = 0; i < kLaneChannels; ++i)
#pragma unroll
      for (int word = 0; word < T::kWords; ++word)
        words[i][word] =
            *static_cast<const fused::Pixels<Element, T::kWord>*>(ptx::at_shared_address(
                slot + row_ + i * kRowBytes + (word_ ^ word * 8 * T::kWordBytes)));
  }

 private:
  friend typename Stream::Slots;
  using Stream::Slots::a_, Stream::Slots::tile_;

  static constexpr int kRowsAtOnce = Slot<T>::kRowsAtOnce, kLaneWords = Slot<T>::kLaneWords;
  static constexpr int kCopies = kStepChannels / kRowsAtOnce;  // of a word of a row

  /// Of the lane's copies.
  __device__ __forceinline__ static int first_row() { return lane_of_warp() / Slot<T>::kRowWords; }
  __device__ __forceinline__ static int row_word(int i) {
    return lane_of_warp() % Slot<T>::kRowWords + 32 * i;
  }

  __device__ __forceinline__ void start_tile() {
#pragma unroll
    for (int i = 0; i < kLaneWords; ++i) {
      const int32_t pixel = tile_ * T::kPixels + row_word(i) * T::kWord;
      const bool exists = pixel < a_.pixels;
      const Place at(a_, exists ? pixel : 0);
      left_[i] = exists ? a_.channels - first_row() : 0;
      from_[i] = a_.input + at.image * a_.input_stride[0] + at.pixel +
                 (left_[i] > 0 ? first_row() * a_.input_stride[1] : 0);
    }
  }

  /// Channels and pixels that are not there come as zeros.
  __device__ __forceinline__ void copy() {
    constexpr bool kIsAsync = T::kWordBytes >= 4;  // elements of 16 bits are too short for it
    const uint32_t first = this->asked() + first_row() * kRowBytes;
    const int64_t stride = a_.input_stride[1] * kRowsAtOnce;
#pragma unroll
    for (int word = 0; word < kLaneWords; ++word) {
      const auto place = [&](int i) {
        const int row = i * kRowsAtOnce;  // and the lane's first one, of those of the same swizzle
        return first + row * kRowBytes + (row_word(word) * T::kWordBytes ^ Slot<T>::swizzle(row));
      };
      const Element* from = from_[word];
      uint16_t elements[kCopies];
#pragma unroll
      for (int i = 0; i < kCopies; ++i, from += stride) {
        const bool exists = left_[word] > i * kRowsAtOnce;
        if constexpr (kIsAsync)
          ptx::copy_async_if<T::kWordBytes>(exists, place(i), from);
        else
          elements[i] = ptx::load_if(exists, reinterpret_cast<const uint16_t*>(from));
      }
      if constexpr (!kIsAsync)
#pragma unroll
        for (int i = 0; i < kCopies; ++i)
          *static_cast<uint16_t*>(ptx::at_shared_address(place(i))) = elements[i];
      from_[word] += a_.input_stride[1] * kStepChannels;
      left_[word] -= kStepChannels;
    }
  }

  int row_, word_;  // of a slot, what the lane reads first
  // Of what is asked for next.
  const Element* from_[kLaneWords];
  int left_[kLaneWords];  // channels from the lane's first row on
};

}  // namespace im2win::cuda::pointwise_mma
