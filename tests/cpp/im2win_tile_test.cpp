// The choice of tiles for Algorithm 3: prints it for the paper's layers, checks what must hold.

#include <cstdio>

#include "cuda/im2win/tile.hpp"
#include "expect.hpp"
#include "layers.hpp"

namespace {

using namespace im2win;
using namespace im2win::cuda;

constexpr int kMultiprocessors = 132;

Problem layer(int64_t n, int64_t c, int64_t size, int64_t k, int64_t kernel, int64_t stride) {
  return square_layer(n, c, size, k, kernel, 0, stride);
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

/// Dense float32.
bool is_for_fmas_of(int64_t n, int64_t c, int64_t size, int64_t k, int64_t kernel, int64_t stride) {
  Problem problem = layer(n, c, size, k, kernel, stride);
  problem.dtype = IM2WIN_FLOAT32;
  const int64_t planes[4] = {c * size * size, size * size, size, 1};
  for (int i = 0; i < 4; ++i) problem.input.stride[i] = planes[i];
  problem.input.size[0] = n;
  problem.input.size[1] = c;
  problem.input.size[2] = problem.input.size[3] = size;
  const bool chosen = is_for_fmas(problem);
  std::printf("%3lld x %4lld x %2lld^2, %4lld %lldx%lld, stride %lld: %s\n",
              static_cast<long long>(n), static_cast<long long>(c), static_cast<long long>(size),
              static_cast<long long>(k), static_cast<long long>(kernel),
              static_cast<long long>(kernel), static_cast<long long>(stride),
              chosen ? "im2win" : "im2win_fused");
  problem.math = IM2WIN_MATH_TF32;
  expect(!is_for_fmas(problem), "FMAs are not for TF32");
  return chosen;
}

/// As measured on an H200.
void check_fmas() {
  expect(is_for_fmas_of(128, 144, 56, 24, 1, 1), "few filters for many channels");
  expect(is_for_fmas_of(8, 160, 112, 32, 1, 1), "large images");
  expect(is_for_fmas_of(128, 192, 28, 16, 1, 1), "few filters for whole slabs of channels");
  expect(!is_for_fmas_of(128, 192, 56, 32, 1, 1), "more filters for whole slabs of channels");
  expect(!is_for_fmas_of(8, 256, 112, 32, 1, 1), "too many channels");
  expect(!is_for_fmas_of(8, 192, 28, 32, 1, 1), "few pixels");
  expect(!is_for_fmas_of(128, 64, 56, 32, 1, 1), "few channels");
  expect(!is_for_fmas_of(128, 256, 56, 64, 1, 1), "many filters");
  expect(!is_for_fmas_of(128, 256, 56, 32, 1, 2), "a stride");
  expect(!is_for_fmas_of(128, 128, 56, 32, 3, 1), "3x3 windows");
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
  check_fmas();
  check_costs();
  std::printf("%d failures\n", failures);
  return failures != 0;
}
