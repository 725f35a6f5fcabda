// The 16-bit floating-point types of tensors on the host, which C++20 does not have: storage and
// conversion, no arithmetic. Rounding is to nearest, ties to even.
#pragma once

#include <bit>
#include <cstdint>

namespace im2win::cpu {

/// The upper half of a float32.
struct BFloat16 {
  uint16_t bits;

  BFloat16() = default;
  explicit BFloat16(float value) {
    const auto word = std::bit_cast<uint32_t>(value);
    const bool is_nan = (word & 0x7fffffffU) > 0x7f800000U;
    const uint32_t rounded = word + 0x7fffU + ((word >> 16) & 1U);
    bits = static_cast<uint16_t>((is_nan ? word | 0x400000U : rounded) >> 16);
  }
  explicit operator float() const {
    return std::bit_cast<float>(static_cast<uint32_t>(bits) << 16);
  }
};

/// IEEE binary16.
struct Float16 {
  uint16_t bits;

  Float16() = default;
  explicit Float16(float value) {
    const auto word = std::bit_cast<uint32_t>(value);
    const auto sign = static_cast<uint16_t>((word >> 16) & 0x8000U);
    const uint32_t magnitude = word & 0x7fffffffU;
    if (magnitude > 0x7f800000U) {  // NaN
      bits = sign | 0x7e00U;
    } else if (magnitude >= 0x477ff000U) {  // rounds to 65536 or more
      bits = sign | 0x7c00U;
    } else if (magnitude < 0x38800000U) {  // below 2^-14: adding 0.5 aligns and rounds the mantissa
      const float aligned = std::bit_cast<float>(magnitude) + 0.5F;
      bits = static_cast<uint16_t>(sign | (std::bit_cast<uint32_t>(aligned) - 0x3f000000U));
    } else {  // rebias the exponent by 127 - 15 and round off 13 bits
      const uint32_t rounded = magnitude - 0x38000000U + 0xfffU + ((magnitude >> 13) & 1U);
      bits = static_cast<uint16_t>(sign | (rounded >> 13));
    }
  }
  explicit operator float() const {
    const uint32_t sign = static_cast<uint32_t>(bits & 0x8000U) << 16;
    const uint32_t magnitude = bits & 0x7fffU;
    uint32_t word = 0;
    if (magnitude >= 0x7c00U) {  // Inf or NaN
      word = 0x7f800000U | (magnitude << 13);
    } else if (magnitude >= 0x400U) {
      word = (magnitude << 13) + 0x38000000U;
    } else {  // subnormal: an integer times 2^-24
      word = std::bit_cast<uint32_t>(static_cast<float>(magnitude) * 0x1p-24F);
    }
    return std::bit_cast<float>(sign | word);
  }
};

}  // namespace im2win::cpu
