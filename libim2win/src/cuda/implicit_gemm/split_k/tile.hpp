// How implicit_gemm_tiled shares problems in float32, TF32 and with 16 bits out: tiles of filters by pixels to blocks,
// and a tile's taps to the blocks of a cluster. Plain host code: it can be tested without a GPU.
#pragma once

#include <cstdint>
#include <string>

#include "cuda/implicit_gemm/choice.hpp"
#include "problem.hpp"

namespace im2win::cuda::implicit_gemm::split_k {

/// Plain data.
struct Tile {
  int edge;    // filters, and pixels: kSmallEdge or kLargeEdge
  int splits;  // blocks that share the taps
};

inline constexpr int kMostSplits = 8;

/// Outputs that are written at a time, where words are what neighbours in memory are.
inline constexpr int kOutputWord = 4;

/// Taps of a stage: of either edge and any elements 8 KiB of an operand.
constexpr int stage_taps(int edge, int64_t element_bytes) {
  return static_cast<int>(8192 / (edge * element_bytes));
}

/// "" or why 32 bits do not hold how far elements of a window or a filter are apart.
std::string refusal(const Problem& problem);

/// Estimated, on an H200, where these are few, and addresses are whole words.
double microseconds(const Problem& problem, const Tile& tile, int multiprocessors);

/// The tile that is estimated to be the fastest. `has_clusters`: whether there may be several splits.
Tile choose_tile(const Problem& problem, int multiprocessors, bool has_clusters);

/// Elements that are copied at a time, a word of 16 bytes, half a word, or one, as sizes and strides allow.
int window_copy(const Problem& problem);
int filter_copy(const Problem& problem);

/// Whether neighbours of a tile's outputs are words, if one of them begins where the output does.
bool has_output_words(const Problem& problem);

/// What is copied at a time.
enum class Copies {
  kWords,            // 16 bytes of both operands
  kHalfWords,        // 8
  kFilterWords,      // 16 of filters, and single elements of windows
  kFilterHalfWords,  // 8, likewise
  kElements,         // of both
};

/// Of windows, where a word has so many elements.
constexpr int window_elements(Copies copies, int word) {
  return copies == Copies::kWords ? word : copies == Copies::kHalfWords ? word / 2 : 1;
}

/// As long as addresses allow, too.
Copies copies_at(int64_t element_bytes, int window_copy, const void* input, int filter_copy,
                 const void* filter);

}  // namespace im2win::cuda::implicit_gemm::split_k
