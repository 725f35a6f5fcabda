// A bulk copy of neighbours in the input, wherever they begin.
#pragma once

#include <cuda/ptx>

#include <cstdint>

#include "cuda/fused/arguments.cuh"

namespace im2win::cuda::fused {

/// How far past a word of 16 bytes.
template <class Moved>
__device__ __forceinline__ uint32_t word_shift(const Moved* p) {
  return static_cast<uint32_t>(reinterpret_cast<uintptr_t>(p) % kUnitBytes);
}

template <class Moved>
__device__ __forceinline__ void copy_apart(const char* from, const char* end, char* to) {
  for (; from < end; from += sizeof(Moved), to += sizeof(Moved))
    *reinterpret_cast<Moved*>(to) = *reinterpret_cast<const Moved*>(from);
}

/// By a thread, to as far past a word of `to` as they are past one in memory. Whole words of 16 bytes, from the one
/// that holds the first element to that of the last: bulk copies have no others. Where such a word reaches out of the
/// input, its elements are copied apart. Returns the bytes under way, which count at `full`.
template <class Element, class Moved>
__device__ __forceinline__ uint32_t copy_line(const Arguments<Element>& a, const Moved* from,
                                              int count, char* to, uint64_t* full) {
  const char* const begin = reinterpret_cast<const char*>(from);
  const char* const end = reinterpret_cast<const char*>(from + count);
  const uint32_t shift = word_shift(from);
  const char* first = begin - shift;
  const char* last = end + (-reinterpret_cast<uintptr_t>(end)) % kUnitBytes;
  const char* const input = reinterpret_cast<const char*>(a.input);
  if (first < input + a.input_begin) {
    first += kUnitBytes;
    copy_apart<Moved>(begin, first < end ? first : end, to + shift);
  }
  if (last > input + a.input_end) {
    last -= kUnitBytes;
    const char* rest = last > first ? last : first;
    if (rest < begin) rest = begin;
    copy_apart<Moved>(rest, end, to + shift + (rest - begin));
  }
  if (first >= last) return 0;
  const uint32_t bytes = static_cast<uint32_t>(last - first);
  ::cuda::ptx::cp_async_bulk(::cuda::ptx::space_cluster, ::cuda::ptx::space_global,
                             to + shift + (first - begin), first, bytes, full);
  return bytes;
}

}  // namespace im2win::cuda::fused
