// How implicit_gemm_tiled shares 16-bit problems out, and what it copies at a time.

#include <cstdint>
#include <cstdio>

#include "cuda/implicit_gemm/halves/tile.hpp"
#include "expect.hpp"
#include "layers.hpp"

namespace {

using namespace im2win;
using namespace im2win::cuda::implicit_gemm;
using halves::Copies;
using halves::Tile;

constexpr int kMultiprocessors = 132;

/// Of dense tensors, the filter's like the others.
Problem layer(int64_t n, int64_t c, int64_t size, int64_t k, int64_t kernel, int64_t padding = 0,
              bool is_channels_last = false) {
  Problem problem = dense_layer(n, c, size, k, kernel, padding, 1, is_channels_last);
  problem.dtype = IM2WIN_FLOAT16;
  problem.filter = dense(k, c, kernel, kernel, is_channels_last);
  return problem;
}

bool is_chosen(const Problem& problem, int edge, int splits, bool has_clusters = true) {
  const Tile tile = halves::choose_tile(problem, kMultiprocessors, has_clusters);
  return tile.edge == edge && tile.splits == splits;
}

void check_tiles() {
  expect(is_chosen(layer(1, 116, 28, 116, 1), kSmallEdge, 1), "one stage");
  expect(is_chosen(layer(1, 64, 73, 80, 1), kLargeEdge, 1), "more tiles than small ones at a time");
  expect(is_chosen(layer(1, 96, 14, 64, 3, 1), kSmallEdge, 4), "few tiles of long windows");
  expect(is_chosen(layer(1, 448, 8, 384, 3, 1), kSmallEdge, 8), "longer ones");
  expect(is_chosen(layer(1, 448, 8, 384, 3, 1), kSmallEdge, 1, false), "without clusters");
  expect(is_chosen(layer(1, 128, 28, 128, 3, 1), kLargeEdge, 8), "taps of large tiles");
  for (const int edge : {kSmallEdge, kLargeEdge})
    expect(halves::stage_taps(edge) * edge == 32 * 128, "stages of as many elements");
}

void check_times() {
  const auto is_about = [](const Problem& problem, const Tile& tile, double measured) {
    const double time = halves::microseconds(problem, tile, kMultiprocessors);
    return time > 0.75 * measured && time < 1.33 * measured;
  };
  expect(is_about(layer(1, 116, 28, 116, 1), {kSmallEdge, 1}, 3.6), "as measured on an H200");
  expect(is_about(layer(1, 64, 73, 80, 1), {kLargeEdge, 1}, 6.9), "two tiles a multiprocessor");
  expect(is_about(layer(1, 144, 7, 144, 3, 1), {kSmallEdge, 4}, 6.9), "clusters of four");
  expect(is_about(layer(1, 144, 7, 144, 3, 1), {kSmallEdge, 1}, 17.5), "eleven stages");
  expect(is_about(layer(1, 128, 28, 128, 3, 1), {kLargeEdge, 8}, 10.4), "clusters of eight");
}

void check_copies() {
  expect(halves::window_copy(layer(2, 3, 8, 5, 1)) == 8, "pixels by words");
  expect(halves::window_copy(layer(2, 3, 14, 5, 1)) == 4, "196 pixels by half words");
  expect(halves::window_copy(layer(2, 8, 7, 5, 1)) == 1, "49 pixels one by one");
  expect(halves::window_copy(layer(2, 8, 8, 5, 3, 1)) == 1, "pixels of windows one by one");
  Problem stepped = layer(2, 8, 8, 5, 1);
  stepped.p = 4;  // and a step of rows that is counted as 1
  expect(halves::window_copy(stepped) == 1, "not all of the pixels");
  expect(halves::window_copy(layer(2, 24, 7, 5, 3, 1, true)) == 8, "channels by words");
  expect(halves::window_copy(layer(2, 12, 7, 5, 3, 1, true)) == 4, "twelve by half words");
  expect(halves::window_copy(layer(2, 6, 7, 5, 3, 1, true)) == 1, "six one by one");
  expect(halves::filter_copy(layer(2, 8, 8, 5, 3)) == 8, "a filter's taps by words");
  expect(halves::filter_copy(layer(2, 4, 8, 5, 3)) == 4, "36 taps by half words");
  expect(halves::filter_copy(layer(2, 3, 8, 5, 3)) == 1, "27 taps one by one");
  Problem mixed = layer(2, 8, 8, 5, 3);
  mixed.filter = dense(5, 8, 3, 3, true);
  expect(halves::filter_copy(mixed) == 1, "taps in another order than the input's");
}

void check_addresses() {
  alignas(16) static uint16_t memory[16];
  expect(halves::copies_at(8, memory, 8, memory) == Copies::kWords, "words");
  expect(halves::copies_at(8, memory, 4, memory) == Copies::kHalfWords, "shorter ones of both");
  expect(halves::copies_at(8, memory + 4, 8, memory) == Copies::kHalfWords, "amid a word");
  expect(halves::copies_at(1, memory, 8, memory + 8) == Copies::kFilterWords, "of filters alone");
  expect(halves::copies_at(8, memory + 1, 4, memory) == Copies::kFilterHalfWords, "odd addresses");
  expect(halves::copies_at(8, memory, 8, memory + 3) == Copies::kElements, "of filters, too");
}

void check_refusals() {
  expect(halves::refusal(layer(1, 8, 8, 5, 3)).empty(), "what is small");
  Problem wide = layer(1, 8, 8, 5, 3);
  wide.padding_left = int64_t{1} << 28;
  expect(!halves::refusal(wide).empty(), "padding of 2^28 columns");
  Problem far = layer(1, 8, 8, 5, 3);
  far.input.stride[1] = int64_t{1} << 29;
  expect(!halves::refusal(far).empty(), "channels that span 2^31 elements");
  far.input.stride[1] = int64_t{1} << 28;
  expect(halves::refusal(far).empty(), "channels that span fewer");
  Problem single = layer(1, 1, 8, 5, 3);
  single.input.stride[1] = int64_t{1} << 60;
  expect(halves::refusal(single).empty(), "a step that is never taken");
  Problem reaching = layer(1, 1, 2, 5, 3, 1 << 20);
  reaching.dilation_h = 1 << 20;
  reaching.input.stride[2] = 1 << 11;
  expect(!halves::refusal(reaching).empty(), "taps outside the image that are 2^31 elements away");
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
