#include "tensor.hpp"

#include <algorithm>
#include <array>
#include <cstdlib>
#include <limits>

#include "checked.hpp"

namespace im2win {
namespace {

constexpr std::array<int, 4> kNchwOrder = {3, 2, 1, 0};  // fastest first
constexpr std::array<int, 4> kNhwcOrder = {1, 3, 2, 0};

bool is_dense(const Tensor& tensor, const std::array<int, 4>& fastest_first) {
  int64_t expected = 1;
  for (int dim : fastest_first) {
    if (tensor.size[dim] > 1 && tensor.stride[dim] != expected) return false;
    expected *= std::max<int64_t>(tensor.size[dim], 1);
  }
  return true;
}

void set_dense(Tensor& tensor, const std::array<int, 4>& fastest_first, const char* name) {
  int64_t stride = 1;
  for (int dim : fastest_first) {
    tensor.stride[dim] = stride;
    stride = checked_multiply(stride, std::max<int64_t>(tensor.size[dim], 1), name);
  }
}

void check_extent(const Tensor& tensor, int64_t element_bytes, const char* name) {
  int64_t elements = 1;
  int64_t reach = 1;
  for (int dim = 0; dim < 4; ++dim) {
    elements = checked_multiply(elements, std::max<int64_t>(tensor.size[dim], 1), name);
    require(tensor.stride[dim] != std::numeric_limits<int64_t>::min(), name, " stride ",
            tensor.stride[dim], " is out of range");
    const int64_t steps = std::max<int64_t>(tensor.size[dim] - 1, 0);
    reach = checked_add(reach, checked_multiply(steps, std::abs(tensor.stride[dim]), name), name);
  }
  for (int64_t count : {elements, reach}) {
    const int64_t bytes = checked_multiply(count, element_bytes, name);
    require(bytes <= kMaxExtent, name, " overflows: it has ", bytes, " bytes, expected at most ",
            kMaxExtent);
  }
}

/// Of sums of addresses and extents, which fit 64 bits each, whatever a caller passes.
using Wide = __int128;

/// The bytes that a tensor touches in every repetition of a period, as one interval
/// [begin, begin + length); where that is longer than the period, they are all of it.
struct Footprint {
  int64_t begin;
  int64_t length;
};

Footprint footprint(const View& view, int64_t period) {
  Tensor within = view.tensor;  // the dimensions that do not step by whole periods
  for (int dim = 0; dim < 4; ++dim) {
    if (within.stride[dim] * view.element_bytes % period == 0) within.size[dim] = 1;
  }
  const ByteExtent extent = byte_extent(within, view.element_bytes);
  return {extent.begin, extent.end - extent.begin};
}

bool disjoint_modulo(int64_t period, Wide distance, const Footprint& a, const Footprint& b) {
  if (Wide{a.length} + b.length > period) return false;
  Wide start = (distance + b.begin - a.begin) % period;  // of b, seen from a's first byte
  if (start < 0) start += period;
  return start >= a.length && start + b.length <= period;
}

}  // namespace

bool Tensor::is_nchw() const { return is_dense(*this, kNchwOrder); }
bool Tensor::is_nhwc() const { return is_dense(*this, kNhwcOrder); }

Tensor make_tensor(const char* name, const int64_t (&size)[4], int32_t layout,
                   const int64_t (&strides)[4], int64_t element_bytes) {
  Tensor tensor{};
  std::copy(std::begin(size), std::end(size), tensor.size);
  switch (layout) {
    case IM2WIN_NCHW: set_dense(tensor, kNchwOrder, name); break;
    case IM2WIN_NHWC: set_dense(tensor, kNhwcOrder, name); break;
    case IM2WIN_STRIDED:
      // The stride of a single element is never taken: 0 keeps odd ones out of all arithmetic.
      for (int dim = 0; dim < 4; ++dim) tensor.stride[dim] = size[dim] > 1 ? strides[dim] : 0;
      break;
    default:
      fail(IM2WIN_INVALID_ARGUMENT, name, "_layout is ", layout,
           ": expected IM2WIN_NCHW (0), IM2WIN_NHWC (1) or IM2WIN_STRIDED (2)");
  }
  check_extent(tensor, element_bytes, name);
  return tensor;
}

ByteExtent byte_extent(const Tensor& tensor, int64_t element_bytes) {
  int64_t lowest = 0;
  int64_t highest = 0;
  for (int dim = 0; dim < 4; ++dim) {
    if (tensor.size[dim] == 0) return {0, 0};
    const int64_t reach = (tensor.size[dim] - 1) * tensor.stride[dim];
    (reach < 0 ? lowest : highest) += reach;
  }
  return {lowest * element_bytes, (highest + 1) * element_bytes};
}

bool is_injective(const Tensor& tensor) {
  if (tensor.elements() == 0) return true;
  std::array<int, 4> order = kNchwOrder;
  std::sort(order.begin(), order.end(),
            [&](int a, int b) { return std::abs(tensor.stride[a]) < std::abs(tensor.stride[b]); });
  int64_t reach = 1;
  for (int dim : order) {
    if (tensor.size[dim] <= 1) continue;
    const int64_t stride = std::abs(tensor.stride[dim]);
    if (stride < reach) return false;
    reach += (tensor.size[dim] - 1) * stride;
  }
  return true;
}

bool may_overlap(const View& a, const View& b) {
  const ByteExtent a_extent = byte_extent(a.tensor, a.element_bytes);
  const ByteExtent b_extent = byte_extent(b.tensor, b.element_bytes);
  const Wide distance =
      Wide{reinterpret_cast<intptr_t>(b.data)} - reinterpret_cast<intptr_t>(a.data);
  if (a_extent.begin == a_extent.end || b_extent.begin == b_extent.end) return false;
  if (a_extent.end <= distance + b_extent.begin) return false;
  if (distance + b_extent.end <= a_extent.begin) return false;
  // Their ranges meet. Slices of one buffer interleave with the period of the sliced dimension's
  // neighbour: they are apart if they touch different parts of every period.
  for (int64_t stride : a.tensor.stride) {
    const int64_t period = std::abs(stride) * a.element_bytes;
    if (period != 0 &&
        disjoint_modulo(period, distance, footprint(a, period), footprint(b, period)))
      return false;
  }
  return true;
}

}  // namespace im2win
