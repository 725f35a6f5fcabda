// Which tiles of im2win_fused are chosen, and what they come with. It also prints those of the paper's layers.

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <iterator>
#include <set>

#include "cuda/fused/shared.hpp"
#include "cuda/fused/tile.hpp"
#include "fused_problems.hpp"

namespace {

using namespace im2win;
using namespace im2win::cuda::fused;

/// Of windows of single pixels in NHWC, whose outputs are boxes, too.
Tile tile_of_pixels(Operands operands, int64_t n, int64_t c, int64_t size, int64_t k) {
  Problem problem = make_problem({n, c, size, size}, k, 1, 1, true);
  set_outputs(problem);
  problem.output = {{n, k, size, size}, {size * size * k, 1, size * k, k}};
  problem.filter = {{k, c, 1, 1}, {c, 1, c, c}};
  TileChoice choice;
  choose_tile(problem, operands, kShapes, static_cast<int>(std::size(kShapes)), kChip, choice);
  return choice.tile;
}

/// Many channels of few pixels are shared out, those of many are not, and fewer channels are not either: clusters
/// take their time.
int check_clusters() {
  int wrong = 0;
  for (const int64_t n : {1, 8, 128}) {
    const Tile tile = tile_of_pixels(Operands::kHalf, n, 2048, 7, 512);
    wrong += (tile.cluster_bits > 0) != (n < 128);
    wrong += misshared_slabs(tile, traits(Operands::kHalf));
  }
  wrong += tile_of_pixels(Operands::kHalf, 16, 512, 14, 128).cluster_bits > 0;
  if (wrong > 0) std::printf("%d tiles are shared out that should not be, or not\n", wrong);
  return wrong;
}

/// Slabs that are used as fast as they come have several stages. If their filters are boxes, too, both have as many: see
/// Arguments::pairs.
int check_stages() {
  int wrong = 0, pairs = 0;
  for (const int64_t k : {256, 512, 2048})
    wrong += tile_of_pixels(Operands::kTf32, 128, 1024, 14, k).slab_stages < 4;
  for (const int64_t n : {1, 8, 128})
    for (const int64_t c : {64, 512, 2048}) {
      const Tile tile = tile_of_pixels(Operands::kHalf, n, c, 14, 256);
      if (!tile.filters_in_place || tile.resident) continue;
      ++pairs;
      wrong += tile.filter_stages != tile.slab_stages;
    }
  if (wrong > 0 || pairs == 0)
    std::printf("%d tiles, %d of them of pairs, have other stages than they should\n", wrong,
                pairs);
  return wrong + (pairs == 0);
}

/// Inputs that can come as boxes are not copied, whatever outputs leave as. Others are, where pixels are words of 4
/// bytes, and come neither by lines nor one by one.
int check_copies() {
  int wrong = 0;
  for (const int64_t k : {3, 255, 256})
    wrong += !tile_of_pixels(Operands::kHalf, 64, 256, 40, k).boxed();
  for (const int64_t c : {18, 116, 270}) {
    const Tile tile = tile_of_pixels(Operands::kHalf, 64, c, 28, 64);
    wrong += tile.boxed() || tile.raw.stages > 0;
  }
  const auto bytes_of = [](int64_t c, bool nhwc) {
    return copied_bytes(make_problem({2, c, 9, 9}, 8, 1, 1, nhwc), Operands::kHalf);
  };
  wrong += bytes_of(24, true) != 16 || bytes_of(116, true) != 8 || bytes_of(18, true) != 4 ||
           bytes_of(17, true) != 0 || bytes_of(24, false) != 0;
  if (wrong > 0) std::printf("%d inputs are copied that should not be, or not\n", wrong);
  return wrong;
}

/// Few channels are filled up with zeros, so that filters need no packing, where that would take longer than what is
/// multiplied in vain.
int check_zeros() {
  int wrong = 0;
  for (const int64_t c : {16, 32}) {
    const Tile tile = tile_of_pixels(Operands::kHalf, 1, c, 112, 128);
    wrong += !tile.filters_in_place || tile.units != 8 || tile.chunks != 1;
  }
  wrong += !tile_of_pixels(Operands::kTf32, 1, 16, 112, 128).filters_in_place;
  wrong += tile_of_pixels(Operands::kHalf, 1, 18, 112, 128).filters_in_place;  // no boxes
  Problem windows = make_problem({64, 16, 112, 112}, 128, 3, 3, true);
  set_outputs(windows);
  TileChoice choice;
  choose_tile(windows, Operands::kHalf, kShapes, static_cast<int>(std::size(kShapes)), kChip,
              choice);
  wrong += choice.tile.units > 2;
  if (wrong > 0) std::printf("%d slabs have zeros that should not, or not\n", wrong);
  return wrong;
}

/// In float32 boxes of pixels come where these are whole words, and slabs are of no more channels than a row may have.
int check_pixel_boxes() {
  int wrong = 0;
  for (const int64_t c : {20, 64, 728}) {
    const Tile tile = tile_of_pixels(Operands::kSplit, 64, c, 28, 64);
    const int64_t row = tile.raw.box_channels() * int64_t{sizeof(float)};
    wrong += !tile.raw.by_pixels || row > kRowBytes ||
             tile.raw.channels != tile.units * tile.unit_channels;
  }
  for (const int64_t c : {18, 270})
    wrong += tile_of_pixels(Operands::kSplit, 64, c, 28, 64).raw.by_pixels != 0;
  wrong += tile_of_pixels(Operands::kTf32, 64, 64, 28, 64).raw.by_pixels != 0;
  if (wrong > 0) std::printf("%d inputs come as boxes of pixels that should not, or not\n", wrong);
  return wrong;
}

/// Slabs of single pixels are held where they come in boxes, those of 64 channels of a pixel in two; in float32 alone,
/// and by kernels with the registers.
int check_held() {
  int wrong = 0;
  for (const int64_t c : {128, 256, 728}) {
    const Tile tile = tile_of_pixels(Operands::kSplit, 64, c, 28, 256);
    wrong += !tile.held || !tile.raw.boxed || tile.raw.boxes() != 2 ||
             tile.units * tile.positions > 4 * kShapes[0].staging_threads();
    wrong += tile_of_pixels(Operands::kTf32, 64, c, 28, 256).held;
  }
  wrong += tile_of_pixels(Operands::kSplit, 64, 270, 28, 256).held;  // no whole words
  if (wrong > 0) std::printf("%d slabs are held that should not be, or not\n", wrong);
  return wrong;
}

/// Units that are moved by a table of their offsets have it in shared memory, which holds them; and if the input is no
/// words after all, there is room for a table of places instead. Rows of boxes have zeros around, those that go on have
/// none where an input is padded.
int check_unit_offsets() {
  int wrong = 0, tables = 0;
  for (const Operands operands : {Operands::kSplit, Operands::kTf32})
    for (const int64_t size : {7, 13, 14, 28, 35, 56})
      for (const int64_t padding : {0, 1})
        for (const int64_t stride : {1, 2}) {
          Problem problem = make_problem({64, 64, size, size}, 128, 3, 3, false);
          set_windows(problem, padding, stride);
          TileChoice choice;
          choose_tile(problem, operands, kShapes, static_cast<int>(std::size(kShapes)), kChip,
                      choice);
          const Tile& tile = choice.tile;
          if (!has_unit_offsets(tile, operands)) continue;
          ++tables;
          const SharedLayout layout = shared_layout(tile, kShapes[choice.kernel], operands);
          const int places = tile.positions + tile.planes * table_begins(tile);
          const int offsets = tile.units * tile.positions_pitch + places;
          wrong += layout.raw - layout.places < offsets * static_cast<int>(sizeof(int16_t)) ||
                   layout.raw_stage / static_cast<int>(sizeof(float)) > INT16_MAX ||
                   layout.total - layout.raw < places * static_cast<int>(sizeof(Place)) ||
                   layout.total > kChip.shared_bytes;
          wrong += tile.raw.has_zeros_around != (tile.raw.apart != 0 || padding == 0);
        }
  wrong += tables == 0;
  if (wrong > 0) std::printf("%d tables of offsets are wrong\n", wrong);
  return wrong;
}

/// Of a run of transposed lines, from such a column of such a row of the input on: pixels that are not in its line,
/// wherever in a word this begins, or have two positions of a plane.
int misplaced_pixels(const Problem& problem, const Tile& tile, int64_t y0, int begin) {
  constexpr int64_t kLatest = kUnitBytes / 2 - 1;  // in a word
  const int64_t x0 = -problem.padding_left, w = problem.w;
  const int64_t first = std::max<int64_t>(y0 * w + std::min(x0 + begin * problem.stride_w, w), 0);
  int wrong = 0;
  for (int plane = 0; plane < tile.planes; ++plane) {
    std::set<int64_t> pixels;
    for (int at = begin; at < begin + tile.plane_positions; ++at) {
      const int64_t y = y0 + at / tile.pitch * problem.stride_h;
      const int64_t x = x0 + at % tile.pitch * problem.stride_w + tile.origin[plane];
      // Rows below an image that is not padded have positions, too.
      const bool is_row = tile.raw.has_zeros_around || (y >= 0 && y < problem.h);
      if (!is_row || x < 0 || x >= w) continue;
      const int64_t pixel = y * w + x - first;
      wrong += pixel < 0 || pixel + kLatest >= int64_t{tile.raw.rows} * tile.raw.pitch ||
               !pixels.insert(pixel).second;
    }
    wrong +=
        planes_alike(tile, plane, static_cast<int>(problem.stride_w)) >= tile.raw.pixel_positions;
  }
  return wrong;
}

/// Likewise of all runs of all kernels' tiles, if their lines are transposed and go on from row to row. Counts these tiles.
int misplaced_pixels(const Problem& problem, int& tables) {
  int wrong = 0;
  for (const KernelShape& shape : kShapes) {
    TileChoice choice;
    if (!choose_tile(problem, Operands::kHalf, &shape, 1, kChip, choice)) continue;
    const Tile& tile = choice.tile;
    if (!tile.raw.transposed() || tile.run == 0 || tile.raw.apart != 0) continue;
    ++tables;
    for (int begin = 0; begin < tile.pitch; ++begin)
      for (const int64_t y0 : {-problem.padding_top, int64_t{5}, problem.h - 1})
        wrong += misplaced_pixels(problem, tile, y0, begin);
  }
  return wrong;
}

/// Tables of runs have room for all pixels of any run.
int check_pixel_tables() {
  int wrong = 0, tables = 0;
  for (const int64_t size : {11, 24, 33})
    for (const int64_t taps : {1, 3, 7})
      for (const int64_t padding : {0, 1, 6})
        for (const int64_t stride : {1, 2})
          for (const int64_t dilation : {1, 6}) {
            Problem problem = make_problem({3, 64, 33, size}, 128, 3, taps, false);
            problem.dilation_w = dilation;
            set_windows(problem, padding, stride);
            if (problem.q >= 1) wrong += misplaced_pixels(problem, tables);
          }
  if (wrong > 0 || tables == 0)
    std::printf("%d pixels of %d tables are misplaced\n", wrong, tables);
  return wrong + (tables == 0);
}

void print_layer(const char* name, int64_t c, int64_t size, int64_t k, int64_t kernel,
                 int64_t stride) {
  for (const Operands operands : {Operands::kHalf, Operands::kSplit}) {
    Problem problem =
        make_problem({128, c, size, size}, k, kernel, kernel, operands == Operands::kHalf);
    problem.stride_h = problem.stride_w = stride;
    set_outputs(problem);
    TileChoice choice;
    choose_tile(problem, operands, kShapes, static_cast<int>(std::size(kShapes)), kChip, choice);
    const KernelShape& shape = kShapes[choice.kernel];
    std::printf("%-6s %s %3d x %3d: %s\n", name, operands == Operands::kHalf ? "half " : "split",
                shape.filters, shape.columns, describe(choice.tile).c_str());
  }
}

}  // namespace

int main() {
  print_layer("conv1", 3, 227, 96, 11, 4);
  print_layer("conv4", 64, 224, 64, 7, 2);
  print_layer("conv5", 96, 24, 256, 5, 1);
  print_layer("conv8", 64, 112, 128, 3, 1);
  print_layer("conv12", 512, 7, 512, 3, 1);
  const int wrong = check_clusters() + check_stages() + check_copies() + check_zeros() +
                    check_pixel_boxes() + check_held() + check_unit_offsets() +
                    check_pixel_tables();
  return wrong == 0 ? 0 : 1;
}
