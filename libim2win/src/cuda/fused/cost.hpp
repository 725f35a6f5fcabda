// What a tile of im2win_fused costs: a model, fitted to measurement. Host-only.
#pragma once

#include "cuda/fused/tile.hpp"
#include "problem.hpp"

namespace im2win::cuda::fused {

class CostModel {
 public:
  /// `has_units`: units are in the input, neighbouring channels.
  CostModel(const Problem& problem, Operands operands, const Chip& chip, bool has_units)
      : problem_(problem),
        operands_(operands),
        traits_(traits(operands)),
        chip_(chip),
        split_(operands == Operands::kSplit),
        has_units_(has_units),
        copies_(has_units && are_elements(operands)) {}

  /// Of the multiprocessor that has most to do.
  double cycles(const Tile& tile, const KernelShape& shape) const;

 private:
  struct Rates;

  /// Where units are copied as they are, come as boxes, or are transposed; or not.
  const Rates& rates(const Tile& tile, bool copied) const;
  double write_cycles(const Tile& tile, const KernelShape& shape) const;
  double slab_cycles(const Tile& tile, const KernelShape& shape) const;
  /// Of the kernel that packs filters, if these do not come as they are.
  double pack_cycles(const Tile& tile) const;
  /// Of adding a cluster's sums.
  static double cluster_cycles(const Tile& tile, const KernelShape& shape);

  const Problem& problem_;
  Operands operands_;
  OperandTraits traits_;
  Chip chip_;
  bool split_, has_units_, copies_;
};

}  // namespace im2win::cuda::fused
