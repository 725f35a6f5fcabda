// A fuzzer's bytes, read as the arguments of calls. Every byte string is some call; most bytes mean
// tame values, so that legal problems come up, and some mean hostile ones.
#pragma once

#include <cstddef>
#include <cstdint>

#include "im2win/im2win.h"

namespace fuzz {

/// Zeros after its end.
class Bytes {
 public:
  Bytes(const uint8_t* data, size_t size) : data_(data), end_(data + size) {}

  uint8_t byte() { return data_ < end_ ? *data_++ : uint8_t{0}; }
  /// Of eight bytes.
  uint64_t word();
  /// Mostly in [least, least + 9), sometimes at the edge of a tile, sometimes out of all bounds.
  int64_t size(int64_t least);
  /// Below `count`; once in a while any.
  int32_t choice(int32_t count);
  /// Mostly a small number.
  double scale();

 private:
  const uint8_t* data_;
  const uint8_t* end_;
};

/// What is wrong with the pointers of a call.
enum class Abuse {
  kNone,
  kNull,        // one of them is NULL
  kMisaligned,  // one is a byte off
  kOverlap,     // the output is the input
  kShort,       // the workspace is a byte short
  kUnexpected,  // a bias or residual that the plan has not
};
constexpr int32_t kAbuses = 6;

struct Call {
  im2win_conv2d_desc desc;
  im2win_plan_options options;
  char algorithm[16];
  const char* isa;  // the value of IM2WIN_CPU_ISA
  Abuse abuse;
  int32_t victim;      // the tensor that kNull and kMisaligned are about
  int64_t shift;       // elements that buffers lie off their alignment
  bool is_in_place;    // the residual is the output, if their strides agree
  bool is_special;     // some elements are NaN or Inf
  uint64_t data_seed;  // of the elements

  explicit Call(Bytes& bytes);
  /// options.algorithm may point into it.
  Call(const Call&) = delete;
  Call& operator=(const Call&) = delete;

 private:
  void read_sizes(Bytes& bytes);
  void read_layouts(Bytes& bytes);
  void read_epilogue(Bytes& bytes);
  void read_options(Bytes& bytes);
};

}  // namespace fuzz
