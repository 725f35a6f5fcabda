// How implicit_gemm_tiled shares problems in float32 and with 16 bits out, and what it copies at a time.

#include <cstdint>
#include <cstdio>

#include "cuda/implicit_gemm/split_k/tile.hpp"
#include "expect.hpp"
#include "layers.hpp"

namespace {

using namespace im2win;
using namespace im2win::cuda::implicit_gemm;
using split_k::Copies;
using split_k::Tile;

constexpr int kMultiprocessors = 132;

/// Of dense tensors, the filter's like the others.
Problem layer(int64_t n, int64_t c, int64_t size, int64_t k, int64_t kernel, int64_t padding = 0,
              bool is_channels_last = false, im2win_dtype dtype = IM2WIN_FLOAT16) {
  Problem problem = dense_layer(n, c, size, k, kernel, padding, 1, is_channels_last);
  problem.dtype = dtype;
  problem.filter = dense(k, c, kernel, kernel, is_channels_last);
  return problem;
}

bool is_chosen(const Problem& problem, int edge, int splits, bool has_clusters = true) {
  const Tile tile = split_k::choose_tile(problem, kMultiprocessors, has_clusters);
  return tile.edge == edge && tile.splits == splits;
}

void check_tiles() {
  expect(is_chosen(layer(1, 116, 28, 116, 1), kSmallEdge, 1), "one stage");
  expect(is_chosen(layer(1, 64, 73, 80, 1), kLargeEdge, 1), "more tiles than small ones at a time");
  expect(is_chosen(layer(1, 96, 14, 64, 3, 1), kSmallEdge, 4), "few tiles of long windows");
  expect(is_chosen(layer(1, 448, 8, 384, 3, 1), kSmallEdge, 8), "longer ones");
  expect(is_chosen(layer(1, 448, 8, 384, 3, 1), kSmallEdge, 1, false), "without clusters");
  expect(is_chosen(layer(1, 128, 28, 128, 3, 1), kLargeEdge, 4), "taps of large tiles");
  for (const int edge : {kSmallEdge, kLargeEdge})
    expect(split_k::stage_taps(edge, 2) * edge == 32 * 128, "stages of as many elements");
}

void check_times() {
  const auto is_about = [](const Problem& problem, const Tile& tile, double measured) {
    const double time = split_k::microseconds(problem, tile, kMultiprocessors);
    return time > 0.75 * measured && time < 1.33 * measured;
  };
  expect(is_about(layer(1, 116, 28, 116, 1), {kSmallEdge, 1}, 2.6), "as measured on an H200");
  expect(is_about(layer(1, 64, 73, 80, 1), {kLargeEdge, 1}, 6.4), "two tiles a multiprocessor");
  expect(is_about(layer(1, 144, 7, 144, 3, 1), {kSmallEdge, 4}, 5.2), "clusters of four");
  expect(is_about(layer(1, 144, 7, 144, 3, 1), {kSmallEdge, 1}, 10.9), "eleven stages");
  expect(is_about(layer(1, 128, 28, 128, 3, 1), {kLargeEdge, 8}, 8.8), "clusters of eight");
  const auto floats = [](int64_t c, int64_t size, int64_t k, int64_t kernel) {
    return layer(1, c, size, k, kernel, kernel / 2, false, IM2WIN_FLOAT32);
  };
  expect(is_about(floats(116, 28, 116, 1), {kSmallEdge, 1}, 4.3), "in float32");
  expect(is_about(floats(64, 73, 80, 1), {kLargeEdge, 1}, 10.1), "two tiles a multiprocessor");
  expect(is_about(floats(144, 7, 144, 3), {kSmallEdge, 4}, 8.8), "clusters of four");
  expect(is_about(floats(144, 7, 144, 3), {kSmallEdge, 1}, 24.4), "21 stages");
  expect(is_about(floats(128, 28, 128, 3), {kLargeEdge, 8}, 16.8), "clusters of eight");
  const auto rounded = [&](Problem problem) {
    problem.math = IM2WIN_MATH_TF32;
    return problem;
  };
  expect(is_about(rounded(floats(256, 28, 80, 1)), {kSmallEdge, 1}, 4.5), "in TF32");
  expect(is_about(rounded(floats(104, 14, 104, 3)), {kSmallEdge, 4}, 5.6), "clusters of four");
  expect(is_about(rounded(floats(448, 8, 384, 3)), {kSmallEdge, 8}, 12), "clusters of eight");
}

void check_copies() {
  expect(split_k::window_copy(layer(2, 3, 8, 5, 1)) == 8, "pixels by words");
  expect(split_k::window_copy(layer(2, 3, 14, 5, 1)) == 4, "196 pixels by half words");
  expect(split_k::window_copy(layer(2, 8, 7, 5, 1)) == 1, "49 pixels one by one");
  expect(split_k::window_copy(layer(2, 8, 8, 5, 3, 1)) == 1, "pixels of windows one by one");
  Problem stepped = layer(2, 8, 8, 5, 1);
  stepped.p = 4;  // and a step of rows that is counted as 1
  expect(split_k::window_copy(stepped) == 1, "not all of the pixels");
  Problem vast = layer(0, 3, 8, 5, 1);
  vast.h = vast.p = int64_t{1} << 40;
  vast.w = vast.q = vast.input.size[3] = vast.input.stride[2] = int64_t{1} << 30;
  expect(split_k::window_copy(vast) == 8, "no image of 2^70 pixels");
  expect(split_k::window_copy(layer(2, 24, 7, 5, 3, 1, true)) == 8, "channels by words");
  expect(split_k::window_copy(layer(2, 12, 7, 5, 3, 1, true)) == 4, "twelve by half words");
  expect(split_k::window_copy(layer(2, 6, 7, 5, 3, 1, true)) == 1, "six one by one");
  expect(split_k::filter_copy(layer(2, 8, 8, 5, 3)) == 8, "a filter's taps by words");
  expect(split_k::filter_copy(layer(2, 4, 8, 5, 3)) == 4, "36 taps by half words");
  expect(split_k::filter_copy(layer(2, 3, 8, 5, 3)) == 1, "27 taps one by one");
  expect(split_k::window_copy(dense_layer(2, 3, 14, 5, 1)) == 4, "196 pixels of float32 by words");
  expect(split_k::window_copy(dense_layer(2, 6, 7, 5, 3, 1, 1, true)) == 2, "six by half words");
  Problem mixed = layer(2, 8, 8, 5, 3);
  mixed.filter = dense(5, 8, 3, 3, true);
  expect(split_k::filter_copy(mixed) == 1, "taps in another order than the input's");
}

void check_addresses() {
  alignas(16) static uint16_t memory[16];
  expect(split_k::copies_at(2, 8, memory, 8, memory) == Copies::kWords, "words");
  expect(split_k::copies_at(2, 8, memory, 4, memory) == Copies::kHalfWords, "shorter ones of both");
  expect(split_k::copies_at(2, 8, memory + 4, 8, memory) == Copies::kHalfWords, "amid a word");
  expect(split_k::copies_at(2, 1, memory, 8, memory + 8) == Copies::kFilterWords,
         "of filters alone");
  expect(split_k::copies_at(2, 8, memory + 1, 4, memory) == Copies::kFilterHalfWords,
         "odd addresses");
  expect(split_k::copies_at(2, 8, memory, 8, memory + 3) == Copies::kElements, "of filters, too");
  expect(split_k::copies_at(4, 4, memory, 4, memory) == Copies::kWords, "float32");
  expect(split_k::copies_at(4, 4, memory + 4, 4, memory) == Copies::kHalfWords, "amid a word");
  expect(split_k::copies_at(4, 1, memory + 2, 4, memory) == Copies::kFilterWords, "one by one");
}

void check_refusals() {
  expect(split_k::refusal(layer(1, 8, 8, 5, 3)).empty(), "what is small");
  Problem wide = layer(1, 8, 8, 5, 3);
  wide.padding_left = int64_t{1} << 28;
  expect(!split_k::refusal(wide).empty(), "padding of 2^28 columns");
  Problem far = layer(1, 8, 8, 5, 3);
  far.input.stride[1] = int64_t{1} << 29;
  expect(!split_k::refusal(far).empty(), "channels that span 2^31 elements");
  far.input.stride[1] = int64_t{1} << 28;
  expect(split_k::refusal(far).empty(), "channels that span fewer");
  Problem single = layer(1, 1, 8, 5, 3);
  single.input.stride[1] = int64_t{1} << 60;
  expect(split_k::refusal(single).empty(), "a step that is never taken");
  Problem reaching = layer(1, 1, 2, 5, 3, 1 << 20);
  reaching.dilation_h = 1 << 20;
  reaching.input.stride[2] = 1 << 11;
  expect(!split_k::refusal(reaching).empty(), "taps outside the image that are 2^31 elements away");
}

}  // namespace

int main() {
  check_tiles();
  check_times();
  check_copies();
  check_addresses();
  check_refusals();
  std::printf("%d wrong\n", failures);
  return failures == 0 ? 0 : 1;
}
