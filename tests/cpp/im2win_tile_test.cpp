// The choice of tiles for Algorithm 3: prints it for the paper's layers, checks what must hold.

#include <cstdio>

#include "cuda/im2win_tile.hpp"

namespace {

using namespace im2win;
using namespace im2win::cuda;

constexpr int kMultiprocessors = 132;
int failures = 0;

void expect(bool condition, const char* what) {
  if (condition) return;
  ++failures;
  std::printf("not so: %s\n", what);
}

/// Square sizes, no padding, all tensors dense.
Problem layer(int64_t n, int64_t c, int64_t size, int64_t k, int64_t kernel, int64_t stride) {
  Problem problem{};
  problem.n = n;
  problem.c = c;
  problem.h = problem.w = size;
  problem.k = k;
  problem.r = problem.s = kernel;
  problem.stride_h = problem.stride_w = stride;
  problem.p = problem.q = (size - kernel) / stride + 1;
  problem.groups = 1;
  return problem;
}

const Im2winTile& chosen(const Problem& problem) {
  return kIm2winTiles[choose_im2win_tile(problem, kMultiprocessors)];
}

void print(const char* name, const Problem& problem) {
  std::printf("%-6s %s\n", name, im2win_tile_text(chosen(problem)).c_str());
}

void check_tiles() {
  for (const Im2winTile& tile : kIm2winTiles) {
    expect(tile.threads() % 32 == 0 && tile.threads() <= 1024, "whole warps, at most a block's");
    expect(tile.pixels <= kIm2winMaxPixels, "no tile has more pixels than the most");
    expect(kIm2winTapMultiple % tile.taps == 0, "padded taps are whole steps of every tile");
  }
}

void check_choices() {
  expect(chosen(layer(128, 3, 227, 96, 11, 4)).filters == 96, "96 filters fill a tile of 96");
  expect(chosen(layer(128, 3, 224, 32, 3, 1)).filters == 32, "32 filters fill a tile of 32");
  expect(chosen(layer(128, 64, 112, 128, 3, 1)).filters == 128, "a large layer has large tiles");
  expect(chosen(layer(1, 64, 14, 128, 3, 1)).pixels == 64, "a small one spreads over the chip");
}

void check_costs() {
  const Problem small = layer(1, 64, 56, 64, 3, 1);
  const Problem large = layer(256, 64, 56, 64, 3, 1);
  for (const Im2winTile& tile : kIm2winTiles) {
    expect(im2win_tile_cost(tile, small, kMultiprocessors) > 0, "costs are positive");
    expect(im2win_tile_cost(tile, large, kMultiprocessors) >
               im2win_tile_cost(tile, small, kMultiprocessors),
           "more images cost more");
    expect(im2win_tile_cost(tile, large, 2 * kMultiprocessors) <
               im2win_tile_cost(tile, large, kMultiprocessors),
           "a larger chip takes less time");
  }
}

}  // namespace

int main() {
  print("conv1", layer(128, 3, 227, 96, 11, 4));
  print("conv3", layer(128, 3, 227, 64, 7, 2));
  print("conv5", layer(128, 96, 24, 256, 5, 1));
  print("conv8", layer(128, 64, 112, 128, 3, 1));
  print("conv12", layer(128, 512, 7, 512, 3, 1));
  check_tiles();
  check_choices();
  check_costs();
  std::printf("%d failures\n", failures);
  return failures != 0;
}
