// How a four-dimensional tensor lies in memory, and whether two of them share any of it.
#pragma once

#include <cstdint>

#include "im2win/im2win.h"

namespace im2win {

/// No address space holds more bytes, and sums of a few such extents fit 64 bits.
constexpr int64_t kMaxExtent = int64_t{1} << 56;

/// Sizes and strides in elements, in the order N C H W (K C R S for a filter). Plain data: it is
/// passed to kernels as it is.
struct Tensor {
  int64_t size[4];
  int64_t stride[4];

  int64_t elements() const { return size[0] * size[1] * size[2] * size[3]; }
  /// Whether it is dense with W (C) fastest; strides of dimensions of size 0 or 1 do not matter.
  bool is_nchw() const;
  bool is_nhwc() const;
};

/// Bytes relative to element [0, 0, 0, 0]: the lowest address of any element, and one past the
/// highest.
struct ByteExtent {
  int64_t begin;
  int64_t end;
};

/// A tensor of these sizes in the layout; `strides` are read for IM2WIN_STRIDED. INVALID_ARGUMENT,
/// naming the tensor, where the layout is unknown or the byte extent is above kMaxExtent; for an
/// empty batch, that of one image.
Tensor make_tensor(const char* name, const int64_t (&size)[4], int32_t layout,
                   const int64_t (&strides)[4], int64_t element_bytes);

ByteExtent byte_extent(const Tensor& tensor, int64_t element_bytes);

/// Whether no two indices of the tensor share an address. It may refuse exotic strides that would
/// do: sorted by size, every stride must step over all that the smaller ones reach.
bool is_injective(const Tensor& tensor);

/// A tensor in memory: element [0, 0, 0, 0] is at `data`.
struct View {
  const void* data;
  Tensor tensor;
  int64_t element_bytes;
};

/// Whether an element of a may share bytes with one of b. Never false when they do; exact for dense
/// tensors and for slices of one buffer along any of its dimensions.
bool may_overlap(const View& a, const View& b);

}  // namespace im2win
