// From sums in registers to an output row in memory.
#pragma once

#include <cuda/ptx>

#include <cstdint>

#include "cuda/fused/boxes.cuh"
#include "cuda/fused/finish.cuh"
#include "cuda/fused/stem/arguments.cuh"
#include "cuda/fused/stem/biases.cuh"
#include "cuda/fused/stem/sector_rows.cuh"
#include "cuda/fused/sums.cuh"
#include "cuda/fused/writer.cuh"
#include "cuda/numeric.cuh"
#include "cuda/ptx.cuh"

namespace im2win::cuda::fused::stem {

/// Where outputs are made in registers (see finishes_in_registers), and are rows of pixels or words of filters. Through the
/// warp's patch of shared memory, so that lanes write neighbours: as Writer does, for which this is one row and much shorter.
/// Or through a box of the warpgroup's, which leaves by itself.
template <class T>
class RowWriter {
 public:
  using Element = typename T::Element;

  /// `row` counts the tile's, `set` the block's filters'.
  __device__ __forceinline__ RowWriter(const Arguments<Element>& a, Block<T> block,
                                       const TilePosition& tile, int row, int set)
      : a_(a),
        tile_(tile),
        row_(row),
        thread_(ptx::thread_in_block() % 128),
        lane_(thread_ % 32),
        block_(block),
        patch_(block.patch(row * 4 + thread_ / 32).sums),
        bias_(biases(block) + set * T::kShape.filters + thread_ / 32 * kPatchFilters + lane_ / 4) {}

  /// Whether this takes the sums of the warp, all of whose lanes ask. Boxes take those of a warpgroup.
  __device__ __forceinline__ bool takes(const Sums<T::kSums>& sums) const {
    const RowOrder order = this->order();
    if (kHasBoxes<T> && order == RowOrder::kBoxes) return true;
    return order != RowOrder::kOne && filter() + kPatchFilters <= a_.filters_per_group &&
           !__any_sync(~0u, a_.rechecks && is_doubtful<T>(sums));
  }

  __device__ __forceinline__ void write(Sums<T::kSums>& sums, InRow in_row) const {
    const int64_t k = tile_.group * a_.filters_per_group + filter();
    float bias[2] = {bias_[0], bias_[8]};
    if (!a_.outputs.only_adds_bias_and_clamps()) [[unlikely]] {
      finish_at_once(a_.outputs, bias, sums.sum);
      bias[0] = bias[1] = 0;
    }
    const RowOrder order = this->order();
    if constexpr (kHasBoxes<T>) {
      if (order == RowOrder::kBoxes) return write_boxes(sums, bias, k);
    }
    Element* const output = this->output(k);
    const int columns = min(a_.q - tile_.q, min(a_.tile.columns, T::kShape.columns));
    if (order == RowOrder::kFilters) {
      write_words(sums, bias, output, columns);
    } else if (order == RowOrder::kSectors) {
      if constexpr (kHasSectors)
        SectorRows<T>(a_, block_, output)
            .write(
                sums, [&](float sum, int half) { return finished(sum, bias[half]); }, columns,
                in_row);
    } else if (a_.row_word == 4) {
      write_pixels<4>(sums, bias, output, columns);
    } else if (a_.row_word == 2) {
      write_pixels<2>(sums, bias, output, columns);
    } else {
      write_pixels<1>(sums, bias, output, columns);
    }
  }

  /// The pixels that wait for this row's, which this does not take.
  __device__ __forceinline__ void write_ends() const {
    if constexpr (kHasSectors)
      SectorRows<T>(a_, block_, output(tile_.group * a_.filters_per_group + filter())).write_ends();
  }

  /// Before the block's shared memory is given up.
  __device__ __forceinline__ static void finish() {
    if constexpr (kHasBoxes<T>)
      if (is_starter()) ::cuda::ptx::cp_async_bulk_wait_group_read(::cuda::ptx::n32_t<0>{});
  }

 private:
  static constexpr bool kHalves = sizeof(Element) == 2, kHasSectors = !kHalves;

  /// The warp's first, counted from the group's first.
  __device__ __forceinline__ int filter() const {
    return tile_.filter_tile * T::kShape.filters + thread_ / 32 * kPatchFilters;
  }
  /// Looked up each time, rather than kept in registers while others are multiplied.
  __device__ __forceinline__ RowOrder order() const {
    return static_cast<RowOrder>(ptx::fresh(static_cast<int32_t>(a_.row_order)));
  }
  /// Of the row's first pixel.
  __device__ __forceinline__ Element* output(int64_t k) const {
    return a_.outputs.data() + a_.outputs.pixel(tile_.n, tile_.p + row_, tile_.q).output +
           k * a_.outputs.strides()[1];
  }
  /// Unless that is done: see write().
  __device__ __forceinline__ float finished(float sum, float bias) const {
    return ptx::max_or_nan(sum + bias, a_.outputs.low());
  }
  __device__ __forceinline__ uint32_t packed(const float* sum, float bias) const {
    return packed_pair<Element>(finished(sum[0], bias), finished(sum[1], bias));
  }

  /// Of the warpgroup, who starts boxes and waits for them.
  __device__ __forceinline__ static bool is_starter() { return threadIdx.x % 128 == 0; }
  __device__ __forceinline__ void meet() const {
    ptx::named_barrier(kFirstWritingBarrier + row_, 128);
  }

  /// NHWC: 64 filters, of which memory gets whole lines, and the group's only.
  __device__ __forceinline__ void write_boxes(Sums<T::kSums>& sums, const float (&bias)[2],
                                              int64_t k) const {
    const int filters = static_cast<int>(a_.filters_per_group) - filter();
    if (!a_.outputs.are_sums()) add_and_bound(a_.outputs, bias, sums.sum);
    if (is_starter()) ::cuda::ptx::cp_async_bulk_wait_group_read(::cuda::ptx::n32_t<0>{});
    meet();
    put_boxed(sums);
    if (a_.rechecks && __any_sync(~0u, is_doubtful<T>(sums)))
      settle_outputs(a_, Writer<T>(a_, block_, tile_).columns(), k, min(filters, kPatchFilters),
                     [&](int filter, int column) { return boxed(column, filter); });
    ::cuda::ptx::fence_proxy_async(::cuda::ptx::space_shared);
    meet();
    if (!is_starter()) return;
    TilePosition tile = tile_;
    tile.p += row_ * output_rows<T>(a_);
    for_planes<T>(a_, block_, tile, tile_.filter_tile * T::kShape.filters, row_,
                  to_output<Element>(a_));
    ::cuda::ptx::cp_async_bulk_commit_group();
  }

  /// Where an output of the warp's is: a row for each column, of 64 filters or the half of them.
  __device__ __forceinline__ Element* boxed(int column, int filter) const {
    constexpr int kFilters = kBoxFilters<Element>, kBoxes = kBoxedFilters / kFilters;
    constexpr int kWord = kUnitBytes / static_cast<int>(sizeof(Element));
    const int own = thread_ / 32 * kPatchFilters + filter;
    const int word = (own % kFilters / kWord) ^ (column % kRowUnits);
    char* row = block_.box(row_ * kBoxes + own / kFilters) + column * kRowBytes;
    return reinterpret_cast<Element*>(row + word * kUnitBytes) + own % kWord;
  }

  /// Columns are rows of a box, and every eighth has its words exchanged alike: lanes find the places of the first ones.
  __device__ __forceinline__ void put_boxed(const Sums<T::kSums>& sums) const {
    if constexpr (kHalves) {
      const uint32_t first = ptx::shared_address(boxed(lane_ / 16 * 8 + lane_ % 8, lane_ & 8));
#pragma unroll
      for (int column = 0; column < T::kShape.columns; column += 16) {
        const float* const sum = &sums.sum[column / 2];
        uint32_t matrices[4];
        pack<Element>(sum, matrices[0], matrices[1]);
        if (column + 8 == T::kShape.columns) {
          ptx::store_transposed(boxed(column + lane_ % 8, lane_ & 8), matrices[0], matrices[1]);
        } else {
          pack<Element>(sum + 4, matrices[2], matrices[3]);
          ptx::store_matrices_transposed(first + column * kRowBytes, matrices);
        }
      }
    } else {
      constexpr int kRow = kRowBytes / static_cast<int>(sizeof(Element));
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        Element* const first = boxed(lane_ % 4 * 2 + i % 2, lane_ / 4 + i / 2 * 8);
#pragma unroll
        for (int column = 0; column < T::kShape.columns; column += 8)
          first[column * kRow] = sums.sum[column / 2 + i];
      }
    }
  }

  /// NCHW: eight filters of kChunk columns at a time, a word of so many pixels a lane.
  template <int kWord>
  __device__ __forceinline__ void write_pixels(const Sums<T::kSums>& sums, const float (&bias)[2],
                                               Element* output, int columns) const {
    constexpr int kChunk = 56, kPitch = kChunk + 16, kHalf = kPatchFilters / 2;
    static_assert(T::kShape.columns % kChunk == 0 && kHalf * kPitch <= kPatchFilters * kPatchPitch);
    constexpr int kLanes = kWord == 4 ? 16 : 32, kTogether = 32 / kLanes;  // filters
    constexpr int kRounds = kWord == 1 ? 2 : 1;                            // of a filter
    const int64_t stride = a_.outputs.strides()[1];
    const int filter = lane_ / kLanes, column = lane_ % kLanes * kWord;
#pragma unroll
    for (int i = 0; i < 2 * (T::kShape.columns / kChunk); ++i) {
      const int half = i % 2, chunk = i / 2 * kChunk;
      __syncwarp();
#pragma unroll
      for (int eight = 0; eight < kChunk; eight += 8) {
        const float* sum = &sums.sum[(chunk + eight) / 2 + 2 * half];
        *reinterpret_cast<float2*>(patch_ + lane_ / 4 * kPitch + eight + lane_ % 4 * 2) =
            make_float2(finished(sum[0], bias[half]), finished(sum[1], bias[half]));
      }
      __syncwarp();
#pragma unroll
      for (int round = 0; round < kRounds; ++round) {
        const int at = column + 32 * round;
        if (at >= kChunk || chunk + at >= columns) continue;
        Element* to = output + (half * kHalf + filter) * stride + chunk + at;
        Pixels<Element, kWord> word[kHalf / kTogether];
#pragma unroll
        for (int j = 0; j < kHalf / kTogether; ++j)
          word[j] = to_pixels<Element, kWord>(patch_ + (filter + j * kTogether) * kPitch + at);
#pragma unroll
        for (int j = 0; j < kHalf / kTogether; ++j)
          ptx::store_streaming(
              reinterpret_cast<Pixels<Element, kWord>*>(to + j * kTogether * stride), word[j]);
      }
    }
  }

  /// NHWC: a lane has 16 bytes of neighbouring filters of a pixel.
  __device__ __forceinline__ void write_words(const Sums<T::kSums>& sums, const float (&bias)[2],
                                              Element* output, int columns) const {
    constexpr int kWords = kPatchFilters * sizeof(Element) / 16;  // of a column
    constexpr int kChunk = kHalves ? 56 : 32;                     // columns of a patch
    const int64_t stride = a_.outputs.strides()[3];
#pragma unroll
    for (int chunk = 0; chunk < T::kShape.columns; chunk += kChunk) {
      __syncwarp();
#pragma unroll
      for (int eight = 0; eight < kChunk; eight += 8)
        if (chunk + eight < T::kShape.columns) put(&sums.sum[(chunk + eight) / 2], eight, bias);
      __syncwarp();
#pragma unroll
      for (int i = 0; i < kChunk * kWords / 32 + 1; ++i) {
        const int column = (lane_ + 32 * i) / kWords, part = (lane_ + 32 * i) % kWords;
        if (column >= kChunk || chunk + column >= columns) continue;
        ptx::store_streaming(
            reinterpret_cast<uint4*>(output + (chunk + column) * stride +
                                     part * (16 / static_cast<int>(sizeof(Element)))),
            *word(column, part));
      }
    }
  }

  /// The words of a column are neighbours; of 16 bits, those of four columns are exchanged with those of the
  /// four after them: eight columns, which are written at a time, then meet all banks.
  __device__ __forceinline__ uint4* word(int column, int part) const {
    if constexpr (kHalves) {
      return reinterpret_cast<uint4*>(patch_) + column * 2 + (part ^ (column >> 2 & 1));
    } else {
      return reinterpret_cast<uint4*>(patch_ + column * kTransposedPatchPitch) + part;
    }
  }

  /// Eight columns.
  __device__ __forceinline__ void put(const float* sum, int column, const float (&bias)[2]) const {
    if constexpr (kHalves) {
      ptx::store_transposed(word(column + lane_ % 8, lane_ / 8 % 2), packed(sum, bias[0]),
                            packed(sum + 2, bias[1]));
    } else {
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const int filter = lane_ / 4 + i / 2 * 8;
        float* to = patch_ + (column + lane_ % 4 * 2 + i % 2) * kTransposedPatchPitch + filter;
        *to = finished(sum[i], bias[i / 2]);
      }
    }
  }

  const Arguments<Element>& a_;
  const TilePosition& tile_;
  int row_;
  int thread_;  // of the warpgroup
  int lane_;
  Block<T> block_;
  float* patch_;
  const float* bias_;  // of the lane's first filter
};

/// Writes what a warpgroup has multiplied.
template <class T>
class PieceWriter {
 public:
  using Element = typename T::Element;

  /// By all threads that multiply.
  __device__ __forceinline__ PieceWriter(const Arguments<Element>& a, Block<T> block, int warpgroup)
      : a_(a), block_(block), warpgroup_(warpgroup) {
    TileColumns<T>::make_table(a, block);
    ptx::named_barrier(kColumnsBarrier, T::kShape.multiplying_threads());
  }

  __device__ __forceinline__ void enter(const TilePosition& first) const {
    load_biases(a_, block_, warpgroup_ * 128 + ptx::thread_in_block() % 128, first);
  }

  /// `tile` begins with the piece, of the block's set of filters of that number.
  __device__ __forceinline__ void write(Sums<T::kSums>& sums, TilePosition tile, int set,
                                        InRow in_row) {
    // Writer takes tiles of a row of the strip for each warpgroup.
    tile.p -= warpgroup_ * output_rows<T>(a_);
    if (const RowWriter<T> writer(a_, block_, tile, warpgroup_, set); writer.takes(sums)) {
      writer.write(sums, {ends_, in_row.after});
      ends_ = in_row.after;
    } else {
      if (ends_ > 0) writer.write_ends();
      ends_ = 0;
      Writer<T>(a_, block_, tile).write(sums);
    }
  }

  __device__ __forceinline__ void finish() const { RowWriter<T>::finish(); }

 private:
  const Arguments<Element>& a_;
  Block<T> block_;
  int warpgroup_;
  int32_t ends_ = 0;  // that the warp's last piece may have left to the next of its row
};

}  // namespace im2win::cuda::fused::stem
