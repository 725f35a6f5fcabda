// The input under bands on its way to shared memory as it lies, and what is read of it there.
//
// Pixels of three 16-bit channels are no words of any size: loaded element by element they take as many instructions as
// they have elements, each of which meets many lines. So a band's rows, where they are neighbours in memory, come by a
// bulk copy, some bands ahead, and are read as words, of which elements are picked.
#pragma once

#include <cuda/ptx>

#include <cstdint>

#include "cuda/fused/line_copy.cuh"
#include "cuda/fused/pipeline.cuh"
#include "cuda/fused/stem/arguments.cuh"
#include "cuda/fused/stem/staging.cuh"
#include "cuda/ptx.cuh"

namespace im2win::cuda::fused::stem {

/// By the warpgroup that stages. A stage has rows as they are in memory, as far past 16 bytes as there, and room for
/// what windows meet left of the image.
template <class T>
class RawBands {
 public:
  using Element = typename T::Element;
  using Moved = fused::Moved<T::kOperands>;

  __device__ __forceinline__ RawBands(const Arguments<Element>& a, Block<T> block)
      : a_(a), block_(block), ahead_(a) {
    for (int stage = 0; stage < kRawStages; ++stage) bring(stage, 0);
  }

  /// Until the next is there: where its first column is, be that left of the image.
  __device__ __forceinline__ uint32_t wait_full() const {
    RawStage& stage = barriers().raw[at_.stage];
    wait(&stage.full, at_.parity);
    return stage.first;
  }

  /// To the one after it. That before it has been read by all warps once the band that they made of it, `before`, is
  /// full: then another takes its place, which warps take turns to bring.
  __device__ __forceinline__ void advance(const Cursor& before) {
    if (number_ > 0) {
      const int warp = number_ % kWarps;
      if (BandRing<T>::thread() / 32 == warp) barriers().bands.wait_full(before);
      bring((at_.stage + kRawStages - 1) % kRawStages, warp);
    }
    ++number_;
    at_.advance(kRawStages);
  }

 private:
  static constexpr int kWarps = 4;

  __device__ __forceinline__ void bring(int stage, int warp) {
    if (ahead_.ended()) return;
    if (BandRing<T>::thread() / 32 == warp && ptx::elect()) copy(stage);
    ahead_.advance();
  }

  __device__ __forceinline__ void copy(int number) const {
    namespace ptx = ::cuda::ptx;
    RawStage& stage = barriers().raw[number];
    const int x = ahead_.x(), y = ahead_.y();
    const Moved* const first = ahead_.template origin<Moved>(y, x);
    char* const place = block_.raw(number) + word_shift(first);
    stage.first = im2win::cuda::ptx::shared_address(place);
    uint32_t bytes = 0;
    if (const int begin = max(y, 0), end = min(y + a_.bands.rows, a_.h); begin < end) {
      const Moved* const from = ahead_.template origin<Moved>(begin, 0);
      char* const to = place + ((begin - y) * a_.w - x) * kRawPixelBytes - word_shift(from);
      bytes = copy_line(a_, from, (end - begin) * a_.w * kRawChannels, to, &stage.full);
    }
    ptx::mbarrier_arrive_expect_tx(ptx::sem_release, ptx::scope_cta, ptx::space_shared, &stage.full,
                                   bytes);
  }

  const Arguments<Element>& a_;
  Block<T> block_;
  BandWalk<Element> ahead_;
  Cursor at_;
  int number_ = 0;
};

/// Neighbouring pixels of a row.
template <int kPixels>
class RawPixels {
  static constexpr int kWords = (kRawChannels * kPixels + 1) / 2;

 public:
  /// Of words of two elements: all bits of those in the input.
  class Mask {
   public:
    /// `columns`: a bit for each pixel.
    __device__ __forceinline__ explicit Mask(uint32_t columns) {
      const auto all = [&](int element) {
        return 0u - (columns >> min(element / kRawChannels, kPixels - 1) & 1u);
      };
#pragma unroll
      for (int i = 0; i < kWords; ++i)
        words_[i] = (all(2 * i) & 0xffffu) | (all(2 * i + 1) & 0xffff0000u);
    }
    __device__ __forceinline__ uint32_t operator[](int word) const { return words_[word]; }

   private:
    uint32_t words_[kWords];
  };

  /// From an address in shared memory on; zeros for those that are not in the input, or all if the row is not.
  __device__ __forceinline__ RawPixels(uint32_t address, const Mask& mask, bool is_inside) {
    constexpr int kRead = (kRawChannels * kPixels + 2) / 2;  // they may begin amid a word
    uint32_t words[kRead];
#pragma unroll
    for (int i = 0; i < kRead; ++i)
      words[i] = ptx::load_shared<uint32_t>((address & ~3u) + i * sizeof(uint32_t));
    const uint32_t shift = (address & 2) * 8, row = is_inside ? ~0u : 0;
#pragma unroll
    for (int i = 0; i < kWords; ++i)
      words_[i] = __funnelshift_r(words[i], words[min(i + 1, kRead - 1)], shift) & mask[i] & row;
  }

  __device__ __forceinline__ uint16_t operator()(int pixel, int channel) const {
    const int element = pixel * kRawChannels + channel;
    return static_cast<uint16_t>(words_[element / 2] >> element % 2 * 16);
  }

 private:
  uint32_t words_[kWords];
};

}  // namespace im2win::cuda::fused::stem
