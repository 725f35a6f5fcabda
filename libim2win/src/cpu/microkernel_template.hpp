// The body of every microkernel, in portable vectors. The including file is compiled for one
// instruction set and defines, before it includes this:
//   IM2WIN_VECTOR_BYTES  the width of its registers
//   IM2WIN_MAX_VECTORS   vectors of filters that fit in registers beside the sums' other factors
// and then exports a MicrokernelSet of microkernel<1> .. microkernel<IM2WIN_MAX_VECTORS>.
//
// Everything here has internal linkage and nothing but microkernel.hpp is included: an inline
// function compiled for one instruction set must not be what the linker gives to the others.

#include "cpu/microkernel.hpp"

namespace im2win::cpu {
namespace {

typedef float Vector __attribute__((vector_size(IM2WIN_VECTOR_BYTES)));
constexpr int kVectorFloats = IM2WIN_VECTOR_BYTES / sizeof(float);

template <int kVectors>
void microkernel(const WindowShape& shape, const float* const* windows, const float* filters,
                 float* sums) {
  Vector sum[kTilePixels][kVectors] = {};
  const auto* filter = reinterpret_cast<const Vector*>(filters);
  for (int64_t c = 0; c < shape.channels; ++c) {
    for (int64_t column = 0; column < shape.columns; ++column) {
      const int64_t start = c * shape.channel_stride + column * shape.column_stride;
      const float* window[kTilePixels];
      for (int pixel = 0; pixel < kTilePixels; ++pixel) window[pixel] = windows[pixel] + start;

      for (int64_t tap = 0; tap < shape.run; ++tap) {
#pragma GCC unroll 6
        for (int pixel = 0; pixel < kTilePixels; ++pixel) {
          const Vector input = window[pixel][tap] - Vector{};  // broadcast
#pragma GCC unroll 4
          for (int v = 0; v < kVectors; ++v) sum[pixel][v] += input * filter[v];
        }
        filter += kVectors;
      }
    }
  }
  auto* result = reinterpret_cast<Vector*>(sums);
  for (int pixel = 0; pixel < kTilePixels; ++pixel)
    for (int v = 0; v < kVectors; ++v) result[pixel * kVectors + v] = sum[pixel][v];
}

}  // namespace
}  // namespace im2win::cpu
