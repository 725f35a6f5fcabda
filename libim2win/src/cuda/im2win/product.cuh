// The product of packed filters with windows that lie in memory: the GEMM of Algorithm 3 (paper),
// configured for one problem.
#pragma once

#include <cstdint>
#include <string>

#include "backend.hpp"
#include "cuda/im2win/block.cuh"
#include "cuda/im2win/tile.hpp"
#include "cuda/window.cuh"
#include "problem.hpp"

namespace im2win::cuda {

class Im2winProduct {
 public:
  /// `layout` is where the windows lie. Variants need the same memory: that of the whole algorithm
  /// with the tile it would choose.
  Im2winProduct(const Problem& problem, const WindowLayout& layout, const Target& target,
                Im2winVariant variant);

  int64_t packed_filter_bytes() const { return packed_filter_bytes_; }
  void pack_filter(const void* filter, void* packed, void* stream) const;
  /// The buffers' filter is packed, and their input not read.
  void run(const void* windows, const Buffers& buffers, void* stream) const;

 private:
  Im2winProduct(const Problem& problem, const WindowLayout& layout, int tile,
                Im2winVariant variant);

  Problem problem_;
  Im2winTile tile_;
  Im2winKernel kernel_;
  Im2winArguments arguments_;
  int64_t packed_filter_bytes_;
};

/// Why there is no such product, of windows that lie in so many bytes; "" if there is.
std::string refuse_im2win_product(const Problem& problem, const WindowLayout& layout,
                                  int64_t windows_bytes);

}  // namespace im2win::cuda
