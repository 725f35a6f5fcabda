// A warp's sums: of kPositions positions along strips, in each of their kStripRows rows, and of the filters of a set,
// or of two sets of eight, so that pixels leave by 32 bytes.
#pragma once

#include <cstdint>
#include <type_traits>

#include "cuda/grouped/arguments.cuh"

namespace im2win::cuda::grouped {

/// What a kernel is compiled for: so many eights of filters a set.
template <class Element_, int kSetEights_>
struct Shape {
  using Element = Element_;
  static constexpr int kSetEights = kSetEights_, kSets = kSetEights == 1 ? 2 : 1;
  static constexpr int kEights = kSets * kSetEights, kFilters = 8 * kEights;
};

/// d += a * b, 16 positions by 8 filters by 16 channels.
template <class Element>
__device__ __forceinline__ void multiply(float* d, const uint32_t (&a)[4], const uint32_t (&b)[2]) {
  if constexpr (std::is_same_v<Element, __half>)
    ptx::mma_half(d, a, b[0], b[1]);
  else
    ptx::mma_bfloat16(d, a, b[0], b[1]);
}

/// As mma has them: of row i and eight e, a lane has filters lane mod 4 * 2 on of positions lane / 4 and 8 + lane / 4.
template <class T>
using Sums = float[kStripRows][T::kEights][4];

/// Both words of a step of the warp's eights of filters. `lane_filter`: see filter_address().
template <class T>
__device__ __forceinline__ void load_filter_words(uint32_t lane_filter, int filter_pitch,
                                                  uint32_t (&b)[T::kEights][2]) {
#pragma unroll
  for (int i = 0; i + 1 < T::kEights; i += 2) {
    uint32_t x[4];
    ptx::load_matrices(lane_filter + i * 8 * filter_pitch, x);
    b[i][0] = x[0], b[i][1] = x[1], b[i + 1][0] = x[2], b[i + 1][1] = x[3];
  }
  if constexpr (T::kEights % 2 != 0)
    ptx::load_matrices(lane_filter + (T::kEights - 1) * 8 * filter_pitch, b[T::kEights - 1]);
}

/// What a lane addresses for load_filter_words(): of the first 16 filters from one on, a word of the first step.
template <class Element>
__device__ __forceinline__ uint32_t filter_address(const Arguments<Element>& a, int filter) {
  return ptx::shared_address(dynamic_shared_memory) + a.layout.filters_begin +
         (filter + lane() / 16 * 8 + lane() % 8) * a.layout.filter_pitch +
         lane() / 8 % 2 * kWordBytes;
}

/// From a set's channels to the next one's.
template <class T>
__device__ __forceinline__ int set_bytes(const Arguments<typename T::Element>& a) {
  return a.set.channels * static_cast<int>(sizeof(typename T::Element));
}

/// Adds all taps. `pixel`: where the lane's position's window begins, lane mod 16, in the strip's first row. Pixels are
/// loaded once for kTapRows rows of taps: row y of them is tap row r's of output row y - r.
template <class T, int kTapRows>
__device__ __forceinline__ void add_products(const Arguments<typename T::Element>& a,
                                             uint32_t pixel, uint32_t filter, Sums<T>& sums) {
  const int* offset = word_offsets() + lane() / 16;
  const int row_pitch = a.stride_h * a.layout.row_pitch();
  const int filter_row = a.layout.steps * 2 * kWordBytes;
  int next = *offset;
#pragma unroll 1
  for (int step = 0; step < a.layout.steps; ++step, filter += 2 * kWordBytes) {
    uint32_t at = pixel + next;
    offset += 2;
    next = *offset;
    uint32_t b[kTapRows][T::kEights][2];
#pragma unroll
    for (int r = 0; r < kTapRows; ++r)
      load_filter_words<T>(filter + r * filter_row, a.layout.filter_pitch, b[r]);
#pragma unroll
    for (int y = 0; y < kStripRows + kTapRows - 1; ++y, at += row_pitch) {
#pragma unroll
      for (int set = 0; set < T::kSets; ++set) {
        uint32_t x[4];
        ptx::load_matrices(at + set * set_bytes<T>(a), x);
#pragma unroll
        for (int r = 0; r < kTapRows; ++r) {
          if (y < r || y - r >= kStripRows) continue;
#pragma unroll
          for (int eight = 0; eight < T::kSetEights; ++eight) {
            const int i = set * T::kSetEights + eight;
            multiply<typename T::Element>(sums[y - r][i], x, b[r][i]);
          }
        }
      }
    }
  }
}

}  // namespace im2win::cuda::grouped
