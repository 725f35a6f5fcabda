// The tiles of im2win_fused, executed on the host: for random problems it stages slabs as the kernel
// does, multiplies them step by step with the filter elements that the order names, and compares
// with the definition of convolution, in integers.

#include <cstdint>
#include <cstdio>
#include <random>
#include <span>
#include <vector>

#include "cuda/fused/shared.hpp"
#include "cuda/fused/tile.hpp"
#include "fused_problems.hpp"

namespace {

using namespace im2win;
using namespace im2win::cuda::fused;

constexpr KernelShape kPixelShapes[] = {
    {.filters = 128, .columns = 128, .pixel_rows = true},
    {.filters = 128, .columns = 200, .least_columns = 136, .pixel_rows = true},
    {.filters = 128, .columns = 256, .staging_warpgroups = 1, .pixel_rows = true},
    {.filters = 64,
     .columns = 256,
     .staging_warpgroups = 1,
     .takes_turns = true,
     .pixel_rows = true}};
using Shapes = std::span<const KernelShape>;

/// Some value of the input at [n, c, y, x], 0 outside.
int64_t input_at(const Problem& problem, int64_t n, int64_t c, int64_t y, int64_t x) {
  if (n >= problem.n || c >= problem.c || y < 0 || y >= problem.h || x < 0 || x >= problem.w)
    return 0;
  return (n * 7919 + c * 104729 + y * 1299709 + x * 15485863) % 1009 - 504;
}

int64_t filter_at(int64_t c, int64_t r, int64_t s) {
  return (c * 31337 + r * 271 + s * 8191) % 101 - 50;
}

int64_t expected(const Problem& problem, int64_t n, int64_t p, int64_t q) {
  int64_t sum = 0;
  for (int64_t c = 0; c < problem.c; ++c)
    for (int64_t r = 0; r < problem.r; ++r)
      for (int64_t s = 0; s < problem.s; ++s)
        sum += filter_at(c, r, s) *
               input_at(problem, n, c,
                        p * problem.stride_h + r * problem.dilation_h - problem.padding_top,
                        q * problem.stride_w + s * problem.dilation_w - problem.padding_left);
  return sum;
}

/// One tile at output [n, p, q], as the kernel computes it for one filter.
class TileRun {
 public:
  TileRun(const Problem& problem, const TileChoice& choice, const KernelShape& shape, int64_t n,
          int64_t p, int64_t q)
      : problem_(problem),
        choice_(choice),
        tile_(choice.tile),
        shape_(shape),
        n_(n),
        p_(p),
        q_(q),
        begin_(0) {}

  /// The run of that number.
  TileRun(const Problem& problem, const TileChoice& choice, const KernelShape& shape, int64_t n,
          int64_t number)
      : TileRun(problem, choice, shape, n, number * choice.tile.run / choice.tile.pitch, 0) {
    begin_ = number * tile_.run % tile_.pitch;
  }

  /// The outputs that differ, and those that no column computes.
  int mismatches() {
    const int columns = shape_.block_columns() / shape_.columns * tile_.product_columns;
    std::vector<int64_t> sums(static_cast<size_t>(columns), 0);
    for (int group = 0; group < tile_.tap_groups; ++group)
      for (int chunk = 0; chunk < tile_.chunks; ++chunk) {
        stage(group, chunk);
        for (int column = 0; column < columns; ++column)
          sums[static_cast<size_t>(column)] += multiply(group, chunk, column);
      }
    int missing = 0, wrong = 0;
    for (int row = 0; row < tile_.rows; ++row)
      for (int image = 0; image < tile_.images; ++image)
        for (int x = 0; x < tile_.columns; ++x) {
          if (n_ + image >= problem_.n || p_ + row >= problem_.p || q_ + x >= problem_.q) continue;
          int64_t column = (row * tile_.images + image) * tile_.column_pitch + x - begin_;
          if (tile_.run > 0 && (column < 0 || column >= columns)) continue;  // another run's
          const int64_t own = shape_.divides_columns() ? column % tile_.warpgroup_columns : column;
          column += (column - own) / tile_.warpgroup_columns *
                    (tile_.product_columns - tile_.warpgroup_columns);
          if (own >= tile_.product_columns || column >= columns) {
            ++missing;
          } else {
            wrong += sums[static_cast<size_t>(column)] !=
                     expected(problem_, n_ + image, p_ + row, q_ + x);
          }
        }
    return missing + wrong;
  }

 private:
  int elements() const { return tile_.unit_channels * tile_.unit_columns; }

  /// Of a unit's first element, and from that to the next: before swizzles, which products undo.
  int place(int position, int unit) const {
    if (tile_.pixel_rows)
      return (position / kRowPixels * tile_.units + unit) * elements() * kRowPixels +
             position % kRowPixels;
    return elements() * place_of_unit(position, unit);
  }
  int apart() const { return tile_.pixel_rows ? kRowPixels : 1; }
  int place_of_unit(int position, int unit) const {
    return tile_.boxed() ? position * tile_.row_units + unit
                         : unit * tile_.positions_pitch + position;
  }

  void stage(int group, int chunk) {
    // Products that read past the slab find anything there: it must not reach an output.
    const auto overrun = static_cast<size_t>(tile_.overrun * tile_.row_units);
    slab_.assign((static_cast<size_t>(tile_.units * tile_.positions_pitch) + overrun) *
                     static_cast<size_t>(elements()),
                 1 << 20);
    for (int unit = 0; unit < tile_.units; ++unit)
      for (int position = 0; position < tile_.positions; ++position) {
        const int plane = position / tile_.plane_positions;
        const int64_t in_plane = begin_ + position % tile_.plane_positions;
        const int64_t line = in_plane / tile_.pitch;
        const int64_t y = (p_ + line / tile_.images) * problem_.stride_h +
                          group / tile_.column_groups * problem_.dilation_h - problem_.padding_top;
        const int64_t x = (q_ + in_plane % tile_.pitch) * problem_.stride_w +
                          tile_.origin[group % tile_.column_groups + plane] - problem_.padding_left;
        for (int e = 0; e < elements(); ++e)
          at(place(position, unit), e) =
              input_at(problem_, n_ + line % tile_.images, channel(chunk, unit, e), y,
                       x + e / tile_.unit_channels * problem_.dilation_w);
      }
  }

  int64_t channel(int chunk, int unit, int e) const {
    return int64_t{chunk} * tile_.units * tile_.unit_channels +
           tile_.channel(unit, e % tile_.unit_channels);
  }

  int64_t& at(int first, int e) { return slab_.at(static_cast<size_t>(first + e * apart())); }

  int64_t multiply(int group, int chunk, int column) {
    const int kind = group < tile_.full_groups ? 0 : 1;
    int64_t sum = 0;
    for (int i = 0; i < tile_.steps[kind].count; ++i) {
      const Step& step = tile_.steps[kind].step[i];
      for (int half = 0; half < 2; ++half) {
        const FilterUnit& unit = choice_.order.unit[kind][i][half];
        for (int e = 0; e < elements(); ++e)
          sum += weight(group, chunk, unit, e) * at(operand(step, half, column), e);
      }
    }
    return sum;
  }

  /// The first element of one of a step's units for a column, as wgmma finds it. Steps count 16 bytes.
  int operand(const Step& step, int half, int column) const {
    if (tile_.pixel_rows) {
      const int first = step.offset + half * 8 * kRowUnits + column / kRowPixels * step.second;
      return first * kRowPixels / kRowUnits + column % kRowPixels;
    }
    const int in_warpgroup = column % tile_.product_columns;
    const int start = (column / tile_.product_columns * tile_.warpgroup_step +
                       in_warpgroup / 8 * tile_.group_stride + in_warpgroup % 8) *
                      tile_.row_units;
    return (start + step.offset + half * step.second) * elements();
  }

  int64_t weight(int group, int chunk, const FilterUnit& unit, int e) const {
    const int64_t c = channel(chunk, unit.unit, e);
    const int64_t r = group / tile_.column_groups + int64_t{unit.row} * tile_.row_step;
    const int64_t s = group % tile_.column_groups + unit.column + e / tile_.unit_channels;
    return unit.row < 0 || c >= problem_.c || s >= problem_.s ? 0 : filter_at(c, r, s);
  }

  const Problem& problem_;
  const TileChoice& choice_;
  const Tile& tile_;
  const KernelShape& shape_;
  int64_t n_, p_, q_, begin_;
  std::vector<int64_t> slab_;
};

/// Of filters that are read in place, the batches that are no tap's channels in turn.
int misplaced_batches(const TileChoice& choice, Operands operands) {
  const int batch = traits(operands).batch;
  int wrong = 0;
  for (int kind = 0; choice.tile.filters_in_place && kind < 2; ++kind) {
    const int count = choice.tile.steps[kind].count;
    wrong += count % batch != 0;
    for (int i = 0; i < 2 * count; ++i) {
      const FilterUnit& first = choice.order.unit[kind][i / 2 / batch * batch][0];
      const FilterUnit& unit = choice.order.unit[kind][i / 2][i % 2];
      wrong += unit.row != first.row || unit.column != first.column || unit.unit != i % (2 * batch);
    }
  }
  return wrong;
}

/// Runs the first tile, and the last, which is cut off at the edges.
int check(const Problem& problem, Operands operands, Shapes shapes) {
  TileChoice choice;
  if (!choose_tile(problem, operands, shapes.data(), static_cast<int>(shapes.size()), kChip, choice,
                   shapes[0].pixel_rows))
    return 0;
  const Tile& tile = choice.tile;
  const KernelShape& shape = shapes[static_cast<size_t>(choice.kernel)];
  const int64_t last[] = {(problem.n - 1) / tile.images * tile.images,
                          (problem.p - 1) / tile.rows * tile.rows,
                          (problem.q - 1) / tile.columns * tile.columns};
  int mismatches =
      tile.run > 0
          ? TileRun(problem, choice, shape, 0, 0).mismatches() +
                TileRun(problem, choice, shape, last[0], row_tiles(problem, tile) - 1).mismatches()
          : TileRun(problem, choice, shape, 0, 0, 0).mismatches() +
                TileRun(problem, choice, shape, last[0], last[1], last[2]).mismatches();
  mismatches += misplaced_batches(choice, operands);
  mismatches += misshared_slabs(tile, traits(operands));
  const SharedLayout layout = shared_layout(tile, shape, operands);
  if (layout.total > kChip.shared_bytes) ++mismatches;
  if (tile.cluster_bits > 0 && layout.patches - layout.filters < cluster_sum_bytes(tile, shape))
    ++mismatches;
  if (shape.takes_turns && !tile.resident) ++mismatches;
  // As many warps transpose as the kernel is compiled for: where there are others, lines have one.
  if (tile.raw.transposed() && (tile.line_warp != 0) != (shape.staging_warpgroups > 1))
    ++mismatches;
  // Blocks that keep their filters have the same in all their tiles.
  if (tile.resident &&
      kChip.multiprocessors % ((problem.k + shape.filters - 1) / shape.filters) != 0)
    ++mismatches;
  if (mismatches > 0)
    std::printf(
        "%d wrong: %d x %d x %d x %d, %d x %d, stride %d %d, padding %d %d, dilation %d %d: "
        "%s\n",
        mismatches, int(problem.n), int(problem.c), int(problem.h), int(problem.w), int(problem.r),
        int(problem.s), int(problem.stride_h), int(problem.stride_w), int(problem.padding_top),
        int(problem.padding_left), int(problem.dilation_h), int(problem.dilation_w),
        describe(tile).c_str());
  return mismatches;
}

/// The batches of so many steps that are whole come first.
int check_batches() {
  constexpr OperandTraits kTraits = traits(Operands::kHalf);
  int wrong = 0;
  for (int steps = 1; steps <= kMaxSteps; ++steps) {
    int whole = 0, left = steps;
    for (; left > 0 && batch_of(kTraits, left) == kTraits.batch; left -= kTraits.batch) ++whole;
    wrong += whole_batches(kTraits, steps) != whole;
    for (; left > 0; left -= batch_of(kTraits, left))
      wrong += batch_of(kTraits, left) >= kTraits.batch;
  }
  if (wrong > 0) std::printf("%d numbers of steps have wrong batches\n", wrong);
  return wrong;
}

/// Numbers between a lowest and a highest, the same ones each time.
auto random_numbers() {
  return [random = std::mt19937(2023)](int low, int high) mutable {
    return std::uniform_int_distribution<int64_t>(low, high)(random);
  };
}

int check_random_problems() {
  auto between = random_numbers();
  int mismatches = 0;
  for (int i = 0; i < 400; ++i) {
    const int64_t input[] = {between(1, 5), between(1, i % 4 == 0 ? 70 : 12), between(1, 40),
                             between(1, 40)};
    Problem problem = make_problem(input, between(1, 200), between(1, 7), between(1, 7), i % 2);
    problem.stride_h = between(1, 4);
    problem.stride_w = between(1, 4);
    problem.dilation_h = between(1, 3);
    problem.dilation_w = between(1, 3);
    problem.padding_top = problem.padding_bottom = between(0, 3);
    problem.padding_left = problem.padding_right = between(0, 3);
    set_outputs(problem);
    if (problem.p < 1 || problem.q < 1) continue;
    for (const Operands operands : {Operands::kHalf, Operands::kTf32, Operands::kSplit})
      mismatches += check(problem, operands, kShapes);
  }
  return mismatches;
}

/// Single pixels, some of the input's.
int check_pixels_apart() {
  auto between = random_numbers();
  int mismatches = 0;
  for (int i = 0; i < 100; ++i) {
    const int64_t input[] = {between(1, 9), between(1, 140), between(1, 30), between(1, 30)};
    Problem problem = make_problem(input, between(1, 300), 1, 1, false);
    problem.stride_h = between(1, 3);
    problem.stride_w = between(1, 3);
    set_outputs(problem);
    for (const KernelShape& shape : kPixelShapes)
      mismatches += check(problem, Operands::kHalf, {&shape, 1});
  }
  return mismatches;
}

/// Single pixels, of one image whose rows are others.
int check_pixel_rows() {
  auto between = random_numbers();
  int mismatches = 0;
  for (int i = 0; i < 100; ++i) {
    const int64_t width = i % 2 == 0 ? 8 * between(1, 60) : between(1, 480);
    const int64_t input[] = {1, between(1, 200), between(1, 9), width};
    Problem problem = make_problem(input, between(1, 300), 1, 1, false);
    set_outputs(problem);
    for (const KernelShape& shape : kPixelShapes)
      mismatches += check(problem, Operands::kHalf, {&shape, 1});
  }
  return mismatches;
}

}  // namespace

int main() {
  const int wrong =
      check_random_problems() + check_pixels_apart() + check_pixel_rows() + check_batches();
  return wrong == 0 ? 0 : 1;
}
