// From sums in registers to runs of an output's planes in memory.
#pragma once

#include <cstdint>

#include "cuda/fused/finish.cuh"
#include "cuda/fused/stem/arguments.cuh"
#include "cuda/fused/stem/biases.cuh"
#include "cuda/fused/sum_again.cuh"
#include "cuda/fused/sums.cuh"
#include "cuda/fused/writer.cuh"
#include "cuda/numeric.cuh"
#include "cuda/ptx.cuh"

namespace im2win::cuda::fused::stem {

/// What becomes of sums on their way out: a bias of each of a thread's two filters is added, and they are bounded from
/// below.
struct Ending {
  float bias[2], low;

  __device__ __forceinline__ float operator()(float sum, int half) const {
    return ptx::max_or_nan(sum + bias[half], low);
  }
};

/// NCHW, where outputs are the sums and a bias, perhaps clamped from below. A warp puts 16 filters' pixels of a run
/// in shared memory, chunk by chunk; when the last is there, all leave, by words as large as planes are whole ones of.
/// (Bulk copies, of a filter by each lane, take longer: lanes start them one after another.)
///
/// Memory takes several times as long for a part of a sector of 32 bytes as for a whole one, and planes begin
/// anywhere in one. So what leaves are the sectors that begin in the run: it has a sector's pixels more than there
/// are to the next run.
template <class T>
class RunWriter {
 public:
  using Element = typename T::Element;

  __device__ __forceinline__ RunWriter(const Arguments<Element>& a, Block<T> block, int warpgroup)
      : a_(a), block_(block), warpgroup_(warpgroup), thread_(ptx::thread_in_block() % 128) {}

  __device__ __forceinline__ void enter(const TilePosition& first) const {
    load_biases(a_, block_, warpgroup_ * 128 + thread_, first);
  }

  /// `tile` begins with a chunk of a run, of the block's set of filters of that number.
  __device__ __forceinline__ void write(Sums<T::kSums>& sums, const TilePosition& tile, int set,
                                        InRow) const {
    __syncwarp();
    const float* const bias =
        biases(block_) + set * T::kShape.filters + first_filter() + lane() / 4;
    const Ending end = {{bias[0], bias[8]}, a_.outputs.low()};
    if (a_.rechecks && __any_sync(~0u, is_doubtful<T>(sums))) {
      put_settled(sums, tile, end);
    } else {
      put(sums, tile.q, end);
    }
    if (tile.q + T::kShape.columns < a_.tile.columns) return;
    __syncwarp();
    send<kWord>(tile);
  }

  __device__ __forceinline__ void finish() const {}

 private:
  static constexpr bool kHalves = sizeof(Element) == 2;
  static constexpr int kWord = kUnitBytes / static_cast<int>(sizeof(Element));
  static constexpr int kSector = run_overlap(sizeof(Element));
  static constexpr int kPitch = run_pitch(T::kShape);

  __device__ __forceinline__ int lane() const { return thread_ % 32; }
  /// Of the warp, in its set.
  __device__ __forceinline__ int first_filter() const { return thread_ / 32 * kPatchFilters; }
  /// The warp's, [filter][pixel of the run].
  __device__ __forceinline__ Element* patch() const {
    return reinterpret_cast<Element*>(dynamic_shared_memory + block_.layout.patches) +
           (warpgroup_ * 4 + thread_ / 32) * kPatchFilters * kPitch;
  }
  /// Of the group, the warp's first, and how many it has.
  __device__ __forceinline__ int in_group(const TilePosition& tile) const {
    return tile.filter_tile * T::kShape.filters + first_filter();
  }
  __device__ __forceinline__ int filters(const TilePosition& tile) const {
    return min(static_cast<int>(a_.filters_per_group) - in_group(tile), kPatchFilters);
  }
  __device__ __forceinline__ int64_t first_k(const TilePosition& tile) const {
    return tile.group * a_.filters_per_group + in_group(tile);
  }

  /// The chunk that begins at that pixel of the run. `end`: what becomes of a sum of the thread's filter or the one
  /// eight after it.
  template <class End>
  __device__ __forceinline__ void put(const Sums<T::kSums>& sums, int first, const End& end) const {
    if constexpr (kHalves) {
      // A matrix is eight pixels of eight filters: two times eight of both.
      const uint32_t to =
          ptx::shared_address(patch() + lane() % 16 * kPitch + first + lane() / 16 * kWord);
#pragma unroll
      for (int column = 0; column < T::kShape.columns; column += 2 * kWord) {
        uint32_t pairs[4];
#pragma unroll
        for (int i = 0; i < 4; ++i) {
          const float* const sum = &sums.sum[column / 2 + 2 * i];
          pairs[i] = packed_pair<Element>(end(sum[0], i % 2), end(sum[1], i % 2));
        }
        ptx::store_matrices(to + column * static_cast<uint32_t>(sizeof(Element)), pairs);
      }
    } else {
      Element* const to = patch() + lane() / 4 * kPitch + first + lane() % 4 * 2;
#pragma unroll
      for (int i = 0; i < T::kShape.columns / 8; ++i)
#pragma unroll
        for (int half = 0; half < 2; ++half) {
          const float* const sum = &sums.sum[4 * i + 2 * half];
          *reinterpret_cast<float2*>(to + half * 8 * kPitch + 8 * i) = {end(sum[0], half),
                                                                        end(sum[1], half)};
        }
    }
  }

  /// Rare: with sums formed again that are in doubt.
  __device__ __forceinline__ void put_settled(const Sums<T::kSums>& sums, const TilePosition& tile,
                                              const Ending& end) const {
    if constexpr (kHalves) {
      put(sums, tile.q, end);  // NaN of sums stays NaN
    } else {
      put(sums, tile.q, [](float sum, int) { return sum; });
    }
    __syncwarp();
#pragma unroll 1
    for (int i = 0; i < kPatchFilters * T::kShape.columns; i += 32) {
      const int filter = (i + lane()) / T::kShape.columns;
      const int pixel = tile.q + (i + lane()) % T::kShape.columns, at = tile.p * a_.q + pixel;
      const bool later = filter >= 8;  // of the eight after a thread's first filter
      const auto of_filter = [&](const float(&x)[2]) {
        const float first = __shfl_sync(~0u, x[0], filter % 8 * 4);
        const float second = __shfl_sync(~0u, x[1], filter % 8 * 4);
        return later ? second : first;
      };
      const float doubt = of_filter(sums.doubt), bias = of_filter(end.bias);
      Element* const own = patch() + filter * kPitch + pixel;
      float sum = to_compute<float>(*own);
      const bool doubtful = filter < filters(tile) && at < a_.pixels && !(fabsf(sum) >= doubt);
      for_lanes(doubtful, [&](int of) {
        const int64_t k = first_k(tile) + __shfl_sync(~0u, filter, of);
        const auto [p, q] = a_.row_pixels.divide(__shfl_sync(~0u, at, of));
        const float again = sum_again(a_, tile.group, k, tile.n, p, q);
        if (lane() == of) sum = again;
      });
      if (doubtful || !kHalves) *own = from_compute<Element>(ptx::max_or_nan(sum + bias, end.low));
    }
  }

  /// The pixels of a filter's run that leave, and where the run is in memory.
  struct Run {
    Element* to;
    int begin, end;
  };
  __device__ __forceinline__ Run run_of(const TilePosition& tile, int filter) const {
    const int first = tile.p * a_.q;
    Element* const to = a_.outputs.data() + tile.n * a_.outputs.strides()[0] +
                        (first_k(tile) + filter) * a_.outputs.strides()[1] + first;
    const auto element = static_cast<int>(reinterpret_cast<uintptr_t>(to) / sizeof(Element));
    const int sector = -element & (kSector - 1);  // where one begins
    return {to, first == 0 ? 0 : sector, min(a_.q + sector, a_.pixels - first)};
  }

  /// By words of so many pixels, or as many fewer as planes are whole words of.
  template <int kPixels>
  __device__ __forceinline__ void send(const TilePosition& tile) const {
    if constexpr (kPixels > 1)
      if (a_.run_word < kPixels) return send<kPixels / 2>(tile);
    send_words<kPixels>(tile);
  }

  template <int kPixels>
  __device__ __forceinline__ void send_words(const TilePosition& tile) const {
    using Word = Pixels<Element, kPixels>;
    constexpr int kWords = (kPitch + 32 * kPixels - 1) / (32 * kPixels);  // of a lane
#pragma unroll 4
    for (int filter = 0; filter < filters(tile); ++filter) {
      const Run run = run_of(tile, filter);
      const Element* const from = patch() + filter * kPitch;
      const int first = run.begin + lane() * kPixels;
#pragma unroll
      for (int i = 0; i < kWords; ++i)
        if (const int at = first + i * 32 * kPixels; at < run.end)
          ptx::store_streaming(reinterpret_cast<Word*>(run.to + at),
                               *reinterpret_cast<const Word*>(from + at));
    }
  }

  const Arguments<Element>& a_;
  Block<T> block_;
  int warpgroup_;
  int thread_;  // of the warpgroup
};

}  // namespace im2win::cuda::fused::stem
