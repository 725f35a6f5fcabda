// The tensor maps of a launch whose inputs and outputs are boxes (see boxes.cuh). Host-only.
#pragma once

#include <cstdint>
#include <utility>

#include "checked.hpp"
#include "cuda/fused/raw_lines.hpp"
#include "cuda/fused/shared.hpp"
#include "cuda/fused/tile.hpp"
#include "cuda/tensor_map.hpp"
#include "problem.hpp"

namespace im2win::cuda::fused {

/// The tensors whose boxes a plan's launches copy.
class BoxedTensors {
 public:
  BoxedTensors(const Problem& problem, const Tile& tile, int filters, Operands operands)
      : input_(problem.input),
        output_(problem.output),
        residual_(problem.residual),
        filter_(problem.filter),
        stride_h_(problem.stride_h),
        stride_w_(problem.stride_w),
        bytes_(moved_bytes(operands)),
        input_type_(operands == Operands::kTf32 ? CU_TENSOR_MAP_DATA_TYPE_TFLOAT32
                                                : type_of(operands)),
        output_type_(type_of(operands)),
        plane_(tile.pixel_rows
                   ? pixel_rows(tile.units * tile.unit_channels)
                   : Box{{1, 3, 0, 2},
                         {unsigned_of(tile.row_units * tile.unit_channels), unsigned_of(tile.pitch),
                          unsigned_of(tile.images), unsigned_of(tile.box_rows)},
                         true}),
        raw_(tile.raw),
        lines_(lines(raw_, tile.images)),
        filters_{{1, 3, 2, 0},
                 {unsigned_of(tile.units * tile.unit_channels), 1, 1, unsigned_of(filters)},
                 true},
        output_box_(tile.pixel_rows
                        ? pixel_rows(kBoxedFilters)
                        : Box{{1, 3, 0, 2},
                              {unsigned_of(kRowBytes / bytes_), unsigned_of(tile.columns),
                               unsigned_of(tile.images), unsigned_of(tile.rows)},
                              true}) {}

  /// Planes of each phase: every stride'th row and column, from one on.
  void map_planes(const void* data, CUtensorMap (&maps)[kMaxPhases]) const {
    for (int64_t row = 0; row < stride_h_; ++row)
      for (int64_t column = 0; column < stride_w_; ++column)
        maps[row * stride_w_ + column] =
            map_phase(data, {row, column}, {stride_h_, stride_w_}, plane_);
  }

  /// Lines of every stride'th row, from one on; or one map, of planes.
  void map_lines(const void* data, CUtensorMap (&maps)[kMaxPhases]) const {
    if (!raw_.apart) {
      maps[0] = tensor_map(input_type_, bytes_, data, plane_lines(input_, raw_.phase_bits), lines_);
      return;
    }
    for (int64_t row = 0; row < stride_h_; ++row)
      maps[row] = map_phase(data, {row, 0}, {stride_h_, 1}, lines_);
  }

  CUtensorMap map_filter(const void* data) const {
    return tensor_map(input_type_, bytes_, data, filter_, filters_);
  }

  CUtensorMap map_output(const void* data) const {
    return tensor_map(output_type_, bytes_, data, output_, output_box_);
  }
  /// In boxes like the output's.
  CUtensorMap map_residual(const void* data) const {
    return tensor_map(output_type_, bytes_, data, residual_, output_box_);
  }

 private:
  struct Pixels {
    int64_t rows, columns;
  };

  CUtensorMap map_phase(const void* data, Pixels first, Pixels step, const Box& box) const {
    Tensor phase = input_;
    phase.size[2] = ceil_div(input_.size[2] - first.rows, step.rows);
    phase.size[3] = ceil_div(input_.size[3] - first.columns, step.columns);
    phase.stride[2] *= step.rows;
    phase.stride[3] *= step.columns;
    const int64_t begin = first.rows * input_.stride[2] + first.columns * input_.stride[3];
    return tensor_map(input_type_, bytes_, static_cast<const char*>(data) + begin * bytes_, phase,
                      box);
  }

  static CUtensorMapDataType type_of(Operands operands) {
    switch (operands) {
      case Operands::kHalf: return CU_TENSOR_MAP_DATA_TYPE_FLOAT16;
      case Operands::kBFloat16: return CU_TENSOR_MAP_DATA_TYPE_BFLOAT16;
      default: return CU_TENSOR_MAP_DATA_TYPE_FLOAT32;
    }
  }
  static Box lines(const RawLines& raw, int64_t images) {
    Box box = {{3, 1, 2, 0},
               {unsigned_of(raw.pitch), unsigned_of(raw.box_channels()),
                unsigned_of(raw.apart ? raw.rows : 1), unsigned_of(images)},
               raw.by_pixels != 0};
    if (raw.by_pixels) {
      std::swap(box.order[0], box.order[1]);
      std::swap(box.sides[0], box.sides[1]);
    }
    return box;
  }

  static uint32_t unsigned_of(int64_t x) { return static_cast<uint32_t>(x); }

  /// Of so many channels of a row.
  static Box pixel_rows(int64_t channels) {
    return {{3, 1, 2, 0}, {kRowPixels, unsigned_of(channels), 1, 1}, true};
  }

  Tensor input_, output_, residual_, filter_;
  int64_t stride_h_, stride_w_, bytes_;
  CUtensorMapDataType input_type_, output_type_;
  RawLines raw_;
  Box plane_, lines_, filters_, output_box_;
};

}  // namespace im2win::cuda::fused
