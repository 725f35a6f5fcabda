// Tensors of a fuzzed call: memory of just the size that they need, what is in it, and what is
// allowed to change.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>

#include "im2win/im2win.h"

namespace fuzz {

/// Bytes that end where AddressSanitizer's redzone begins; those before them are poisoned, and
/// compared as well, as it knows memory by eights.
class Memory {
 public:
  /// Content of all ones, NaN in every dtype, `shift` bytes off an alignment of 256.
  Memory(int64_t bytes, int64_t shift);
  ~Memory();
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;

  uint8_t* data() const { return base_ + kHead + shift_; }
  int64_t size() const { return bytes_; }
  bool is_untouched() const;
  bool is_head_untouched() const;

 private:
  static constexpr int64_t kHead = 256;
  uint8_t* base_;
  int64_t bytes_;
  int64_t shift_;
};

constexpr uint8_t kPoison = 0xFF;

/// Where the elements of a tensor are, in elements from [0, 0, 0, 0].
struct Shape {
  int64_t size[4];
  int64_t stride[4];

  Shape(const int64_t (&sizes)[4], int32_t layout, const int64_t (&strides)[4]);
  int64_t elements() const { return size[0] * size[1] * size[2] * size[3]; }
  int64_t lowest() const;
  int64_t highest() const;
  int64_t at(int64_t n, int64_t c, int64_t h, int64_t w) const {
    return n * stride[0] + c * stride[1] + h * stride[2] + w * stride[3];
  }
  /// Calls with the index of each element.
  void each(const std::function<void(int64_t n, int64_t c, int64_t h, int64_t w)>& visit) const;
};

class Tensor {
 public:
  Tensor(const Shape& shape, int32_t dtype, int64_t shift);

  const Shape& shape() const { return shape_; }
  /// Element [0, 0, 0, 0].
  void* pointer() const { return memory_.data() - shape_.lowest() * bytes_; }
  const Memory& memory() const { return memory_; }
  double get(int64_t n, int64_t c, int64_t h, int64_t w) const;
  /// Small integers from a seed; a few NaN and Inf, if special.
  void fill(uint64_t seed, bool is_special);
  /// Whether all that is written lies in elements.
  bool are_gaps_untouched() const;

 private:
  uint8_t* address(int64_t n, int64_t c, int64_t h, int64_t w) const {
    return memory_.data() + (shape_.at(n, c, h, w) - shape_.lowest()) * bytes_;
  }

  Shape shape_;
  int32_t dtype_;
  int64_t bytes_;  // of an element
  Memory memory_;
};

int64_t element_bytes(int32_t dtype);

}  // namespace fuzz
