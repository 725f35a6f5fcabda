// Which columns of products are a tile's outputs, and where these are.
#pragma once

#include <cstdint>

#include "cuda/fused/arguments.cuh"
#include "cuda/fused/block.cuh"
#include "cuda/fused/slabs.cuh"
#include "cuda/fused/sum_again.cuh"
#include "cuda/ptx.cuh"

namespace im2win::cuda::fused {

/// Those of a thread's warpgroup, or some of them. Columns are counted from the first.
template <class T>
class TileColumns {
 public:
  using Element = typename T::Element;

  /// The table of columns, by all threads that multiply, before any tile. A tile's outputs are near each
  /// other (Search::has_near_outputs).
  __device__ __forceinline__ static void make_table(const Arguments<Element>& a, Block<T> block) {
    const int first = static_cast<int>(threadIdx.x) - T::kFirstMultiplier;
    for (int i = first; i < table_columns(a.tile, T::kShape); i += T::kShape.multiplying_threads())
      block.columns()[i] = located(a, i);
    if (!a.tile.whole_planes) return;
    for (int i = first; i < T::kShape.columns; i += T::kShape.multiplying_threads()) {
      const ColumnPlace at = located(a, i);
      const bool is_output = at.row < a.p && at.column < a.q && at.image < a.tile.images;
      const int pixel = (at.image * kPlaneFilters * a.p + at.row) * a.q + at.column;
      block.plane_places()[i] =
          is_output ? static_cast<uint16_t>(pixel * sizeof(Element)) : kNoPlace;
    }
  }

  /// `first`: the warpgroup's first column of the tile.
  __device__ __forceinline__ TileColumns(const Arguments<Element>& a, Block<T> block,
                                         const TilePosition& tile, int first)
      : a_(a),
        block_(block),
        tile_(tile),
        first_(first),
        images_(static_cast<int>(min(a.n - tile.n, int64_t{a.tile.images}))),
        rows_(min(a.p - tile.p, a.tile.rows)),
        columns_(min(a.q - tile.q, a.tile.columns)),
        count_(a.tile.warpgroup_columns) {}

  /// Only so many of the tile's columns, from one on.
  __device__ __forceinline__ void enter(int first, int count) {
    first_ = first;
    count_ = count;
  }

  __device__ __forceinline__ ColumnPlace place(int column) const {
    if constexpr (T::kShape.pixel_rows || T::kShape.pixel_major) return located(column);
    return block_.columns()[tile_.begin + first_ + column];
  }
  /// Where there may be no table.
  __device__ __forceinline__ ColumnPlace located(int column) const {
    return located(a_, tile_.begin + first_ + column);
  }
  /// Whether it is an output.
  __device__ __forceinline__ bool is_output(const ColumnPlace& place, int column) const {
    return column < count_ && place.row < rows_ && place.column < columns_ && place.image < images_;
  }
  /// Of the tile, those that exist.
  __device__ __forceinline__ int images() const { return images_; }
  /// Whether there are any from one on.
  __device__ __forceinline__ bool has_any(int first) const {
    return !kHasClusters<T> || first < count_;
  }
  /// Its place in the output, or kNowhere.
  __device__ __forceinline__ int output_at(int column) const {
    const ColumnPlace place = this->place(column);
    return is_output(place, column) ? place.output : kNowhere;
  }

  /// Of the tile.
  __device__ __forceinline__ typename Outputs<Element, float>::Pixel first_pixel() const {
    return a_.outputs.pixel(tile_.n, tile_.p, tile_.q);
  }
  __device__ __forceinline__ typename Outputs<Element, float>::Pixel pixel(
      const ColumnPlace& at) const {
    return a_.outputs.pixel(tile_.n + at.image, tile_.p + at.row, tile_.q + at.column);
  }

  /// What the warp forms again for a column and filter k.
  __device__ __forceinline__ float sum_again(int64_t k, int column) const {
    const ColumnPlace at = located(column);
    return fused::sum_again(a_, tile_.group, k, tile_.n + at.image, tile_.p + at.row,
                            tile_.q + at.column);
  }

 private:
  /// Of a tile, or of those where runs begin in its first row.
  __device__ __forceinline__ static ColumnPlace located(const Arguments<Element>& a, int i) {
    const auto [line, column] = a.column_pitch.divide(i);
    const auto [row, image] = a.tile_images.divide(line);
    const auto offset = [&](const int64_t* strides) {
      return static_cast<int32_t>(image * strides[0] + row * strides[2] + column * strides[3]);
    };
    return {offset(a.outputs.strides()),
            a.outputs.residual_data() == nullptr ? 0 : offset(a.outputs.residual_strides()), column,
            static_cast<uint16_t>(row), static_cast<uint16_t>(image)};
  }

  const Arguments<Element>& a_;
  Block<T> block_;
  TilePosition tile_;
  int first_, count_;
  int images_, rows_, columns_;  // of the tile that are outputs
};

}  // namespace im2win::cuda::fused
