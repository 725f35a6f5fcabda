// The inputs of Winograd's algorithm: tiles of the padded input, each what 2 x 2 outputs see of it. Neighbours in a
// row are a strip.
#pragma once

#include <algorithm>

#include "checked.hpp"
#include "cpu/kernels.hpp"
#include "cpu/winograd/axis.hpp"
#include "cpu/winograd/evenness.hpp"
#include "problem.hpp"

namespace im2win::cpu {

constexpr int64_t kMostTaskTiles = 64;

/// Whether a task may take all tiles, so that each filter serves but once.
inline bool has_few_tiles(const Problem& problem) {
  const Problem& d = problem;
  return d.n == 0 || !exceeds(kMostTaskTiles, {d.n, ceil_div(d.p, 2), ceil_div(d.q, 2)});
}

/// Tiles [begin, begin + tiles) of a row of tiles of an image.
struct Strip {
  int64_t n;
  int64_t row;
  int64_t begin;
  int64_t tiles;

  int64_t p() const { return 2 * row; }
  int64_t q() const { return 2 * begin; }
};

/// Strips [begin, end) of a group, counted over all images.
struct StripBlock {
  int64_t group;
  int64_t begin, end;
};

template <class Element>
class WinogradStrips {
 public:
  using Compute = typename ComputeOf<Element>::Type;

  /// For blocks of strips with `tiles` tiles together, if a strip has no more.
  WinogradStrips(const Problem& problem, int64_t tiles);

  int64_t count() const { return problem_.n * rows_ * per_row_; }
  /// Strips of a block, at most. Above 1 only where strips are whole rows.
  int64_t per_block() const { return per_block_; }
  bool are_whole_rows() const { return per_row_ == 1; }
  /// Tiles of a strip, at most.
  int64_t strip_tiles() const { return tiles_; }
  int64_t block_tiles() const { return per_block_ * tiles_; }
  Strip operator[](int64_t index) const;

  /// Those of a group, and zeros up to whole vectors.
  int64_t channels() const { return channels_; }
  int64_t panel_elements() const { return panel_rows_ * row_stride_; }
  /// Copies what a block sees to the panel: row, column, channel.
  void fill(const Element* input, const StripBlock& block, Compute* panel) const;
  /// What the first output of a strip sees first.
  int64_t panel_offset(const StripBlock& block, int64_t index) const;
  int64_t column_stride() const { return channels_; }
  int64_t row_stride() const { return row_stride_; }

  /// The block's transformed inputs: point, tile, entry of the point, channel.
  int64_t points_elements() const { return point_offsets_[kWinogradPoints]; }
  int64_t point_offset(int64_t point) const { return point_offsets_[point]; }
  int64_t tile_stride(int64_t point) const { return window_.depth(point) * channels_; }
  /// Where a tile has values [begin, begin + count) of a point, of `channels` of each entry.
  void list_offsets(int64_t begin, int64_t count, int64_t channels, int64_t* offsets) const;
  /// Says of each strip what its inputs are like.
  void transform(const Compute* panel, const StripBlock& block, Compute* points,
                 StripInputs* inputs) const;

 private:
  int64_t image_row(const StripBlock& block, int64_t index) const;
  int64_t fewest_products(const Strip& strip) const;
  int64_t transform_strip(const Strip& strip, const Compute* panel, int64_t first_tile,
                          Compute* points, Spread<Compute>& spread) const;
  void fill_row(const Element* image, int64_t y, int64_t x, Compute* target) const;

  Problem problem_;
  const Kernels<Element>& kernels_;
  WinogradWindow window_;
  int64_t rows_;     // of tiles, of an image
  int64_t columns_;  // likewise
  int64_t per_row_;
  int64_t tiles_;  // of a strip, at most
  int64_t per_block_;
  int64_t channels_;
  int64_t panel_rows_, panel_columns_;
  int64_t row_stride_;
  int64_t point_offsets_[kWinogradPoints + 1];
};

}  // namespace im2win::cpu
