// Bands of the input on their way to shared memory: read once, and made operands.
#pragma once

#include <climits>
#include <cstdint>

#include "cuda/fused/operands.cuh"
#include "cuda/fused/stem/arguments.cuh"
#include "cuda/ptx.cuh"

namespace im2win::cuda::fused::stem {

__device__ __forceinline__ bool is_below(int i, int end) {
  return static_cast<uint32_t>(i) < static_cast<uint32_t>(end);
}

/// The bands of a block, in the order of their use.
template <class Element>
class BandWalk {
 public:
  __device__ __forceinline__ explicit BandWalk(const Arguments<Element>& a) : a_(a), strip_(a) {
    if (!ended()) count_ = strip_.bands();
  }

  __device__ __forceinline__ bool ended() const { return strip_.ended(); }
  __device__ __forceinline__ void advance() {
    if (++band_ < count_) return;
    strip_.advance();
    band_ = 0;
    if (!ended()) count_ = strip_.bands();
  }

  __device__ __forceinline__ void pass(int bands) {
    for (int i = 0; i < bands && !ended(); ++i) advance();
  }

  /// One to ask for in advance, if it exists: some bands further on in the strip or, if those of a block may be apart, in
  /// the next.
  template <bool kMayBeApart>
  __device__ __forceinline__ BandWalk later() const {
    constexpr int kAhead = 4;
    BandWalk walk = *this;
    if (kMayBeApart && a_.share_step > 1) {
      walk.strip_.advance();
    } else {
      walk.band_ += kAhead;
    }
    return walk;
  }
  __device__ __forceinline__ bool exists() const { return !ended() && band_ < count_; }

  __device__ __forceinline__ const TilePosition& tile() const { return strip_.first(); }
  /// Where it begins in the input: above it or left of it, too.
  __device__ __forceinline__ int y() const { return row() * a_.band_step - a_.padding_top; }
  /// Of the image's: see Arguments::rows.
  __device__ __forceinline__ int row() const { return tile().p + band_; }
  __device__ __forceinline__ int x() const { return tile().q * a_.stride_w - a_.padding_left; }

  /// Of a row and a column of the tile's image, in the first channel.
  template <class Moved>
  __device__ __forceinline__ const Moved* origin(int y, int x) const {
    return reinterpret_cast<const Moved*>(a_.input) + tile().n * a_.stride_n +
           tile().group * a_.channels * a_.stride_c + int64_t{y} * a_.row_stride +
           int64_t{x} * a_.column_stride;
  }

  /// To the L2 cache, each line by a thread: memory is further away than registers reach. The band has these columns of
  /// rows from `y` on.
  template <class Moved>
  __device__ __forceinline__ void ask_for_lines(int thread, int y, int begin, int end) const {
    const auto [row, channel] = a_.lines.channels.divide(thread);
    if (row >= a_.bands.rows || a_.lines.elements == 0) return;
    if (!is_below(y + row, a_.h)) return;
    const int first = max(begin, 0);
    const Moved* line = origin<Moved>(y + row, first) + channel * a_.stride_c;
    ptx::prefetch(line, (min(end, a_.w) - first) * int64_t{a_.lines.elements} * sizeof(Moved));
  }

 private:
  const Arguments<Element>& a_;
  StripWalk<Element> strip_;
  int band_ = 0, count_ = 0;
};

/// Where a warpgroup puts its bands, each of which all of its threads stage.
template <class T>
class BandRing {
 public:
  __device__ __forceinline__ BandRing(const Arguments<typename T::Element>& a, Block<T> block,
                                      int warpgroup)
      : a_(a), block_(block), to_{warpgroup, 0}, warpgroup_(warpgroup) {}

  /// Of the warpgroup. Looked up each time: what is kept from band to band may be in local memory, which comes behind
  /// all that is loaded.
  __device__ __forceinline__ static int thread() { return ptx::thread_in_block() % kThreads; }

  /// The band that is filled.
  __device__ __forceinline__ const Cursor& at() const { return to_; }
  __device__ __forceinline__ void wait_empty() const { barriers().bands.wait_empty(to_); }
  __device__ __forceinline__ uint4* units() const {
    return reinterpret_cast<uint4*>(block_.slab(to_.stage));
  }
  __device__ __forceinline__ void hand_over() {
    ::cuda::ptx::fence_proxy_async(::cuda::ptx::space_shared);
    __syncwarp();
    if (lanes_arrive(T::kShape, T::kOperands) || ptx::elect())
      barriers().bands.arrive_full(to_.stage);
    for (int i = 0; i < T::kShape.staging_warpgroups; ++i) to_.advance(a_.bands.stages);
  }

  /// How all elements of a band are scaled, which are split.
  __device__ __forceinline__ Scale find_scale(Magnitudes magnitudes) {
    magnitudes.merge_warp();
    Magnitudes(&shared)[4] = barriers().magnitudes[warpgroup_][turn_];
    turn_ ^= 1;
    if (ptx::elect()) shared[thread() / 32] = magnitudes;
    ptx::named_barrier(kFirstStagingBarrier + warpgroup_, kThreads);
    for (const Magnitudes& of_warp : shared) magnitudes.merge(of_warp);
    return Scale::of(magnitudes);
  }
  __device__ __forceinline__ void tell_scale(const Scale& scale) const {
    if (thread() == 0) barriers().scales[to_.stage] = {scale.inverse, scale.fit};
  }

 private:
  static constexpr int kThreads = 128;

  const Arguments<typename T::Element>& a_;
  Block<T> block_;
  Cursor to_;
  int warpgroup_;
  int turn_ = 0;
};

/// By a warpgroup, of which there may be others that take turns, where windows are `kStep` columns apart, or any
/// number if runs are of one position. A thread has *runs* of neighbouring positions, which share elements. Those of
/// its next band are on their way to registers while this one's become operands.
template <class T, int kStep>
class BandStaging {
 public:
  using Element = typename T::Element;
  using Moved = fused::Moved<T::kOperands>;

  __device__ __forceinline__ BandStaging(const Arguments<Element>& a, Block<T> block, int warpgroup)
      : a_(a), walk_(a), ring_(a, block, warpgroup) {
    walk_.pass(warpgroup);
#pragma unroll
    for (int i = 0; i < kMostRuns; ++i) {
      const auto [line, in_line] = place_of(i);
      const auto [row, channel] = a.band_channels.divide(line);
      const int y = row * kUnitRows, x = in_line * run_step();
      runs_[i].row = thread() + i * kThreads < runs() ? y : kOutside;
      runs_[i].offset =
          channel * static_cast<int32_t>(a.stride_c) + y * a.row_stride + x * a.column_stride;
      runs_[i].place = line * a.bands.positions + in_line * kPositions;
    }
  }

  __device__ __forceinline__ void run() {
    const int runs = (this->runs() + kThreads - 1) / kThreads;
    switch (a_.column_stride) {
      case 1: return run_with<kFewRuns, 1>(runs);
      case 3: return run_with<kFewRuns, 3>(runs);
      default: return stage_bands<kMostRuns, 0>();
    }
  }

 private:
  static constexpr int kThreads = 128;
  static constexpr int kElements = traits(T::kOperands).unit_elements;
  static constexpr int kUnitRows = unit_rows(T::kOperands);
  // Of a run.
  static constexpr int kPositions = run_positions(T::kOperands, kStep);
  static constexpr int kColumns = run_columns(T::kOperands, kStep);
  static constexpr int kMostRuns = thread_runs(T::kOperands, kStep);
  static constexpr int kFewRuns = (kMostRuns + 5) / 6;
  static constexpr int kOutside = 1 << 21;  // more than any image and its padding have rows
  static constexpr bool kSplit = T::kOperands == Operands::kSplit;

  /// From a band's beginning, in the input.
  struct Run {
    int32_t row, offset;
    int32_t place;     // in shared memory, in units
    uint32_t columns;  // a bit for each, set where that is in the input
  };

  /// Of a strip.
  __device__ __forceinline__ void find_columns() {
    columns_of_ = walk_.x();
#pragma unroll
    for (int i = 0; i < kMostRuns; ++i) {
      const int x = walk_.x() + place_of(i).in_line * run_step();
      runs_[i].columns = 0;
      for (int column = 0; column < kColumns; ++column)
        runs_[i].columns |= uint32_t{is_below(x + column, a_.w)} << column;
    }
  }

  __device__ __forceinline__ static int thread() { return BandRing<T>::thread(); }

  /// Of the band.
  __device__ __forceinline__ int runs() const {
    return a_.bands.units * line_runs(a_.bands, T::kOperands, kStep);
  }
  /// Columns from a run to the next.
  __device__ __forceinline__ int run_step() const {
    return kPositions > 1 ? kPositions * kStep : a_.stride_w;
  }
  struct RunPlace {
    int line, in_line;
  };
  /// Of a run of the thread's. Threads one after another have runs of one position each of a line, or a longer
  /// one of each line (see SharedBandLayout::positions_pitch).
  __device__ __forceinline__ RunPlace place_of(int i) const {
    const auto [quotient, remainder] = a_.run_order.divide(thread() + i * kThreads);
    return kPositions > 1 ? RunPlace{remainder, quotient} : RunPlace{quotient, remainder};
  }

  template <int kCount>
  using Elements = Moved[kCount][kUnitRows][kColumns];

  /// Code for some numbers of runs that a thread may have, where pixels are of one channel or three: without
  /// branches, loads need not wait for one another.
  template <int kCount, int kApart>
  __device__ __forceinline__ void run_with(int runs) {
    if constexpr (kCount < kMostRuns) {
      constexpr int kMore = kCount + kFewRuns < kMostRuns ? kCount + kFewRuns : kMostRuns;
      if (runs > kCount) return run_with<kMore, kApart>(runs);
    }
    stage_bands<kCount, kApart>();
  }

  /// Pixels are so many elements apart, 0: any number.
  template <int kCount, int kApart>
  __device__ __forceinline__ void stage_bands() {
    if constexpr (kSplit) {
      stage_split_bands<kCount, kApart>();
    } else {
      stage_whole_bands<kCount, kApart>();
    }
  }

  /// The next band's; false if there is none.
  template <int kApart, int kCount>
  __device__ __forceinline__ bool load(Elements<kCount>& elements) {
    if (walk_.ended()) return false;
    const int x = walk_.x();
    if (const BandWalk<Element> later = walk_.template later<false>(); later.exists())
      later.template ask_for_lines<Moved>(thread(), later.y(), x,
                                          x + a_.bands.positions * a_.stride_w + kUnitColumns);
    if (x != columns_of_) find_columns();
    const int y = walk_.y();
    const Moved* band = walk_.template origin<Moved>(y, x);
    const int apart = kApart > 0 ? kApart : a_.column_stride;
#pragma unroll
    for (int i = 0; i < kCount; ++i) {
      const Moved* from = band + runs_[i].offset;
#pragma unroll
      for (int row = 0; row < kUnitRows; ++row, from += a_.row_stride) {
        const uint32_t columns = is_below(y + runs_[i].row + row, a_.h) ? runs_[i].columns : 0;
        if constexpr (kColumns == kUnitColumns) {
          ptx::load_four_if(columns, from, apart, elements[i][row]);
        } else {
#pragma unroll
          for (int c = 0; c < kColumns; ++c)
            elements[i][row][c] = ptx::load_if_any(columns & 1u << c, from + c * apart);
        }
      }
    }
    walk_.pass(T::kShape.staging_warpgroups);
    return true;
  }

  /// Those of one of a run's positions.
  struct UnitElements {
    Moved x[kElements];

    __device__ __forceinline__ UnitElements(const Moved (&run)[kUnitRows][kColumns], int position) {
#pragma unroll
      for (int i = 0; i < kElements; ++i)
        x[i] = run[i / kUnitColumns][position * kStep + i % kUnitColumns];
    }
  };

  // All elements of a band are looked at before others are loaded: who waits for some loads waits for all that
  // have been issued.

  /// Whether there are registers for a band beside the one that is staged.
  template <int kCount>
  static constexpr bool kAhead = kSplit ? kCount * kUnitRows * kColumns <= 28 : kCount < kMostRuns;

  /// Once elements are operands, those of the next band may come in their place.
  template <int kCount, int kApart>
  __device__ __forceinline__ void stage_whole_bands() {
    Elements<kCount> elements;
    bool more = load<kApart, kCount>(elements);
    while (more) {
      uint4 units[kCount][kPositions];
#pragma unroll
      for (int i = 0; i < kCount; ++i)
#pragma unroll
        for (int j = 0; j < kPositions; ++j)
          units[i][j] = ptx::fresh(pack_unit(UnitElements(elements[i], j).x));
      if constexpr (kAhead<kCount>) more = load<kApart, kCount>(elements);
      ring_.wait_empty();
#pragma unroll
      for (int i = 0; i < kCount; ++i)
#pragma unroll
        for (int j = 0; j < kPositions; ++j)
          if (runs_[i].row != kOutside) place(i)[j] = units[i][j];
      ring_.hand_over();
      if constexpr (!kAhead<kCount>) more = load<kApart, kCount>(elements);
    }
  }

  /// Elements are needed until they have been split.
  template <int kCount, int kApart>
  __device__ __forceinline__ void stage_split_bands() {
    Elements<kCount> even, odd;
    bool more = load<kApart, kCount>(even);
    while (more) {
      more = stage_split<kApart, kCount>(even, odd);
      if (!more) break;
      more = stage_split<kApart, kCount>(odd, even);
    }
  }

  /// And loads the next; false if there is none.
  template <int kApart, int kCount>
  __device__ __forceinline__ bool stage_split(const Elements<kCount>& elements,
                                              Elements<kCount>& next) {
    bool more = false;
    const Magnitudes magnitudes = magnitudes_of<kCount>(elements);
    if constexpr (kAhead<kCount>) more = load<kApart, kCount>(next);
    const Scale scale = ring_.find_scale(magnitudes);
    ring_.wait_empty();
    ring_.tell_scale(scale);
    const int part = a_.bands.part_bytes / kUnitBytes;
#pragma unroll
    for (int i = 0; i < kCount; ++i) {
      const bool exists = this->exists(i);
#pragma unroll
      for (int j = 0; j < kPositions; ++j) {
        uint4 high, low;
        split_unit(UnitElements(elements[i], j).x, scale.factor, high, low);
        ptx::store_unit_if(exists, place(i) + j, high);
        ptx::store_unit_if(exists, place(i) + part + j, low);
      }
    }
    ring_.hand_over();
    if constexpr (!kAhead<kCount>) more = load<kApart, kCount>(next);
    return more;
  }

  template <int kCount>
  __device__ __forceinline__ static Magnitudes magnitudes_of(const Elements<kCount>& elements) {
    Magnitudes magnitudes;
#pragma unroll
    for (int i = 0; i < kCount; ++i)
#pragma unroll
      for (int row = 0; row < kUnitRows; ++row)
#pragma unroll
        for (int c = 0; c < kColumns; c += 2)
          magnitudes.add(elements[i][row][c], elements[i][row][min(c + 1, kColumns - 1)]);
    return magnitudes;
  }

  /// Whether the thread has so many runs. Not a branch, across which ptxas would keep predicates in local memory: that
  /// comes behind all that is loaded.
  __device__ __forceinline__ bool exists(int run) const {
    return ptx::unknown(runs_[run].row) != kOutside;
  }

  /// Where the first unit of a run of the band goes.
  __device__ __forceinline__ uint4* place(int run) const {
    return ring_.units() + (kPositions > 1 ? runs_[run].place : thread() + run * kThreads);
  }

  const Arguments<Element>& a_;
  BandWalk<Element> walk_;
  BandRing<T> ring_;
  int columns_of_ = INT_MIN;  // where a strip's first is in the input
  Run runs_[kMostRuns];
};

}  // namespace im2win::cuda::fused::stem
