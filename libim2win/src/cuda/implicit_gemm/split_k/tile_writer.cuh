// From a tile's sums to its outputs: what warps and blocks have of them that shared taps is added up, finished and stored.
#pragma once

#include "cuda/implicit_gemm/split_k/arguments.cuh"
#include "cuda/implicit_gemm/split_k/ptx.cuh"
#include "cuda/numeric.cuh"
#include "cuda/ptx.cuh"

namespace im2win::cuda::implicit_gemm::split_k {

/// Of a cluster each block writes some rows: every so manyth. Neighbouring threads store neighbours.
template <class T>
class TileWriter {
  using Element = typename T::Element;

 public:
  __device__ __forceinline__ TileWriter(const Arguments<Element>& a, const Place& place,
                                        Shared<T>& shared, int split)
      : a_(a), place_(place), shared_(shared), split_(split) {}

  /// When all of the block's sums are in shared memory.
  __device__ __forceinline__ void write() const {
    if (a_.splits == 1) {
      const auto sums_of = [&](auto& sums, int row, int column) { add_shares(sums, row, column); };
      return a_.writes_words ? write_rows<kOutputWord, 1>(sums_of) : write_rows<1, 4>(sums_of);
    }
    add_shares_of_all();
    meet_with_writes();
    const auto sums_of = [&](auto& sums, int row, int column) { add_blocks(sums, row, column); };
    a_.writes_words ? write_rows<kOutputWord, 1>(sums_of) : write_rows<1, 1>(sums_of);
    meet_with_writes();  // no block ends before others have read what it has
  }

 private:
  /// Neighbours.
  template <int kCount>
  struct alignas(kCount * sizeof(float)) Sums {
    float x[kCount] = {};

    __device__ __forceinline__ void operator+=(const Sums& other) {
#pragma unroll
      for (int i = 0; i < kCount; ++i) x[i] += other.x[i];
    }
  };

  /// What the block's warps have that shared taps, in the order of these.
  template <int kCount>
  __device__ __forceinline__ void add_shares(Sums<kCount>& sums, int row, int column) const {
#pragma unroll
    for (int share = 0; share < T::kTapShares; ++share)
      sums += reinterpret_cast<const Sums<kCount>&>(shared_.sums[share][row][column]);
  }

  /// The same of all outputs, for other blocks to read.
  __device__ __forceinline__ void add_shares_of_all() const {
    constexpr int kAcross = T::kEdge / kOutputWord;
    const int column = static_cast<int>(threadIdx.x) % kAcross * kOutputWord;
#pragma unroll 1
    for (int row = threadIdx.x / kAcross; row < T::kEdge; row += kThreads / kAcross) {
      Sums<kOutputWord> sums;
      add_shares(sums, row, column);
      reinterpret_cast<Sums<kOutputWord>&>(shared_.sums[0][row][column]) = sums;
    }
  }

  /// What the cluster's blocks have, in their order, so that the same bits come out every time.
  template <int kCount>
  __device__ __forceinline__ void add_blocks(Sums<kCount>& sums, int row, int column) const {
    Sums<kCount> of[kMostSplits];
#pragma unroll
    for (int block = 0; block < kMostSplits; ++block)
      load_from_cluster_if(block < a_.splits, &shared_.sums[0][row][column],
                           min(block, a_.splits - 1), of[block].x);
#pragma unroll
    for (int block = 0; block < kMostSplits; ++block)
      if (block < a_.splits) sums += of[block];
  }

  /// The block's rows, a thread so many neighbours of so many of them at a time.
  template <int kCount, int kAtOnce, class SumsOf>
  __device__ __forceinline__ void write_rows(const SumsOf& sums_of) const {
    constexpr int kAcross = T::kEdge / kCount, kDown = kThreads / kAcross;
    const int column = static_cast<int>(threadIdx.x) % kAcross * kCount;
#pragma unroll 1
    for (int first = threadIdx.x / kAcross; first * a_.splits < T::kEdge;
         first += kAtOnce * kDown) {
      Sums<kCount> sums[kAtOnce];
#pragma unroll
      for (int i = 0; i < kAtOnce; ++i)
        sums_of(sums[i], min(row(first + i * kDown), T::kEdge - 1), column);
#pragma unroll
      for (int i = 0; i < kAtOnce; ++i)
        if (const int at = row(first + i * kDown); exists(at, column)) write(sums[i], at, column);
    }
  }

  __device__ __forceinline__ int row(int number) const { return number * a_.splits + split_; }
  __device__ __forceinline__ static int filter(int row, int column) {
    return T::kChannelsLast ? column : row;
  }
  __device__ __forceinline__ static int pixel(int row, int column) {
    return T::kChannelsLast ? row : column;
  }
  __device__ __forceinline__ bool exists(int row, int column) const {
    return row < T::kEdge && place_.first_filter + filter(row, column) < a_.filters &&
           place_.first_pixel + pixel(row, column) < a_.pixels;
  }

  __device__ __forceinline__ void write(const Sums<1>& sum, int row, int column) const {
    write_one(sum.x[0], row, column);
  }

  __device__ __forceinline__ void write_one(float sum, int row, int column) const {
    const auto locate = [&] {
      return output_at(a_, place_, place_.first_filter + filter(row, column),
                       place_.first_pixel + pixel(row, column));
    };
    write_sum(a_, shared_.outputs.filters[filter(row, column)],
              shared_.outputs.pixels[pixel(row, column)], locate, sum);
  }

  struct alignas(kOutputWord * sizeof(Element)) Word {
    Element x[kOutputWord];
  };

  /// A word, of an epilogue that only adds the bias and clamps.
  __device__ __forceinline__ void write(const Sums<kOutputWord>& sums, int row, int column) const {
    const auto* const filters = &shared_.outputs.filters[filter(row, column)];
    const float low = a_.exact.outputs.low();
    bool is_number = true;
    Word word;
#pragma unroll
    for (int i = 0; i < kOutputWord; ++i) {
      const float bias = filters[T::kChannelsLast ? i : 0].bias;
      word.x[i] = from_compute<Element>(ptx::max_or_nan(sums.x[i] + bias, low));
      is_number &= sums.x[i] == sums.x[i];
    }
    if (is_number || !a_.is_padded) {
      Element* const to =
          a_.exact.outputs.address(filters[0], shared_.outputs.pixels[pixel(row, column)]);
      *reinterpret_cast<Word*>(to) = word;
    } else {
#pragma unroll 1
      for (int i = 0; i < kOutputWord; ++i) write_one(sums.x[i], row, column + i);
    }
  }

  const Arguments<Element>& a_;
  const Place& place_;
  Shared<T>& shared_;
  int split_;
};

}  // namespace im2win::cuda::implicit_gemm::split_k
