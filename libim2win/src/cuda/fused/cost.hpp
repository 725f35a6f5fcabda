// What a tile of im2win_fused costs: a model, fitted to measurement. Host-only.
#pragma once

#include "cuda/fused/tile.hpp"
#include "problem.hpp"

namespace im2win::cuda::fused {

class CostModel {
 public:
  /// `copies`: units are in the input as they are.
  CostModel(const Problem& problem, Operands operands, const Chip& chip, bool copies)
      : problem_(problem),
        traits_(traits(operands)),
        chip_(chip),
        split_(operands == Operands::kSplit),
        copies_(copies) {}

  /// Of the multiprocessor that has most to do.
  double cycles(const Tile& tile, const KernelShape& shape) const;

 private:
  struct Rates;

  const Rates& rates() const;
  double write_cycles(const Tile& tile, const KernelShape& shape) const;
  double slab_cycles(const Tile& tile, const KernelShape& shape) const;

  const Problem& problem_;
  OperandTraits traits_;
  Chip chip_;
  bool split_, copies_;
};

}  // namespace im2win::cuda::fused
