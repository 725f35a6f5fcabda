// Lines of an input that is no words of 16 bytes, element by element, to where boxes would have put them.
#pragma once

#include <cstdint>

#include "cuda/fused/arguments.cuh"
#include "cuda/fused/block.cuh"
#include "cuda/fused/operands.cuh"
#include "cuda/fused/pipeline.cuh"
#include "cuda/fused/raw.cuh"
#include "cuda/fused/slabs.cuh"
#include "cuda/ptx.cuh"

namespace im2win::cuda::fused {

/// By all threads that stage, slab after slab. Each tells of what it has put, and each that multiplies of what it has read.
template <class T>
class GatheredLines {
 public:
  using Element = typename T::Element;

  __device__ __forceinline__ GatheredLines(const Arguments<Element>& a, Block<T> block)
      : a_(a), block_(block), at_(a) {}

  __device__ __forceinline__ void run() {
    wait_for_inputs(a_);
    for (; !at_.ended(a_); at_.advance(a_)) {
      barriers().slabs.wait_empty(cursor_);
      gather(reinterpret_cast<float*>(block_.slab(cursor_.stage)));
      barriers().slabs.arrive_full(cursor_.stage);
      cursor_.advance(a_.tile.slab_stages);
    }
  }

 private:
  /// Of a slab, in the order of boxes: [phase][image][row][channel][pixel].
  __device__ __forceinline__ void gather(float* slab) const {
    const RawLines& lines = a_.tile.raw;
    const int count = lines.boxes() * a_.raw_phase;
    for (int i = static_cast<int>(threadIdx.x); i < count; i += staging_threads<T>(a_.tile)) {
      const int line = i / lines.pitch, channel = line % lines.box_channels();
      const int of_image = line / lines.box_channels(), row = of_image % lines.rows;
      const int image = of_image / lines.rows % a_.tile.images;
      const int phase = of_image / lines.rows / a_.tile.images;
      slab[i] = __uint_as_float(
          ptx::round_to_tf32(lines.apart ? of_row(channel, image, row, i % lines.pitch)
                                         : of_plane(phase, channel, image, i % lines.pitch)));
    }
  }

  __device__ __forceinline__ int first_channel() const {
    return at_.slab.chunk * a_.tile.units * a_.tile.unit_channels;
  }

  __device__ __forceinline__ float of_row(int channel, int image, int row, int pixel) const {
    const auto [phase, down] = phase_of_row(a_, at_.slab.tap_group);
    const int y = (at_.tile.p + down + row) * a_.stride_h + phase;
    const int x = LinePixels<Element>(a_, at_.tile, 0).begin(kWord) + pixel;
    return element(channel, image, y, x);
  }

  /// Lines begin as far past a word as RawUnits looks for them.
  __device__ __forceinline__ float of_plane(int phase, int channel, int image, int pixel) const {
    const int bits = a_.tile.raw.phase_bits, plane = a_.h * a_.w;
    const int first = LinePixels<Element>(a_, at_.tile, at_.slab.tap_group).first(0);
    const auto start = static_cast<uint32_t>(origin<T>(a_, at_.tile, 0) + first - a_.input);
    const int shift = static_cast<int>((start + phase * a_.raw_shift) % kWord);
    const int at = first - shift + pixel;
    if (at < 0 || at >= plane) return 0;
    return element((channel << bits) + phase, image, at / a_.w, at % a_.w);
  }

  /// Or zero.
  __device__ __forceinline__ float element(int channel, int image, int y, int x) const {
    const bool exists = first_channel() + channel < a_.channels && at_.tile.n + image < a_.n &&
                        y >= 0 && y < a_.h && x >= 0 && x < a_.w;
    const Element* const from = origin<T>(a_, at_.tile, first_channel() + channel) +
                                image * a_.stride_n + int64_t{y} * a_.row_stride + x;
    return ptx::load_if(exists, from);
  }

  static constexpr int kWord = kUnitBytes / static_cast<int>(sizeof(float));

  const Arguments<Element>& a_;
  Block<T> block_;
  SlabWalk<Element> at_;
  Cursor cursor_;
};

}  // namespace im2win::cuda::fused
