// Windows that products of im2win_fused read from lines: where they are in a slab, and when that is chosen.

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <random>
#include <vector>

#include "cuda/fused/shared.hpp"
#include "cuda/fused/tile.hpp"
#include "fused_problems.hpp"

namespace {

using namespace im2win;
using namespace im2win::cuda::fused;

constexpr KernelShape kOfLines[] = {
    {.filters = 64, .columns = 128, .staging_warpgroups = 1, .pixel_major = true},
    {.filters = 128, .columns = 64, .staging_warpgroups = 1, .pixel_major = true},
    {.filters = 256, .columns = 64, .staging_warpgroups = 1, .pixel_major = true}};

/// Elements from the first position of a tile's lines to another of its pixels'.
int64_t pixel_in_lines(const Problem& problem, const Tile& tile, int64_t column) {
  const int64_t line = column / tile.pitch, image = line % tile.images, row = line / tile.images;
  const int64_t in_row = column % tile.pitch * problem.stride_w;
  const int64_t of_image =
      int64_t{tile.raw.box_channels()} * tile.raw.pitch * (tile.raw.apart != 0 ? tile.raw.rows : 1);
  return image * of_image + row * tile.raw.position_row + in_row;
}

/// Whether each batch is a tap of all units, and all that is read is in the slab.
int check_taps(const Problem& problem, const TileChoice& choice, const KernelShape& shape) {
  const Tile& tile = choice.tile;
  const int batch = traits(Operands::kTf32).batch;
  const int64_t columns = tile.run > 0 ? tile.run : int64_t{tile.rows} * tile.images * tile.pitch;
  const int64_t elements = tile.raw_lines() * tile.raw.pitch;
  const int unit = (tile.unit_channels >> tile.raw.phase_bits) * tile.raw.pitch;
  int wrong = tile.raw.pitch % 16 != 8 || columns > shape.block_columns();
  for (int kind = 0; kind < 2; ++kind)
    for (int i = 0; i < tile.steps[kind].count; ++i) {
      const FilterUnit& first = choice.order.unit[kind][i / batch * batch][0];
      const Step& tap = tile.steps[kind].step[i / batch * batch];
      for (int half = 0; half < 2; ++half) {
        const FilterUnit& own = choice.order.unit[kind][i][half];
        const Step& step = tile.steps[kind].step[i];
        const int offset = step.offset + (half == 0 ? 0 : step.second);
        wrong += own.row != first.row || own.column != first.column;
        wrong += own.unit != i % batch * 2 + half || offset != tap.offset + own.unit * unit;
        // Of the last phase's boxes, whose lines begin amid a word.
        const int64_t last = offset + pixel_in_lines(problem, tile, columns - 1) +
                             ((1 << tile.raw.phase_bits) - 1) * (elements >> tile.raw.phase_bits) +
                             ((tile.unit_channels - 1) >> tile.raw.phase_bits) * tile.raw.pitch;
        wrong += tile.run == 0 && last >= elements;
      }
    }
  return wrong;
}

int check_random_problems() {
  std::mt19937 random(2023);
  const auto between = [&](int low, int high) {
    return std::uniform_int_distribution<int64_t>(low, high)(random);
  };
  int wrong = 0, chosen = 0;
  for (int i = 0; i < 300; ++i) {
    const int64_t input[] = {between(1, 9), between(4, 140), between(1, 40),
                             i % 2 == 0 ? 4 * between(1, 20) : between(1, 60)};
    const int64_t taps = i % 3 == 0 ? 1 : 3;
    Problem problem =
        make_problem(input, between(1, 300), between(1, taps), between(1, taps), false);
    problem.dilation_w = between(1, 2);
    problem.dilation_h = between(1, 2);
    set_windows(problem, i % 4 == 0 ? 1 : 0, between(1, 2));
    if (problem.p < 1 || problem.q < 1) continue;
    for (const KernelShape& shape : kOfLines) {
      TileChoice choice;
      if (!choose_tile(problem, Operands::kTf32, &shape, 1, kChip, choice)) continue;
      ++chosen;
      wrong += check_taps(problem, choice, shape);
      wrong += shared_layout(choice.tile, shape, Operands::kTf32).total > kChip.shared_bytes;
    }
  }
  if (wrong > 0 || chosen == 0) std::printf("%d wrong of %d tiles\n", wrong, chosen);
  return wrong + (chosen == 0);
}

/// As was measured on an H200: single pixels and strides are read from lines, 3x3 windows of 128 filters are not.
int check_choice() {
  struct Layer {
    int64_t n, c, size, k, taps, stride;
    bool from_lines;
  };
  constexpr Layer kLayers[] = {{128, 512, 14, 512, 1, 1, true},  {64, 144, 56, 24, 1, 1, true},
                               {8, 256, 28, 512, 1, 1, true},    {64, 728, 19, 728, 1, 1, true},
                               {128, 128, 28, 128, 3, 1, false}, {128, 64, 56, 64, 3, 1, false},
                               {128, 256, 14, 256, 3, 1, false}};
  std::vector<KernelShape> shapes(std::begin(kShapes), std::end(kShapes));
  shapes.insert(shapes.end(), std::begin(kOfLines), std::end(kOfLines));
  int wrong = 0;
  for (const Layer& layer : kLayers) {
    Problem problem = make_problem({layer.n, layer.c, layer.size, layer.size}, layer.k, layer.taps,
                                   layer.taps, false);
    set_windows(problem, 0, layer.stride);
    const int64_t pixels = problem.p * problem.q;
    problem.output = {{layer.n, layer.k, problem.p, problem.q},
                      {layer.k * pixels, pixels, problem.q, 1}};
    TileChoice choice;
    const bool found = choose_tile(problem, Operands::kTf32, shapes.data(),
                                   static_cast<int>(shapes.size()), kChip, choice);
    if (found && (choice.tile.from_lines != 0) == layer.from_lines) continue;
    ++wrong;
    std::printf("%d to %d channels, %d x %d, at %d x %d: %s\n", int(layer.c), int(layer.k),
                int(layer.taps), int(layer.taps), int(layer.size), int(layer.size),
                found ? describe(choice.tile).c_str() : "no tile");
  }
  return wrong;
}

}  // namespace

int main() { return check_random_problems() + check_choice() == 0 ? 0 : 1; }
