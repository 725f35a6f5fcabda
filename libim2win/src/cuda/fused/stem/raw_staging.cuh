// Bands from rows of the input that are in shared memory as they lie.
#pragma once

#include <cstdint>

#include "cuda/fused/operands.cuh"
#include "cuda/fused/stem/arguments.cuh"
#include "cuda/fused/stem/raw_bands.cuh"
#include "cuda/fused/stem/staging.cuh"

namespace im2win::cuda::fused::stem {

/// By a warpgroup. A thread has all units of some positions: of a pair of rows or, where bands are dense, of the whole
/// window. Neighbouring lanes have neighbouring positions.
template <class T>
class RawStaging {
 public:
  using Element = typename T::Element;
  using Moved = fused::Moved<T::kOperands>;

  __device__ __forceinline__ RawStaging(const Arguments<Element>& a, Block<T> block)
      : a_(a),
        walk_(a),
        raw_(a, block),
        ring_(a, block, 0),
        items_{Item(a, thread()), Item(a, thread() + kThreads)} {}

  __device__ __forceinline__ void run() {
    Cursor before;
    for (; !walk_.ended(); walk_.advance()) {
      const uint32_t first = raw_.wait_full();
      ring_.wait_empty();
#pragma unroll
      for (const Item& item : items_)
        if (item.exists) stage(first, item);
      const Cursor own = ring_.at();
      ring_.hand_over();
      raw_.advance(before);
      before = own;
    }
  }

 private:
  static constexpr int kThreads = 128;
  static constexpr int kElements = traits(T::kOperands).unit_elements;
  static constexpr bool kDense = T::kShape.dense;
  // Of a position.
  static constexpr int kRows = kDense ? kDenseTaps : unit_rows(T::kOperands);
  static constexpr int kColumns = kDense ? kDenseTaps : kUnitColumns;
  static constexpr int kUnits = kDense ? 2 * kDenseSteps : kRawChannels;
  using Row = RawPixels<kColumns>;

  /// A position of a pair of rows, or window, which is the same in all bands. Windows of a dense band are of rows of
  /// outputs one after another, and behind these nothing: zeros.
  struct Item {
    bool exists;
    int32_t row;    // of the band's
    uint32_t from;  // in bytes from the band's first column
    int32_t to;     // in units
    typename Row::Mask mask;

    __device__ __forceinline__ Item(const Arguments<Element>& a, int number)
        : Item(a, number, a.run_order.quotient(number), a.run_order.divide(number).remainder) {}

   private:
    /// `line`: of pairs of rows, or of outputs.
    __device__ __forceinline__ Item(const Arguments<Element>& a, int number, int line, int position)
        : exists(number < raw_items(a.bands, kDense)),
          row(has_windows(a, line) ? line * (kDense ? a.stride_h : kRows) : 0),
          from((row * a.w + position * a.stride_w) * kRawPixelBytes),
          to(kDense ? number : line * kUnits * a.bands.positions + position),
          mask(has_windows(a, line) ? columns(a, position * a.stride_w - a.padding_left) : 0) {}

    __device__ __forceinline__ static bool has_windows(const Arguments<Element>& a, int line) {
      return !kDense || line < a.bands.output_rows;
    }

    /// A bit for each from x on that is in the input.
    __device__ __forceinline__ static uint32_t columns(const Arguments<Element>& a, int x) {
      uint32_t columns = 0;
#pragma unroll
      for (int i = 0; i < kColumns; ++i) columns |= uint32_t{is_below(x + i, a.w)} << i;
      return columns;
    }
  };

  __device__ __forceinline__ static int thread() { return BandRing<T>::thread(); }

  __device__ __forceinline__ void stage(uint32_t first, const Item& item) const {
    const auto row = [&](int i) {
      return Row(first + item.from + i * a_.w * kRawPixelBytes, item.mask,
                 is_below(walk_.y() + item.row + i, a_.h));
    };
    uint4* const to = ring_.units() + item.to;
    if constexpr (kDense) {
      const Row rows[] = {row(0), row(1), row(2)};
      put(to, [&](int unit, int i) { return of_window(rows, unit * kElements + i); });
    } else {
      const Row rows[] = {row(0), row(1)};
      put(to, [&](int channel, int i) { return rows[i / kColumns](i % kColumns, channel); });
    }
  }

  /// Zeros behind the last, in the order of the filter.
  __device__ __forceinline__ static Moved of_window(const Row (&rows)[kDenseTaps], int element) {
    constexpr int kTaps = kDenseTaps * kDenseTaps;
    if (element >= kRawChannels * kTaps) return Moved{};
    return rows[element % kTaps / kDenseTaps](element % kDenseTaps, element / kTaps);
  }

  /// element(number of the unit, of its element).
  template <class ElementOf>
  __device__ __forceinline__ void put(uint4* to, const ElementOf& element) const {
#pragma unroll
    for (int unit = 0; unit < kUnits; ++unit) {
      Moved x[kElements];
#pragma unroll
      for (int i = 0; i < kElements; ++i) x[i] = element(unit, i);
      to[unit * a_.bands.positions] = pack_unit(x);
    }
  }

  const Arguments<Element>& a_;
  BandWalk<Element> walk_;
  RawBands<T> raw_;
  BandRing<T> ring_;
  Item items_[kRawItems];
};

}  // namespace im2win::cuda::fused::stem
