// The loops of the CPU's depthwise algorithm. One instance an instruction set, all from
// depthwise_template.hpp, chosen at run time.
#pragma once

#include <cstdint>

#include "cpu/half.hpp"

namespace im2win::cpu {

/// What elements of a tensor are computed in.
template <class Element>
struct ComputeOf {
  using Type = float;
};
template <>
struct ComputeOf<double> {
  using Type = double;
};

/// A sum x leaves a kernel as: x + bias, raised to low, lowered to high; NaN stays.
template <class Compute>
struct Range {
  Compute low;
  Compute high;
};

/// A row of outputs, all its channels, channels being next to each other in memory. Filter rows
/// outside the image are left out by the caller, columns outside by the kernel.
template <class Compute>
struct ChannelRow {
  const Compute* input = nullptr;  // column 0, channel 0 of what the first filter row meets
  const Compute* next = nullptr;   // likewise, the first row that the next row of outputs adds
  int64_t next_stride = 0;
  int64_t next_rows = 0;  // to be prefetched
  int64_t row_stride;     // of the input, from one filter row to the next
  int64_t column_stride;
  int64_t columns;                  // of the input
  int64_t padding;                  // left of them
  const Compute* filter = nullptr;  // row, column, channel
  int64_t filter_stride;            // of its columns
  int64_t filter_rows = 0;
  int64_t filter_columns;
  int64_t stride;    // along the row
  int64_t dilation;  // along the row
  const Compute* bias;
  Range<Compute> range;
  int64_t channels;  // at least a vector of them
  Compute* output;
  int64_t output_stride;
  int64_t outputs;
};

/// output[i] = sum over taps of weights[tap] * input[offsets[tap] + i]. `count` is a whole number
/// of vectors.
template <class Compute>
struct PlaneSum {
  const Compute* input;
  const int64_t* offsets;
  const Compute* weights;
  int64_t taps;
  Compute bias;
  Range<Compute> range;
  Compute* output;
  int64_t count;
};

/// Rows of equal length to be copied, with conversion. Strides are in elements.
template <class Source, class Target>
struct Rows {
  const Source* source;
  int64_t source_stride;  // from row to row
  int64_t source_step;    // from element to element
  Target* target;         // its elements are next to each other
  int64_t target_stride;
  int64_t rows;
  int64_t count;
};

/// The kernels of an instruction set for one type of tensor.
template <class Element>
struct DepthwiseKernels {
  using Compute = typename ComputeOf<Element>::Type;
  int64_t vector_elements;  // of type Compute
  void (*sum_channels)(const ChannelRow<Compute>& row);
  void (*sum_plane)(const PlaneSum<Compute>& sum);
  void (*load)(const Rows<Element, Compute>& rows);
  void (*store)(const Rows<Compute, Element>& rows);
};

/// The kernels of an instruction set for all types.
struct DepthwiseKernelSet {
  DepthwiseKernels<double> float64;
  DepthwiseKernels<float> float32;
  DepthwiseKernels<Float16> float16;
  DepthwiseKernels<BFloat16> bfloat16;
};

extern const DepthwiseKernelSet baseline_depthwise_kernels;
#if defined(IM2WIN_X86)
extern const DepthwiseKernelSet avx2_depthwise_kernels;
extern const DepthwiseKernelSet avx512_depthwise_kernels;
#endif

}  // namespace im2win::cpu
