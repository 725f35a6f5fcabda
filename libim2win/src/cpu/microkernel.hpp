// The register tile of the CPU's im2win algorithm: pixels times filters. One instance an
// instruction set, all from microkernel_template.hpp, chosen at run time.
#pragma once

#include <cstdint>

namespace im2win::cpu {

/// Pixels of a tile, on every instruction set. With 4 vectors of filters it takes 24 of AVX-512's
/// 32 registers for sums, with 2 it takes 12 of the 16 of AVX2 and SSE2.
constexpr int kTilePixels = 6;
constexpr int kMaxTileVectors = 4;
constexpr int kMaxVectorFloats = 16;
constexpr int kMaxTileFilters = kMaxTileVectors * kMaxVectorFloats;

/// How a window's taps lie in an im2win row: channels x columns runs of consecutive floats.
struct WindowShape {
  int64_t channels;
  int64_t channel_stride;
  int64_t columns;
  int64_t column_stride;
  int64_t run;
};

/// sums[pixel * F + f] = sum over taps of windows[pixel][tap] * filters[tap * F + f], where F is
/// the tile's filters. All kTilePixels windows are read; sums and filters are aligned to a vector.
using Microkernel = void (*)(const WindowShape& shape, const float* const* windows,
                             const float* filters, float* sums);

/// The microkernels of an instruction set.
struct MicrokernelSet {
  const char* isa;
  int vector_floats;
  int max_vectors;
  Microkernel tile[kMaxTileVectors];  // tile[v - 1]: v vectors of filters, v <= max_vectors
};

extern const MicrokernelSet baseline_microkernels;
#if defined(IM2WIN_X86)
extern const MicrokernelSet avx2_microkernels;
extern const MicrokernelSet avx512_microkernels;
#endif

/// Those of choose_isa(); throws what it throws.
const MicrokernelSet& choose_microkernels();

}  // namespace im2win::cpu
