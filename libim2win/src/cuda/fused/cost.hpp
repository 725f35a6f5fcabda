// What a tile of im2win_fused costs: a model, fitted to measurement. Host-only.
#pragma once

#include "cuda/fused/tile.hpp"
#include "problem.hpp"

namespace im2win::cuda::fused {

class CostModel {
 public:
  /// `has_units`: units are in the input, neighbouring channels. `copied_bytes`: of which so many at a time can be copied.
  CostModel(const Problem& problem, Operands operands, const Chip& chip, bool has_units,
            int copied_bytes)
      : problem_(problem),
        operands_(operands),
        traits_(traits(operands)),
        chip_(chip),
        split_(operands == Operands::kSplit),
        has_units_(has_units),
        copied_bytes_(copied_bytes) {}

  /// Of the multiprocessor that has most to do.
  double cycles(const Tile& tile, const KernelShape& shape) const;

 private:
  struct Rates;

  /// Whether all multiprocessors have about a tile or more, whatever tiles are, of channels that are several slabs.
  bool has_many_tiles() const;
  /// Where units are copied as they are, come as boxes, or are transposed; or not.
  const Rates& rates(const Tile& tile, bool copied) const;
  bool copies(const Tile& tile) const {
    return copied_bytes_ > 0 && tile.raw.stages == 0 && !tile.boxed() && !tile.from_lines;
  }
  /// Of shared memory, for a tile: a product's 64 filters are read at 64 bytes a cycle, however few its columns, and what
  /// comes is put there at 128. (Measured of boxes of 16-bit operands, where narrow products take longer than they should.)
  double shared_cycles(const Tile& tile, const KernelShape& shape, double steps,
                       double slabs) const;
  /// Of rows of boxes that end amid a sector of memory, 32 bytes, where the next one begins: the L2 cache takes about twice
  /// as long for these as for others. Blocks that share windows ask for half of them.
  double row_cycles(const Tile& tile, const KernelShape& shape, double slabs, double batches) const;
  double write_cycles(const Tile& tile, const KernelShape& shape) const;
  double slab_cycles(const Tile& tile, const KernelShape& shape) const;
  /// Of eight pixels of four channels that are read from lines at a time, how many more times.
  double line_conflicts(const Tile& tile) const;
  /// Of a unit of pixels that are moved to rows, how many times as long as others.
  double pixel_copies(const Tile& tile) const;
  /// Which part of a tile's slabs has more channels than there are.
  double last_chunks(const Tile& tile) const;
  /// Of a slab of so many words that are transposed, if the tile is a run: what is the same for all boxes.
  double run_cycles(const Tile& tile, const KernelShape& shape, double words) const;
  /// Of the kernel that packs filters, if these do not come as they are.
  double pack_cycles(const Tile& tile) const;
  /// Of adding a cluster's sums.
  static double cluster_cycles(const Tile& tile, const Rates& rates);

  const Problem& problem_;
  Operands operands_;
  OperandTraits traits_;
  Chip chip_;
  bool split_, has_units_;
  int copied_bytes_;
};

}  // namespace im2win::cuda::fused
