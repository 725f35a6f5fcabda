// Bands of the input on their way to shared memory: read once, and made operands.
#pragma once

#include <cstdint>

#include "cuda/fused/operands.cuh"
#include "cuda/fused/stem/arguments.cuh"
#include "cuda/ptx.cuh"

namespace im2win::cuda::fused::stem {

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

  __device__ __forceinline__ const TilePosition& tile() const { return strip_.first(); }
  /// Of the strip.
  __device__ __forceinline__ int number() const { return band_; }
  /// Whether there are so many more in the strip.
  __device__ __forceinline__ bool has(int more) const { return band_ + more < count_; }
  /// Where it, or one further on, begins in the input: above it or left of it, too.
  __device__ __forceinline__ int y(int more = 0) const {
    return tile().p * a_.stride_h - a_.padding_top + (band_ + more) * a_.stride_h;
  }
  __device__ __forceinline__ int x() const { return tile().q * a_.stride_w - a_.padding_left; }

 private:
  const Arguments<Element>& a_;
  StripWalk<Element> strip_;
  int band_ = 0, count_ = 0;
};

/// By a warpgroup. Elements of the next band are on their way to registers while this one's become operands.
template <class T>
class BandStaging {
 public:
  using Element = typename T::Element;
  using Moved = fused::Moved<T::kOperands>;

  __device__ __forceinline__ BandStaging(const Arguments<Element>& a, Block<T> block)
      : a_(a), block_(block), walk_(a) {
    const int units = a.bands.units * a.bands.positions;
#pragma unroll
    for (int i = 0; i < kUnits; ++i) {
      const int number = thread() + i * kThreads;
      const auto [line, position] = a.band_positions.divide(number);
      const auto [row, channel] = a.band_channels.divide(line);
      const int y = row * kUnitRows, x = position * a.stride_w;
      units_[i].row = number < units ? y : kOutside;
      units_[i].offset =
          channel * static_cast<int32_t>(a.stride_c) + y * a.row_stride + x * a.column_stride;
    }
  }

  /// Code for the units that a thread has, and for pixels of one channel or three: without branches, loads
  /// need not wait for one another.
  __device__ __forceinline__ void run() {
    const int units = (a_.bands.units * a_.bands.positions + kThreads - 1) / kThreads;
    if (units <= kUnits / 3) {
      run_with<kUnits / 3>();
    } else if (units <= kUnits / 2) {
      run_with<kUnits / 2>();
    } else if (units <= kUnits * 2 / 3) {
      run_with<kUnits * 2 / 3>();
    } else {
      run_with<kUnits>();
    }
  }

 private:
  static constexpr int kThreads = 128;
  static constexpr int kUnits = thread_units(T::kOperands);
  static constexpr int kElements = traits(T::kOperands).unit_elements;
  static constexpr int kUnitRows = unit_rows(T::kOperands);
  static constexpr int kOutside = 1 << 21;  // more than any image and its padding have rows
  static constexpr int kLinesAhead = 4;     // bands, after the next one
  static constexpr bool kSplit = T::kOperands == Operands::kSplit;

  /// From a band's beginning, in the input.
  struct Unit {
    int32_t row, offset;
    uint32_t columns;  // a bit for each of the four, set where that is in the input
  };

  /// Of a strip.
  __device__ __forceinline__ void find_columns() {
#pragma unroll
    for (int i = 0; i < kUnits; ++i) {
      const int position = a_.band_positions.divide(thread() + i * kThreads).remainder;
      const int x = walk_.x() + position * a_.stride_w;
      units_[i].columns = 0;
      for (int column = 0; column < kUnitColumns; ++column)
        units_[i].columns |= uint32_t{is_below(x + column, a_.w)} << column;
    }
  }

  __device__ __forceinline__ static int thread() { return threadIdx.x % kThreads; }

  template <int kCount>
  using Elements = Moved[kCount][kElements];

  template <int kCount>
  __device__ __forceinline__ void run_with() {
    switch (a_.column_stride) {
      case 1: return stage_bands<kCount, 1>();
      case 3: return stage_bands<kCount, 3>();
      default: return stage_bands<kCount, 0>();
    }
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

  __device__ __forceinline__ const Moved* origin(const TilePosition& tile, int y, int x) const {
    return reinterpret_cast<const Moved*>(a_.input) + tile.n * a_.stride_n +
           tile.group * a_.channels * a_.stride_c + int64_t{y} * a_.row_stride +
           int64_t{x} * a_.column_stride;
  }

  /// The next band's; false if there is none.
  template <int kApart, int kCount>
  __device__ __forceinline__ bool load(Moved (&elements)[kCount][kElements]) {
    if (walk_.ended()) return false;
    ask_for_lines();
    if (walk_.number() == 0) find_columns();
    const int y = walk_.y();
    const Moved* band = origin(walk_.tile(), y, walk_.x());
#pragma unroll
    for (int i = 0; i < kCount; ++i) {
      const Moved* from = band + units_[i].offset;
#pragma unroll
      for (int row = 0; row < kUnitRows; ++row) {
        const uint32_t columns = is_below(y + units_[i].row + row, a_.h) ? units_[i].columns : 0;
        ptx::load_four_if(columns, from + row * a_.row_stride,
                          kApart > 0 ? kApart : a_.column_stride, &elements[i][row * kUnitColumns]);
      }
    }
    walk_.advance();
    return true;
  }

  // All elements of a band are looked at before others are loaded: who waits for some loads waits for all that
  // have been issued.

  /// Whether there are registers for a band beside the one that is staged.
  template <int kCount>
  static constexpr bool kAhead = kCount < (kSplit ? kUnits * 2 / 3 : kUnits);

  /// Once elements are operands, those of the next band may come in their place.
  template <int kCount, int kApart>
  __device__ __forceinline__ void stage_whole_bands() {
    Elements<kCount> elements;
    bool more = load<kApart>(elements);
    while (more) {
      uint4 units[kCount];
      pack(elements, units);
      if constexpr (kAhead<kCount>) more = load<kApart>(elements);
      barriers().bands.wait_empty(to_);
      store(units);
      hand_over();
      if constexpr (!kAhead<kCount>) more = load<kApart>(elements);
    }
  }

  template <int kCount>
  __device__ __forceinline__ static void pack(const Moved (&elements)[kCount][kElements],
                                              uint4 (&units)[kCount]) {
#pragma unroll
    for (int i = 0; i < kCount; ++i) units[i] = ptx::fresh(pack_unit(elements[i]));
  }

  /// Elements are needed until they have been split.
  template <int kCount, int kApart>
  __device__ __forceinline__ void stage_split_bands() {
    Elements<kCount> even, odd;
    bool more = load<kApart>(even);
    while (more) {
      more = stage_split<kApart>(even, odd);
      if (!more) break;
      more = stage_split<kApart>(odd, even);
    }
  }

  /// And loads the next; false if there is none.
  template <int kApart, int kCount>
  __device__ __forceinline__ bool stage_split(const float (&elements)[kCount][kElements],
                                              float (&next)[kCount][kElements]) {
    bool more = false;
    const Magnitudes magnitudes = magnitudes_of(elements);
    if constexpr (kAhead<kCount>) more = load<kApart>(next);
    const Scale scale = Scale::of(merge(magnitudes));
    barriers().bands.wait_empty(to_);
    store(elements, scale);
    hand_over();
    if constexpr (!kAhead<kCount>) more = load<kApart>(next);
    return more;
  }

  __device__ __forceinline__ void hand_over() {
    barriers().bands.arrive_full_by_warp(to_.stage);
    to_.advance(a_.bands.stages);
  }

  __device__ __forceinline__ static bool is_below(int i, int end) {
    return static_cast<uint32_t>(i) < static_cast<uint32_t>(end);
  }

  /// Of a later band, to the L2 cache: memory is further away than registers reach.
  __device__ __forceinline__ void ask_for_lines() const {
    const auto [row, channel] = a_.lines.channels.divide(thread());
    if (row >= a_.bands.rows || a_.lines.elements == 0 || !walk_.has(kLinesAhead)) return;
    const int y = walk_.y(kLinesAhead) + row;
    if (!is_below(y, a_.h)) return;
    const int x = walk_.x(), first = max(x, 0);
    const int end = min(x + a_.bands.positions * a_.stride_w + kUnitColumns, a_.w);
    const Moved* line = origin(walk_.tile(), y, first) + channel * a_.stride_c;
    ptx::prefetch(line, (end - first) * int64_t{a_.lines.elements} * sizeof(Moved));
  }

  /// Of a warp's.
  template <int kCount>
  __device__ __forceinline__ static Magnitudes magnitudes_of(
      const float (&elements)[kCount][kElements]) {
    Magnitudes magnitudes;
#pragma unroll
    for (int i = 0; i < kCount; ++i)
#pragma unroll
      for (int e = 0; e < kElements; e += 2) magnitudes.add(elements[i][e], elements[i][e + 1]);
    magnitudes.merge_warp();
    return magnitudes;
  }

  /// Of all elements of the band, by all threads of the warpgroup.
  __device__ __forceinline__ Magnitudes merge(Magnitudes magnitudes) {
    Magnitudes(&shared)[4] = barriers().magnitudes[turn_];
    turn_ ^= 1;
    if (threadIdx.x % 32 == 0) shared[thread() / 32] = magnitudes;
    ptx::named_barrier(kStagingBarrier, kThreads);
    for (const Magnitudes& of_warp : shared) magnitudes.merge(of_warp);
    return magnitudes;
  }

  /// Where the thread's first unit of the band goes.
  __device__ __forceinline__ uint4* place() const {
    return reinterpret_cast<uint4*>(block_.slab(to_.stage)) + thread();
  }

  template <int kCount>
  __device__ __forceinline__ void store(const uint4 (&units)[kCount]) const {
    uint4* to = place();
#pragma unroll
    for (int i = 0; i < kCount; ++i)
      if (units_[i].row != kOutside) to[i * kThreads] = units[i];
  }

  template <int kCount>
  __device__ __forceinline__ void store(const float (&elements)[kCount][kElements],
                                        const Scale& scale) const {
    uint4* to = place();
    const int part = a_.bands.part_bytes / kUnitBytes;
#pragma unroll
    for (int i = 0; i < kCount; ++i, to += kThreads)
      if (units_[i].row != kOutside) split_unit(elements[i], scale.factor, to[0], to[part]);
    if (thread() == 0) barriers().scales[to_.stage] = {scale.inverse, scale.fit};
  }

  const Arguments<Element>& a_;
  Block<T> block_;
  BandWalk<Element> walk_;
  Cursor to_;
  int turn_ = 0;
  Unit units_[kUnits];
};

}  // namespace im2win::cuda::fused::stem
