// Vectors of a register's width, for kernels_template.hpp alone.
#pragma once

#include <type_traits>

#include "cpu/kernels.hpp"

namespace im2win::cpu {
namespace {

template <class Scalar>
struct VectorOf {
  typedef Scalar Type __attribute__((vector_size(IM2WIN_VECTOR_BYTES)));
  // In memory it may lie anywhere, and among scalars.
  typedef Scalar Unaligned
      __attribute__((vector_size(IM2WIN_VECTOR_BYTES), aligned(sizeof(Scalar)), may_alias));
  using Lane = std::conditional_t<sizeof(Scalar) == 8, int64_t, int32_t>;
  typedef Lane Lanes __attribute__((vector_size(IM2WIN_VECTOR_BYTES)));
  static constexpr int64_t kElements = IM2WIN_VECTOR_BYTES / sizeof(Scalar);
};

template <class Scalar>
using Vector = typename VectorOf<Scalar>::Type;

/// Numbers of a vector's lanes, one in each.
template <class Scalar>
using Lanes = typename VectorOf<Scalar>::Lanes;

template <class Scalar>
inline Vector<Scalar> load(const Scalar* from) {
  return *reinterpret_cast<const typename VectorOf<Scalar>::Unaligned*>(from);
}

template <class Scalar>
inline void store(Scalar* to, Vector<Scalar> value) {
  *reinterpret_cast<typename VectorOf<Scalar>::Unaligned*>(to) = value;
}

template <class Scalar>
inline bool is_aligned(const Scalar* to) {
  return reinterpret_cast<uintptr_t>(to) % IM2WIN_VECTOR_BYTES == 0;
}

/// A store past the caches, to an aligned address. Others see it after the caller's next fence.
template <class Scalar>
inline void stream(Scalar* to, Vector<Scalar> value) {
#if defined(__AVX__)
  __asm__("vmovntps %1, %0" : "=m"(*reinterpret_cast<Vector<Scalar>*>(to)) : "v"(value));
#elif defined(__SSE2__)
  __asm__("movntps %1, %0" : "=m"(*reinterpret_cast<Vector<Scalar>*>(to)) : "x"(value));
#else
  store(to, value);
#endif
}

template <class Scalar>
inline Vector<Scalar> broadcast(Scalar value) {
  return value - Vector<Scalar>{};
}

/// The value, kept in a register: GCC would otherwise read it from memory for each of its uses.
template <class Scalar>
inline Vector<Scalar> loaded(const Scalar* from) {
  Vector<Scalar> value = load(from);
#if defined(__AVX512F__)
  __asm__("" : "+v"(value));
#elif defined(__SSE2__)
  __asm__("" : "+x"(value));
#endif
  return value;
}

/// Of each group of lanes the first one; groups are a power of two.
template <class Scalar>
inline Lanes<Scalar> first_lanes(int64_t group) {
  Lanes<Scalar> lanes;
#pragma GCC unroll 16
  for (int i = 0; i < VectorOf<Scalar>::kElements; ++i) lanes[i] = i;
  return lanes & static_cast<typename VectorOf<Scalar>::Lane>(-group);
}

/// In each lane what the value has in the one that it names.
template <class Scalar>
inline Vector<Scalar> pick_lanes(Vector<Scalar> value, Lanes<Scalar> lanes) {
#if defined(__clang__)
  Vector<Scalar> picked;
  for (int64_t i = 0; i < VectorOf<Scalar>::kElements; ++i) picked[i] = value[lanes[i]];
  return picked;
#else
  return __builtin_shuffle(value, lanes);
#endif
}

/// Written so that it is a maximum and a minimum instruction, and NaN stays NaN.
template <class Scalar>
inline Vector<Scalar> finish(Vector<Scalar> sum, Vector<Scalar> bias, const Range<Scalar>& range) {
  const Vector<Scalar> low = broadcast(range.low);
  const Vector<Scalar> high = broadcast(range.high);
  const Vector<Scalar> x = sum + bias;
  const Vector<Scalar> raised = low > x ? low : x;
  return high < raised ? high : raised;
}

}  // namespace
}  // namespace im2win::cpu
