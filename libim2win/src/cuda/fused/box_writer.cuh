// From sums in registers to boxes of outputs in shared memory, which leave by themselves (boxes.cuh).
#pragma once

#include <cstdint>

#include "cuda/fused/arguments.cuh"
#include "cuda/fused/block.cuh"
#include "cuda/fused/boxes.cuh"
#include "cuda/fused/finish.cuh"
#include "cuda/fused/matrices.cuh"
#include "cuda/fused/sums.cuh"
#include "cuda/fused/tile_columns.cuh"
#include "cuda/ptx.cuh"

namespace im2win::cuda::fused {

/// Finishes the sums of tiles and puts them in boxes. A warp has 16 filters. Meanwhile nothing multiplies, unless
/// warpgroups take turns: where sums are outputs, as they mostly are, not even the tile is located.
template <class T>
class BoxWriter {
 public:
  using Element = typename T::Element;

  /// Of a tile, by its number.
  __device__ __forceinline__ BoxWriter(const Arguments<Element>& a, Block<T> block, int32_t number)
      : a_(a),
        block_(block),
        number_(number),
        thread_(ptx::thread_in_block(T::kFirstMultiplier)),
        lane_(thread_ % 32) {}

  /// `turn` alternates from tile to tile. The boxes leave when all warps have come so far.
  __device__ __forceinline__ void write(Sums<T::kSums>& sums, bool turn) const {
    const bool doubtful = a_.rechecks && __any_sync(~0u, is_doubtful<T>(sums));
    const int set = T::kShape.takes_turns ? warpgroup() : first_filter() / kBoxedFilters;
    // For the last tile's outputs to have left, or for this one's residual.
    wait(&barriers().outputs_empty[set], turn == (a_.outputs.residual_data() != nullptr) ? 1 : 0);
    if constexpr (T::kShape.pixel_rows) {
      put(sums, doubtful, OutputRows<T>(block_, set, first_filter() % kBoxedFilters));
    } else {
      put(sums, doubtful, OutputBoxes<T>(a_.tile, block_, warpgroup(), first_filter()));
    }
    ::cuda::ptx::fence_proxy_async(::cuda::ptx::space_shared);
    __syncwarp();
    if (lane_ == 0) ::cuda::ptx::mbarrier_arrive(&barriers().outputs_full[set]);
  }

 private:
  static constexpr bool kHalves = sizeof(Element) == 2;
  // Eight filters on is two of a row's eight words on, from an even pair of words: another bit.
  static constexpr uint32_t kEightFilters = 8 * sizeof(Element);

  __device__ __forceinline__ int warpgroup() const { return thread_ / 128; }
  /// Of the warp, in the block's tile.
  __device__ __forceinline__ int first_filter() const {
    return (T::kShape.filters >= 128 ? thread_ / 32 : thread_ % 128 / 32) * kPatchFilters;
  }

  template <class Boxes>
  __device__ __forceinline__ void put(Sums<T::kSums>& sums, bool doubtful,
                                      const Boxes& boxes) const {
    if (!a_.outputs.are_sums()) finish(sums, boxes);
    put_columns(sums, boxes);
    if (doubtful) settle(boxes);
  }

  /// Calls use(columns of the tile, the warp's first filter, how many of its filters exist).
  template <class Use>
  __device__ __forceinline__ void with_tile(const Use& use) const {
    const TilePosition tile = locate(a_, number_);
    const TileColumns<T> columns(
        a_, block_, tile,
        T::kShape.divides_columns() ? warpgroup() * a_.tile.warpgroup_columns : 0);
    const int filter = tile.filter_tile * T::kShape.filters + first_filter();  // of the group
    const int filters = min(static_cast<int>(a_.filters_per_group) - filter, kPatchFilters);
    use(columns, tile.group * a_.filters_per_group + filter, filters);
  }

  /// The residual is in the boxes.
  template <class Boxes>
  __device__ __forceinline__ void finish(Sums<T::kSums>& sums, const Boxes& boxes) const {
    with_tile([&](const TileColumns<T>& columns, int64_t k, int filters) {
      const Finisher<T> finisher(a_, k, filters, block_.slots(thread_ / 32));
      finisher.finish(columns, sums,
                      [&](int column, float(&addends)[4]) { take(boxes, column, addends); });
    });
  }

  template <class Boxes>
  __device__ __forceinline__ void settle(const Boxes& boxes) const {
    with_tile([&](const TileColumns<T>& columns, int64_t k, int filters) {
      settle_outputs(a_, columns, k, filters,
                     [&](int filter, int column) { return at(boxes, filter, column); });
    });
  }
  __device__ __forceinline__ static Element* at(const OutputBoxes<T>& boxes, int filter,
                                                int column) {
    return boxes.at(boxes.place(column), filter);
  }
  __device__ __forceinline__ static Element* at(const OutputRows<T>& boxes, int filter,
                                                int column) {
    return boxes.at(filter, column);
  }

  /// NHWC.
  __device__ __forceinline__ void put_columns(const Sums<T::kSums>& sums,
                                              const OutputBoxes<T>& boxes) const {
    // What lanes of 16-bit elements give the places of, two times eight columns, of both matrices; else eight columns.
    constexpr int kColumns = kHalves ? 16 : 8, kOfLane = kHalves ? 1 : 2;
    // Whose places are looked up before any are put, which would keep others waiting.
    constexpr int kTogether = 5;
    const int column = kHalves ? lane_ / 16 * 8 + lane_ % 8 : lane_ % 4 * 2;
#pragma unroll
    for (int first = 0; first < T::kShape.columns; first += kColumns * kTogether) {
      const int end = min(first + kColumns * kTogether, T::kShape.columns);
      uint32_t places[kTogether][kOfLane];
#pragma unroll
      for (int i = first; i < end; i += kColumns)
#pragma unroll
        for (int of_lane = 0; of_lane < kOfLane; ++of_lane)
          places[(i - first) / kColumns][of_lane] = boxes.place(i + column + of_lane);
#pragma unroll
      for (int i = first; i < end; i += kColumns)
        put(sums.sum + i / 2, end - i, boxes, places[(i - first) / kColumns]);
    }
  }

  /// Two times eight columns, or the last eight, where no more are left.
  __device__ __forceinline__ void put(const float* sum, int left, const OutputBoxes<T>& boxes,
                                      const uint32_t (&places)[1]) const {
    Element* const row = boxes.at(places[0], lane_ & 8);
    uint32_t matrices[4];
    pack<Element>(sum, matrices[0], matrices[1]);
    if (left == 8) return ptx::store_transposed(row, matrices[0], matrices[1]);
    pack<Element>(sum + 4, matrices[2], matrices[3]);
    ptx::store_matrices_transposed(ptx::shared_address(row), matrices);
  }
  __device__ __forceinline__ void put(const float* sum, int, const OutputBoxes<T>& boxes,
                                      const uint32_t (&places)[2]) const {
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      const uint32_t at = ptx::shared_address(boxes.at(places[i], lane_ / 4));
      ptx::store_shared_if(boxes.is_output(places[i]), at, sum[i]);
      ptx::store_shared_if(boxes.is_output(places[i]), at ^ kEightFilters, sum[2 + i]);
    }
  }

  /// The thread's of eight columns that are in boxes.
  __device__ __forceinline__ void take(const OutputBoxes<T>& boxes, int column,
                                       float (&x)[4]) const {
    if constexpr (kHalves) {
      uint32_t matrices[2];
      ptx::load_transposed(boxes.at(boxes.place(column + lane_ % 8), lane_ & 8), matrices);
      unpack<Element>(matrices, x);
    } else {
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        const uint32_t place = boxes.place(column + lane_ % 4 * 2 + i);
        const uint32_t at = ptx::shared_address(boxes.at(place, lane_ / 4));
        x[i] = ptx::load_shared<float>(at);
        x[2 + i] = ptx::load_shared<float>(at ^ kEightFilters);
      }
    }
  }

  /// NCHW: two times eight columns at a time, four matrices.
  __device__ __forceinline__ void put_columns(const Sums<T::kSums>& sums,
                                              const OutputRows<T>& boxes) const {
#pragma unroll
    for (int column = 0; column < T::kShape.columns; column += 16) {
      uint32_t matrices[4];
      pack<Element>(&sums.sum[column / 2], matrices[0], matrices[1]);
      pack<Element>(&sums.sum[column / 2 + 4], matrices[2], matrices[3]);
      ptx::store_matrices(ptx::shared_address(boxes.word(lane_ % 16, column + lane_ / 16 * 8)),
                          matrices);
    }
  }
  __device__ __forceinline__ void take(const OutputRows<T>& boxes, int column,
                                       float (&x)[4]) const {
    uint32_t matrices[2];
    ptx::load_matrices(ptx::shared_address(boxes.word(lane_ % 16, column)), matrices);
    unpack<Element>(matrices, x);
  }

  const Arguments<Element>& a_;
  Block<T> block_;
  int32_t number_;
  int thread_;  // of the multiplying ones
  int lane_;
};

}  // namespace im2win::cuda::fused
