#include "tensor.hpp"

#include <sanitizer/asan_interface.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <vector>

#include "cpu/half.hpp"

namespace fuzz {
namespace {

using im2win::cpu::BFloat16;
using im2win::cpu::Float16;

template <class Element>
double load(const uint8_t* from) {
  Element element;
  std::memcpy(&element, from, sizeof element);
  if constexpr (sizeof element == 2) {
    return static_cast<double>(static_cast<float>(element));
  } else {
    return static_cast<double>(element);
  }
}

template <class Element>
void store(double value, uint8_t* to) {
  Element element;
  if constexpr (sizeof element == 2) {
    element = static_cast<Element>(static_cast<float>(value));
  } else {
    element = static_cast<Element>(value);
  }
  std::memcpy(to, &element, sizeof element);
}

/// The next of a sequence that no seed makes regular (SplitMix64).
uint64_t random(uint64_t& state) {
  uint64_t z = state += 0x9e3779b97f4a7c15U;
  z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9U;
  z = (z ^ z >> 27) * 0x94d049bb133111ebU;
  return z ^ z >> 31;
}

}  // namespace

Memory::Memory(int64_t bytes, int64_t shift) : bytes_(bytes), shift_(shift) {
  const auto size = static_cast<size_t>(kHead + shift + bytes);
  void* base = nullptr;
  if (posix_memalign(&base, kHead, size) != 0) std::abort();
  base_ = static_cast<uint8_t*>(base);
  std::memset(base_, kPoison, size);
  ASAN_POISON_MEMORY_REGION(base_, static_cast<size_t>(kHead + shift / 8 * 8));
}

Memory::~Memory() {
  ASAN_UNPOISON_MEMORY_REGION(base_, static_cast<size_t>(kHead + shift_));
  std::free(base_);
}

bool Memory::is_untouched() const {
  return std::all_of(data(), data() + bytes_, [](uint8_t byte) { return byte == kPoison; });
}

bool Memory::is_head_untouched() const {
  return std::all_of(base_ + kHead + shift_ / 8 * 8, data(),
                     [](uint8_t byte) { return byte == kPoison; });
}

int64_t element_bytes(int32_t dtype) {
  return dtype == IM2WIN_FLOAT64 ? 8 : dtype == IM2WIN_FLOAT32 ? 4 : 2;
}

Shape::Shape(const int64_t (&sizes)[4], int32_t layout, const int64_t (&strides)[4]) {
  constexpr int kNchw[] = {3, 2, 1, 0};
  constexpr int kNhwc[] = {1, 3, 2, 0};
  std::copy_n(sizes, 4, size);
  int64_t reach = 1;
  for (int i = 0; i < 4; ++i) {
    const int axis = (layout == IM2WIN_NHWC ? kNhwc : kNchw)[i];
    stride[axis] = layout == IM2WIN_STRIDED ? size[axis] > 1 ? strides[axis] : 0 : reach;
    reach *= std::max<int64_t>(size[axis], 1);
  }
}

int64_t Shape::lowest() const {
  int64_t sum = 0;
  for (int i = 0; i < 4; ++i) sum += std::min<int64_t>((size[i] - 1) * stride[i], 0);
  return elements() == 0 ? 0 : sum;
}

int64_t Shape::highest() const {
  int64_t sum = 0;
  for (int i = 0; i < 4; ++i) sum += std::max<int64_t>((size[i] - 1) * stride[i], 0);
  return elements() == 0 ? -1 : sum;
}

void Shape::each(const std::function<void(int64_t, int64_t, int64_t, int64_t)>& visit) const {
  for (int64_t n = 0; n < size[0]; ++n)
    for (int64_t c = 0; c < size[1]; ++c)
      for (int64_t h = 0; h < size[2]; ++h)
        for (int64_t w = 0; w < size[3]; ++w) visit(n, c, h, w);
}

Tensor::Tensor(const Shape& shape, int32_t dtype, int64_t shift)
    : shape_(shape),
      dtype_(dtype),
      bytes_(element_bytes(dtype)),
      memory_((shape.highest() - shape.lowest() + 1) * bytes_, shift * bytes_) {}

double Tensor::get(int64_t n, int64_t c, int64_t h, int64_t w) const {
  const uint8_t* from = address(n, c, h, w);
  switch (dtype_) {
    case IM2WIN_FLOAT64: return load<double>(from);
    case IM2WIN_FLOAT32: return load<float>(from);
    case IM2WIN_FLOAT16: return load<Float16>(from);
    default: return load<BFloat16>(from);
  }
}

void Tensor::fill(uint64_t seed, bool is_special) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  constexpr double kSpecial[] = {std::numeric_limits<double>::quiet_NaN(), kInfinity, -kInfinity};
  shape_.each([&](int64_t n, int64_t c, int64_t h, int64_t w) {
    const uint64_t bits = random(seed);
    const double integer = static_cast<double>(bits % 5) - 2;
    const double value = is_special && bits >> 58 == 0 ? kSpecial[(bits >> 8) % 3] : integer;
    uint8_t* to = address(n, c, h, w);
    switch (dtype_) {
      case IM2WIN_FLOAT64: return store<double>(value, to);
      case IM2WIN_FLOAT32: return store<float>(value, to);
      case IM2WIN_FLOAT16: return store<Float16>(value, to);
      default: return store<BFloat16>(value, to);
    }
  });
}

bool Tensor::are_gaps_untouched() const {
  std::vector<bool> is_element(static_cast<size_t>(memory_.size()));
  shape_.each([&](int64_t n, int64_t c, int64_t h, int64_t w) {
    const auto begin = is_element.begin() + (address(n, c, h, w) - memory_.data());
    std::fill_n(begin, bytes_, true);
  });
  for (int64_t i = 0; i < memory_.size(); ++i)
    if (!is_element[static_cast<size_t>(i)] && memory_.data()[i] != kPoison) return false;
  return memory_.is_head_untouched();
}

}  // namespace fuzz
