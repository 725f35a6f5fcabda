// How grouped shares problems out, what it refuses, and when it is chosen.

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <optional>

#include "cuda/grouped/tile.hpp"
#include "expect.hpp"
#include "layers.hpp"

namespace {

using namespace im2win;
using namespace im2win::cuda;
using grouped::Layout;
using grouped::Set;
using grouped::Tile;

/// Of dense tensors, so many channels and filters a group.
Problem layer(int64_t n, int64_t groups, int64_t c, int64_t k, int64_t size, int64_t kernel = 3,
              int64_t stride = 1) {
  Problem problem = dense_layer(n, groups * c, size, groups * k, kernel, kernel / 2, stride, true);
  problem.dtype = IM2WIN_FLOAT16;
  problem.groups = groups;
  problem.filter = dense(groups * k, c, kernel, kernel, true);
  return problem;
}

void check_sets() {
  const auto is_set = [](int64_t c, int64_t k, int groups) {
    const Set set = grouped::set_of(layer(1, 32, c, k, 7));
    return set.groups == groups && set.channels == c * groups && set.filters == k * groups;
  };
  expect(is_set(8, 8, 1) && is_set(24, 24, 1) && is_set(32, 8, 1), "groups of whole words");
  expect(is_set(4, 4, 2) && is_set(12, 12, 2) && is_set(1, 1, 8), "several that make some");
  expect(is_set(8, 4, 2), "of filters, too");
}

/// Positions of a lane's strips lie in the box, and all that is read in what is staged.
void check_tile(const Problem& problem, const DeviceLimits& device) {
  const std::optional<Tile> chosen = grouped::choose_tile(problem, device);
  if (!chosen) return;
  const Tile& tile = *chosen;
  const Layout layout = grouped::layout_of(problem, tile);
  const Set set = grouped::set_of(problem);
  expect(tile.sets * std::max(set.channels, set.filters) <= grouped::kMostSlab, "a slab");
  expect(set.filters > grouped::kWord || tile.sets % 2 == 0, "pairs of sets of eight filters");
  expect(tile.columns <= problem.q && tile.box_rows() < problem.p + grouped::kStripRows,
         "boxes within the image");
  expect(
      layout.rows > (tile.box_rows() - 1) * problem.stride_h + (problem.r - 1) * problem.dilation_h,
      "the last row of the last window");
  const int64_t last = (problem.s - 1) * problem.dilation_w;
  expect(tile.columns - 1 + last / problem.stride_w < layout.phase_columns &&
             layout.phase_columns * problem.stride_w == layout.columns,
         "its last column, among those of its phase");
  expect(layout.pixel_pitch / 16 % 2 == 1 && layout.filter_pitch / 16 % 2 == 1,
         "neighbours in different banks");
  expect(layout.filter_pitch >= tile.tap_rows * layout.steps * 32, "all steps of a filter");
  expect(layout.filters_begin >= grouped::kFixedBytes + 8 * (layout.steps + 1) &&
             layout.boxes_begin ==
                 layout.filters_begin + tile.sets * set.filters * layout.filter_pitch &&
             layout.shared_bytes == layout.boxes_begin + tile.stages * layout.box_bytes,
         "parts one after the other");
  expect(layout.shared_bytes <= device.shared_bytes, "no more shared memory than a block has");
  const int boxes = grouped::boxes_of(problem, tile);
  const int at_once = grouped::boxes_at_once(problem, tile, device);
  expect(at_once >= 1 && at_once <= boxes, "boxes for all blocks");
  expect(tile.stages == 2 || at_once == boxes, "a stage for the next box");
}

void check_tiles() {
  for (const int64_t n : {1, 64})
    for (const int64_t c : {1, 4, 6, 8, 12, 16, 24, 32})
      for (const int64_t size : {1, 7, 28, 57})
        for (const int64_t kernel : {1, 3, 5})
          for (const int64_t stride : {1, 2, 3})
            for (const DeviceLimits& device : {kH200, DeviceLimits{1, 99 * 1024}})
              check_tile(layer(n, 32, c, c, size, kernel, stride), device);
  expect(grouped::choose_tile(layer(1, 32, 16, 16, 28), kH200)->tap_rows == 3,
         "rows of taps share pixels");
  expect(grouped::choose_tile(layer(1, 32, 16, 16, 28, 3, 2), kH200)->tap_rows == 1,
         "but not where windows are further apart");
}

void check_refusals() {
  const auto refuses = [](const auto& change) {
    Problem problem = layer(2, 32, 16, 16, 14);
    change(problem);
    return !grouped::refusal(problem).empty();
  };
  expect(!refuses([](Problem&) {}), "groups of 16 are taken");
  expect(!refuses([](Problem& p) { p.input.stride[3] += 8, p.output.stride[0] += 8; }),
         "with gaps, too");
  expect(!refuses([](Problem& p) { p.filter = dense(512, 16, 3, 3, false); }), "any filters");
  expect(refuses([](Problem& p) { p.dtype = IM2WIN_FLOAT32; }), "float32 is not");
  expect(refuses([](Problem& p) { p = layer(1, 1, 16, 16, 7); }), "nor one group");
  expect(refuses([](Problem& p) { p = layer(1, 4, 40, 40, 7); }), "many channels");
  expect(refuses([](Problem& p) { p = layer(1, 8, 8, 5, 7); }), "odd numbers of filters");
  expect(!refuses([](Problem& p) { p = layer(1, 3, 4, 4, 7); }), "half a word of channels is");
  expect(!refuses([](Problem& p) { p.input = dense(2, 512, 14, 14, false); }), "NCHW");
  expect(!refuses([](Problem& p) { p.output.stride[2] += 4; }), "rows off words");
  expect(refuses([](Problem& p) { p = layer(1, 2, 32, 32, 80, 31); }), "long windows");
}

void check_copies() {
  const auto copy = [](const Problem& problem, uintptr_t address) {
    return grouped::filter_copy(problem, reinterpret_cast<const void*>(address));
  };
  const Problem problem = layer(1, 32, 16, 16, 14);
  expect(copy(problem, 32) == 8 && copy(problem, 40) == 4 && copy(problem, 34) == 1,
         "filters as their address allows");
  expect(copy(layer(1, 32, 4, 4, 14), 32) == 4, "groups of four");
  Problem planes = problem;
  planes.filter = dense(512, 16, 3, 3, false);
  expect(copy(planes, 32) == 1, "channels with gaps one by one");
}

void check_choice() {
  using grouped::is_faster;
  for (const int64_t c : {4, 8, 16, 32})
    expect(is_faster(layer(1, 32, c, c, 28)), "ResNeXt, single images");
  for (const int64_t c : {4, 8, 16}) {
    expect(is_faster(layer(64, 32, c, c, 28)), "and many");
    expect(is_faster(layer(64, 32, c, c, 28, 3, 2)), "with a stride");
  }
  expect(!is_faster(layer(64, 4, 64, 64, 28)), "wide groups are for im2win_fused");
  const auto planes = [](int64_t n, int64_t groups, int64_t c, int64_t size) {
    Problem problem = layer(n, groups, c, c, size);
    problem.input = problem.output = dense(n, groups * c, size, size, false);
    problem.filter = dense(groups * c, c, 3, 3, false);
    return problem;
  };
  for (const int64_t n : {1, 32, 128}) {
    expect(is_faster(planes(n, 55, 8, 14)), "RegNet in NCHW, groups that do not merge");
    expect(is_faster(planes(n, 37, 24, 7)), "or make no 64 channels");
  }
  expect(is_faster(planes(32, 32, 32, 7)), "small planes");
  expect(!is_faster(planes(128, 32, 8, 28)), "many larger ones are for im2win_fused");
}

/// Of filters of one channel.
void check_choice_of_single_channels() {
  const auto is_chosen = [](int64_t n, int64_t c, const auto& change) {
    Problem problem = layer(n, c, 1, 1, 80);
    change(problem);
    return grouped::is_faster_than_depthwise(problem);
  };
  const auto leave = [](Problem&) {};
  expect(is_chosen(32, 8, leave) && is_chosen(32, 16, leave), "few channels in NHWC");
  expect(is_chosen(32, 16, [](Problem& p) { p.activation = IM2WIN_RELU; }), "with a clamp");
  expect(!is_chosen(1, 16, leave), "not of single images");
  expect(!is_chosen(32, 32, leave), "nor many channels");
  expect(!is_chosen(32, 16, [](Problem& p) { p.activation = IM2WIN_SILU; }), "nor with SiLU");
  expect(!is_chosen(32, 16, [](Problem& p) { p.input = dense(32, 16, 80, 80, false); }),
         "nor in NCHW");
  expect(!is_chosen(32, 16, [](Problem& p) { p = layer(32, 2, 8, 8, 80); }),
         "nor of several channels a group");
}

}  // namespace

int main() {
  check_sets();
  check_tiles();
  check_refusals();
  check_copies();
  check_choice();
  check_choice_of_single_channels();
  std::printf("%d wrong\n", failures);
  return failures == 0 ? 0 : 1;
}
