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

/// NCHW, where outputs are made in registers (see finishes_in_registers). A warp puts 16 filters' pixels of a run
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
      : a_(a),
        block_(block),
        warpgroup_(warpgroup),
        thread_(ptx::thread_in_block() % 128),
        are_sums_(a.outputs.are_sums()) {}

  __device__ __forceinline__ void enter(const TilePosition& first) const {
    load_biases(a_, block_, warpgroup_ * 128 + thread_, first);
  }

  /// Of a chunk of a run, of the block's set of filters of that number, to shared memory.
  __device__ __forceinline__ void put(Sums<T::kSums>& sums, const TilePosition& tile, int chunk,
                                      int set) const {
    const int first = chunk * T::kShape.columns;
    if (first == 0) __syncwarp();  // which reads the run before
    const float* const biases = this->biases(set);
    const float bias[2] = {biases[0], biases[8]};
    const bool has_doubts = a_.rechecks && __any_sync(~0u, is_doubtful<T>(sums));
    // What is common lies together: instructions that are jumped over take time, too.
    if (has_doubts || !a_.outputs.only_adds_bias_and_clamps()) {
      if (kHalves || !has_doubts) finish_at_once(a_.outputs, bias, sums.sum);  // NaN stays NaN
      put(sums, first);
      if (has_doubts) settle_put(sums, tile, first);
    } else {
      if (!are_sums_) add_and_bound(a_.outputs, bias, sums.sum);
      put(sums, first);
    }
  }

  /// All chunks of it, by words as large as planes are whole ones of.
  __device__ __forceinline__ void send(const TilePosition& tile) const {
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

  /// Of the set, the lane's first filter's; that eight after it is its second.
  __device__ __forceinline__ const float* biases(int set) const {
    return stem::biases(block_) + set * T::kShape.filters + first_filter() + lane() / 4;
  }

  /// The chunk that begins at that pixel of the run.
  __device__ __forceinline__ void put(const Sums<T::kSums>& sums, int first) const {
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
          pairs[i] = packed_pair<Element>(sum[0], sum[1]);
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
          *reinterpret_cast<float2*>(to + half * 8 * kPitch + 8 * i) = {sum[0], sum[1]};
        }
    }
  }

  /// Rare: forms sums again that are in doubt, and makes outputs of all where what has been put are sums.
  __device__ __forceinline__ void settle_put(const Sums<T::kSums>& sums, const TilePosition& tile,
                                             int first) const {
    __syncwarp();
#pragma unroll 1
    for (int i = 0; i < kPatchFilters * T::kShape.columns; i += 32) {
      const int filter = (i + lane()) / T::kShape.columns;
      const int pixel = first + (i + lane()) % T::kShape.columns, at = tile.p * a_.q + pixel;
      const float first_doubt = __shfl_sync(~0u, sums.doubt[0], filter % 8 * 4);
      const float later_doubt = __shfl_sync(~0u, sums.doubt[1], filter % 8 * 4);
      const float doubt = filter < 8 ? first_doubt : later_doubt;
      Element* const own = patch() + filter * kPitch + pixel;
      float sum = to_compute<float>(*own);
      const bool exists = filter < filters(tile) && at < a_.pixels;
      const bool doubtful = exists && !(fabsf(sum) >= doubt);
      for_lanes(doubtful, [&](int of) {
        const int64_t k = first_k(tile) + __shfl_sync(~0u, filter, of);
        const auto [p, q] = a_.row_pixels.divide(__shfl_sync(~0u, at, of));
        const float again = sum_again(a_, tile.group, k, tile.n, p, q);
        if (lane() == of) sum = again;
      });
      if (doubtful || (exists && !kHalves))
        *own = a_.outputs.finished(first_k(tile) + filter, {}, sum);
    }
  }

  /// By words of so many pixels, or as many fewer as planes are whole words of.
  template <int kPixels>
  __device__ __forceinline__ void send(const TilePosition& tile) const {
    if constexpr (kPixels > 1)
      if (a_.run_word < kPixels) return send<kPixels / 2>(tile);
    send_words<kPixels>(tile);
  }

  /// From one filter to the next by additions alone: where runs begin in memory, and where in these a sector does.
  template <int kPixels>
  __device__ __forceinline__ void send_words(const TilePosition& tile) const {
    using Word = Pixels<Element, kPixels>;
    constexpr int kTurn = 32 * kPixels, kTurns = (kPitch + kTurn - 1) / kTurn;
    const int first = tile.p * a_.q, left = a_.pixels - first, filters = this->filters(tile);
    const uint32_t cut =
        first == 0 ? 0 : kSector - 1;  // an image's first run has no others before it
    const int64_t stride = a_.outputs.strides()[1];
    Element* run =
        a_.outputs.data() + tile.n * a_.outputs.strides()[0] + first_k(tile) * stride + first;
    const Element* from = patch();
#pragma unroll 8
    for (int filter = 0; filter < filters; ++filter, run += stride, from += kPitch) {
      const auto before = static_cast<int>(reinterpret_cast<uintptr_t>(run) / sizeof(Element));
      const int sector = -before & (kSector - 1);
      const int at = (sector & cut) + lane() * kPixels, end = min(a_.q + sector, left);
#pragma unroll
      for (int i = 0; i < kTurns; ++i)
        if (at + i * kTurn < end)
          ptx::store_streaming(reinterpret_cast<Word*>(run + at) + i * 32,
                               reinterpret_cast<const Word*>(from + at)[i * 32]);
    }
  }

  const Arguments<Element>& a_;
  Block<T> block_;
  int warpgroup_;
  int thread_;  // of the warpgroup
  bool are_sums_;
};

}  // namespace im2win::cuda::fused::stem
