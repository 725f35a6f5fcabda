// The tensor maps of a launch whose inputs and outputs are boxes (see boxes.cuh). Host-only.
#pragma once

#include <cstdint>

#include "checked.hpp"
#include "cuda/fused/shared.hpp"
#include "cuda/fused/tile.hpp"
#include "cuda/tensor_map.hpp"
#include "problem.hpp"

namespace im2win::cuda::fused {

/// The tensors whose boxes a plan's launches copy.
class BoxedTensors {
 public:
  BoxedTensors(const Problem& problem, const Tile& tile, Operands operands)
      : input_(problem.input),
        output_(problem.output),
        stride_h_(problem.stride_h),
        stride_w_(problem.stride_w),
        bytes_(moved_bytes(operands)),
        input_type_(operands == Operands::kTf32 ? CU_TENSOR_MAP_DATA_TYPE_TFLOAT32
                                                : type_of(operands)),
        output_type_(type_of(operands)),
        input_box_{unsigned_of(tile.row_units * tile.unit_channels), unsigned_of(tile.pitch),
                   unsigned_of(tile.images), unsigned_of(tile.box_rows)},
        output_box_{unsigned_of(kBoxRowBytes / bytes_), unsigned_of(tile.columns),
                    unsigned_of(tile.images), unsigned_of(tile.rows)} {}

  /// Each phase is every stride'th row and column, from one on.
  void map_inputs(const void* data, CUtensorMap (&maps)[kMaxPhases]) const {
    CUtensorMap* map = maps;
    for (int64_t row = 0; row < stride_h_; ++row)
      for (int64_t column = 0; column < stride_w_; ++column, ++map) {
        Tensor phase = input_;
        phase.size[2] = ceil_div(input_.size[2] - row, stride_h_);
        phase.size[3] = ceil_div(input_.size[3] - column, stride_w_);
        phase.stride[2] *= stride_h_;
        phase.stride[3] *= stride_w_;
        const int64_t first = row * input_.stride[2] + column * input_.stride[3];
        *map = tensor_map(input_type_, bytes_, static_cast<const char*>(data) + first * bytes_,
                          phase, input_box_);
      }
  }

  CUtensorMap map_output(const void* data) const {
    return tensor_map(output_type_, bytes_, data, output_, output_box_);
  }

 private:
  static CUtensorMapDataType type_of(Operands operands) {
    switch (operands) {
      case Operands::kHalf: return CU_TENSOR_MAP_DATA_TYPE_FLOAT16;
      case Operands::kBFloat16: return CU_TENSOR_MAP_DATA_TYPE_BFLOAT16;
      default: return CU_TENSOR_MAP_DATA_TYPE_FLOAT32;
    }
  }
  static uint32_t unsigned_of(int64_t x) { return static_cast<uint32_t>(x); }

  Tensor input_, output_;
  int64_t stride_h_, stride_w_, bytes_;
  CUtensorMapDataType input_type_, output_type_;
  Box input_box_, output_box_;
};

}  // namespace im2win::cuda::fused
