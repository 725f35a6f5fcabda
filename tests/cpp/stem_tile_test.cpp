// The tiles of im2win_stem: that each of an output's products is in one of its steps, once, and of the
// input and the filter element that belong together; and that blocks fit shared memory.

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <iterator>
#include <span>
#include <vector>

#include "cuda/fused/stem/shapes.hpp"
#include "expect.hpp"

namespace {

using namespace im2win;
using namespace im2win::cuda::fused;

constexpr Chip kChip = {132, 227 * 1024, true};
constexpr KernelShape kShapes[] = {stem::kNarrow,   stem::kWide,  stem::kPixelMajorHalves,
                                   stem::kDenseRaw, stem::kDense, stem::kDenseRunsHalves};
constexpr KernelShape kTf32Shapes[] = {stem::kNarrow, stem::kWideTf32, stem::kPixelMajor};
constexpr KernelShape kSplitShapes[] = {stem::kNarrow, stem::kPixelMajor, stem::kDense,
                                        stem::kDenseRuns};

std::span<const KernelShape> shapes_for(Operands operands) {
  if (operands == Operands::kSplit) return kSplitShapes;
  if (operands == Operands::kTf32) return kTf32Shapes;
  return kShapes;
}

Problem make_problem(int64_t c, int64_t w, int64_t k, int64_t r, int64_t s, int64_t stride_h,
                     int64_t stride_w) {
  Problem problem{};
  problem.n = 2;
  problem.c = c;
  problem.h = problem.w = w;
  problem.k = k;
  problem.r = r;
  problem.s = s;
  problem.stride_h = stride_h;
  problem.stride_w = stride_w;
  problem.dilation_h = problem.dilation_w = problem.groups = 1;
  problem.alpha = 1;
  problem.p = (w - r) / stride_h + 1;
  problem.q = (w - s) / stride_w + 1;
  const int64_t strides[] = {k * problem.p * problem.q, problem.p * problem.q, problem.q, 1};
  std::copy(std::begin(strides), std::end(strides), problem.output.stride);
  const int64_t nhwc[] = {w * w * c, 1, w * c, c};
  std::copy(std::begin(nhwc), std::end(nhwc), problem.input.stride);
  return problem;
}

/// What one output's steps multiply. An element of a unit is four columns by some rows of a channel.
class Products {
 public:
  Products(const Problem& problem, Operands operands, const stem::StemChoice& choice)
      : problem_(problem), operands_(operands), choice_(choice), counts_(taps()) {
    const int steps = choice.bands.batches * choice.bands.batch_steps;
    expect(choice.tile.tile.steps[0].count == choice.bands.count * steps, "the number of steps");
    for (int band = 0; band < choice.bands.count; ++band)
      for (int i = 0; i < steps; ++i) {
        const Step step = choice.bands.steps[i];
        const FilterUnit(&filters)[2] = choice.tile.order.unit[0][band * steps + i];
        add(band, step.offset, filters[0]);
        add(band, step.offset + step.second, filters[1]);
      }
    for (const int count : counts_) expect(count == 1, "how often a tap is multiplied");
  }

 private:
  size_t taps() const { return static_cast<size_t>(problem_.c * problem_.r * problem_.s); }

  void add(int band, int offset, const FilterUnit& filter) {
    const stem::Bands& bands = choice_.bands;
    const int line = offset / bands.positions, position = offset % bands.positions;
    expect(offset * kUnitBytes < bands.part_bytes, "a unit past its band");
    if (filter.row < 0) return;
    if (choice_.tile.tile.unit_columns == 0) {
      expect(filter.unit == line && position == 0, "the unit of a dense band");
      const auto elements = static_cast<size_t>(traits(operands_).unit_elements);
      const size_t first = static_cast<size_t>(line) * elements;
      for (size_t i = first; i < std::min(first + elements, taps()); ++i) ++counts_[i];
      return;
    }
    const int64_t rows = stem::unit_rows(operands_);
    const int64_t y = band * bands.apart * problem_.stride_h + line / problem_.c * rows;
    const int64_t x = position * problem_.stride_w;
    expect(filter.unit == line % problem_.c, "the channel of a unit");
    for (int64_t row = 0; row < rows; ++row)
      for (int64_t column = 0; column < stem::kUnitColumns; ++column) {
        const int64_t r = filter.row + row, s = filter.column + column;
        if (r >= problem_.r || s >= problem_.s) continue;
        expect(r == y + row && s == x + column, "the tap of an element");
        ++counts_[static_cast<size_t>((filter.unit * problem_.r + r) * problem_.s + s)];
      }
  }

  const Problem& problem_;
  Operands operands_;
  const stem::StemChoice& choice_;
  std::vector<int> counts_;
};

/// Rows that come as they lie: that all which windows meet of a band is in its stage, be it as far past 16 bytes as it
/// can, and that threads have all positions.
void check_raw(const Problem& problem, const KernelShape& shape, const stem::Bands& bands) {
  const int64_t first = -problem.padding_left;
  const int64_t positions = bands.output_rows > 1 ? problem.q : bands.positions;  // of a row
  expect(bands.output_rows * positions <= bands.positions, "rows of outputs in a band");
  expect(bands.rows >= (bands.output_rows - 1) * problem.stride_h + (shape.dense ? problem.r : 1),
         "the rows that windows meet");
  const int64_t last = first + (positions - 1) * problem.stride_w +
                       (shape.dense ? stem::kDenseTaps : stem::kUnitColumns);
  const int64_t pixels = (bands.rows - 1) * problem.w + std::max(last, problem.w) - first;
  expect(pixels * stem::kRawPixelBytes + kUnitBytes <= bands.raw_bytes, "a band's rows");
  expect(stem::raw_items(bands, shape.dense) <= 128 * stem::kRawItems, "what threads stage");
  expect(bands.chunks * shape.columns >= problem.q, "rows of several strips");
}

/// False if no kernel takes the problem.
bool check(Problem problem, Operands operands) {
  problem.dtype = operands == Operands::kHalf ? IM2WIN_FLOAT16 : IM2WIN_FLOAT32;
  const std::span<const KernelShape> shapes = shapes_for(operands);
  stem::StemChoice choice;
  if (!stem::choose_stem(problem, operands, shapes.data(), static_cast<int>(shapes.size()), kChip,
                         choice))
    return false;
  const KernelShape& shape = shapes[static_cast<size_t>(choice.tile.kernel)];
  Products(problem, operands, choice);
  expect(stem::stem_layout(choice, shape, operands).total <= kChip.shared_bytes, "shared memory");
  expect(choice.bands.stages > choice.bands.of_rows(1), "fewer bands than a row and one more");
  const int chunks = choice.bands.chunks, columns = choice.tile.tile.columns;
  expect(chunks > 1 ? columns == chunks * shape.columns : columns <= shape.columns, "columns");
  expect(choice.bands.positions >= columns, "positions");
  const int64_t filter_tiles = (problem.k + shape.filters - 1) / shape.filters;
  expect(choice.sets >= 1 && filter_tiles % choice.sets == 0, "sets of a tile's filters");
  expect(!choice.gathers || (operands != Operands::kSplit &&
                             2 * choice.tile.tile.steps[0].count <= stem::kMostGatheredUnits),
         "which filters are gathered");
  if (choice.bands.raw_bytes > 0)
    check_raw(problem, shape, choice.bands);
  else
    expect(!shape.dense || shape.staging_warpgroups > 1, "dense bands by one warpgroup");
  return true;
}

void check_all() {
  int taken = 0;
  for (const Operands operands : {Operands::kHalf, Operands::kTf32, Operands::kSplit})
    for (const int64_t k : {64, 96, 384})
      for (int64_t c = 1; c <= stem::kMaxChannels; ++c)
        for (int64_t r = 1; r <= 12; ++r)
          for (int64_t s = 1; s <= 12; ++s)
            for (const int64_t stride_h : {1, 2, 4, 6})
              for (const int64_t stride_w : {1, 2, 4})
                taken += check(make_problem(c, 61, k, r, s, stride_h, stride_w), operands);
  std::printf("%d small problems\n", taken);
  expect(taken > 4000, "that most are taken");
}

/// Of outputs.
void set_channels_last(Problem& problem) {
  const int64_t row = problem.q * problem.k;
  problem.output = {{problem.n, problem.k, problem.p, problem.q},
                    {problem.p * row, 1, row, problem.k}};
}

/// Of float16.
stem::StemChoice choose(Problem problem, bool nhwc) {
  problem.dtype = IM2WIN_FLOAT16;
  if (nhwc) set_channels_last(problem);
  stem::StemChoice choice;
  stem::choose_stem(problem, Operands::kHalf, kShapes, std::size(kShapes), kChip, choice);
  return choice;
}

/// Which of those of 64 filters is chosen for so many pixels a row, by how full it is.
void check_columns() {
  const auto chosen = [](int64_t taps, int64_t q, bool nhwc = false) {
    return kShapes[choose(make_problem(3, q + taps - 1, 64, taps, taps, 1, 1), nhwc).tile.kernel];
  };
  const auto columns = [&](int64_t q) { return chosen(5, q).columns; };
  expect(columns(56) == 56 && columns(30) == 56, "narrow rows");
  expect(columns(57) == 112 && columns(112) == 112 && columns(224) == 112, "wide rows");
  expect(columns(149) == 56, "rows of which three parts fit better than two");
  expect(chosen(3, 56).runs && chosen(3, 112).runs && chosen(3, 222).runs, "runs");
  expect(chosen(3, 112, true).dense && chosen(3, 224, true).dense, "dense bands");
  expect(!chosen(3, 112, true).runs, "runs with channels last");
}

/// Narrow rows of NHWC come several at a time.
void check_output_rows() {
  const auto rows = [](int64_t q, int64_t k = 64, int64_t taps = 3) {
    const auto choice = choose(make_problem(3, q + taps - 1, k, taps, taps, 1, 1), true);
    const Tile& tile = choice.tile.tile;
    const int several = choice.bands.output_rows;
    expect(several == 1 || (tile.stored && tile.columns == q && tile.column_pitch == q &&
                            tile.warpgroup_columns == several * q),
           "where rows of outputs are");
    return several;
  };
  expect(rows(32) == 3 && rows(28) == 4 && rows(16) == 7 && rows(5) == 22, "narrow rows");
  expect(rows(56) == 2 && rows(57) == 1 && rows(224) == 1, "wide rows");
  expect(rows(32, 63) == 1, "outputs that do not leave as boxes");
  expect(rows(32, 64, 5) == 1, "larger windows");
  Problem apart = make_problem(3, 34, 64, 3, 3, 4, 1);
  expect(choose(apart, true).bands.output_rows == 1, "rows of the input in vain");
  apart = make_problem(3, 34, 64, 3, 3, 2, 1);
  expect(choose(apart, true).bands.output_rows == 3, "a step of two rows");
}

/// How single images and many are cut: rows are not shared out by whole ones where parts of them end sooner, nor are all
/// filters a block's where multiprocessors would have nothing to do.
void check_blocks() {
  const auto chosen = [](int64_t n, int64_t c, int64_t size, int64_t k) {
    Problem problem = make_problem(c, size + 2, k, 3, 3, 1, 1);
    problem.n = n;
    return choose(problem, true);
  };
  expect(chosen(1, 4, 64, 512).sets == 1 && chosen(1, 4, 64, 512).gathers, "one image");
  expect(chosen(128, 4, 64, 512).sets == 6, "all filters of many images");
  expect(chosen(1, 4, 128, 64).bands.chunks == 3, "whole rows, whose parts end no sooner");
  expect(chosen(1, 3, 300, 64).bands.chunks == 1, "three chunks as such, not as two of two");
}

/// Which form of sums is chosen, by how many filters are in vain, and what becomes of them.
void check_filters() {
  for (const Operands operands : {Operands::kHalf, Operands::kTf32, Operands::kSplit}) {
    const std::span<const KernelShape> shapes = shapes_for(operands);
    const auto filters = [&](const Problem& problem) {
      stem::StemChoice choice;
      stem::choose_stem(problem, operands, shapes.data(), static_cast<int>(shapes.size()), kChip,
                        choice);
      return shapes[static_cast<size_t>(choice.tile.kernel)].filters;
    };
    const auto problem = [&](int64_t k) {
      Problem made = make_problem(3, 227, k, 11, 11, 4, 4);
      made.dtype = operands == Operands::kHalf ? IM2WIN_FLOAT16 : IM2WIN_FLOAT32;
      return made;
    };
    expect(filters(problem(48)) == 64 && filters(problem(64)) == 64 && filters(problem(128)) == 64,
           "sixty-fours of filters");
    expect(filters(problem(65)) == 96 && filters(problem(96)) == 96, "ninety-six filters");
    Problem nhwc = problem(96);
    nhwc.output.stride[1] = 1;
    nhwc.output.stride[3] = 96;
    expect(filters(nhwc) == 96, "words of filters");
    nhwc.k = nhwc.output.stride[3] = 95;
    expect(filters(nhwc) == 64, "filters that are no words");
    Problem activated = problem(96);
    activated.activation = IM2WIN_GELU;
    expect(filters(activated) == (operands == Operands::kSplit ? 96 : 64), "an activation");
  }
}

/// Where rows come as they lie: those of three 16-bit channels, without gaps, and enough of them.
void check_rows() {
  const auto is_raw = [](const Problem& layer, Operands operands, int padding = 0) {
    Problem problem = layer;
    problem.dtype = operands == Operands::kTf32 ? IM2WIN_FLOAT32 : IM2WIN_FLOAT16;
    problem.padding_left = padding;
    problem.q += 2 * padding / problem.stride_w;
    set_channels_last(problem);
    check(problem, operands);
    const std::span<const KernelShape> shapes = shapes_for(operands);
    stem::StemChoice choice;
    return stem::choose_stem(problem, operands, shapes.data(), static_cast<int>(shapes.size()),
                             kChip, choice) &&
           choice.bands.raw_bytes > 0;
  };
  const Problem conv1 = make_problem(3, 227, 96, 11, 11, 4, 4);
  const Problem conv7 = make_problem(3, 224, 64, 3, 3, 1, 1);
  expect(is_raw(conv1, Operands::kHalf) && is_raw(conv7, Operands::kHalf), "whole rows");
  expect(is_raw(make_problem(3, 224, 64, 7, 7, 2, 2), Operands::kHalf, 3), "padded rows");
  expect(is_raw(conv7, Operands::kHalf, 1), "padded dense bands");
  expect(!is_raw(conv1, Operands::kTf32), "32 bits");
  expect(!is_raw(make_problem(4, 227, 96, 11, 11, 4, 4), Operands::kHalf), "four channels");
  expect(!is_raw(make_problem(3, 32, 64, 5, 5, 1, 1), Operands::kHalf), "few positions");
  for (const int64_t width : {7, 12, 32, 50})
    for (const int64_t stride : {1, 2})
      expect(is_raw(make_problem(3, width, 64, 3, 3, stride, stride), Operands::kHalf, 1),
             "several rows at a time");
  expect(!is_raw(make_problem(3, 1200, 64, 5, 5, 1, 1), Operands::kHalf), "parts of rows");
  Problem apart = conv1;
  apart.input.stride[2] += 3;
  expect(!is_raw(apart, Operands::kHalf), "rows with gaps");
}

/// Where windows of neighbouring positions come by words of two elements.
void check_pairs() {
  const auto planes = [](int64_t channels, int64_t w, int64_t stride) {
    Problem problem = make_problem(channels, w, 64, 3, 3, stride, stride);
    const int64_t nchw[] = {channels * w * w, w * w, w, 1};
    std::copy(std::begin(nchw), std::end(nchw), problem.input.stride);
    std::fill_n(problem.input.size, 4, 2);
    return problem;
  };
  const auto has = [](const Problem& problem) {
    return stem::has_pairs(problem, stem::kDenseRuns);
  };
  expect(has(planes(3, 224, 1)) && has(planes(3, 226, 2)), "even rows");
  expect(!has(planes(3, 225, 1)), "odd rows");
  expect(!has(planes(2, 224, 1)), "two channels");
  expect(!has(planes(3, 224, 4)), "steps of four columns");
  expect(!has(make_problem(3, 224, 64, 3, 3, 1, 1)), "pixels that are no neighbours");
  const Problem odd = planes(3, 224, 2);
  expect(!has(odd) && stem::has_pairs(odd, stem::kDense), "rows of 111 outputs");
  for (const int dimension : {0, 1, 2}) {
    Problem apart = planes(3, 224, 1);
    ++apart.input.stride[dimension];
    expect(!has(apart), "what begins amid a word");
    apart.input.size[dimension] = 1;
    expect(has(apart), "but of one alone");
  }
}

/// TF32 where outputs are runs, which are of rows of pixels.
void check_computed() {
  const auto math_of = [](Problem problem, im2win_math math, bool nhwc) {
    problem.dtype = IM2WIN_FLOAT32;
    problem.math = math;
    if (nhwc) set_channels_last(problem);
    return stem::as_computed(problem).math;
  };
  const Problem conv3 = make_problem(3, 227, 64, 7, 7, 2, 2);
  const Problem conv7 = make_problem(3, 224, 64, 3, 3, 1, 1);
  const Problem grey = make_problem(1, 224, 64, 3, 3, 1, 1);
  expect(math_of(conv7, IM2WIN_MATH_TF32, false) == IM2WIN_MATH_FP32, "runs of TF32");
  expect(math_of(conv7, IM2WIN_MATH_TF32, true) == IM2WIN_MATH_TF32, "but not of filters");
  expect(math_of(conv3, IM2WIN_MATH_TF32, false) == IM2WIN_MATH_TF32, "nor of 7 x 7");
  expect(math_of(grey, IM2WIN_MATH_TF32, false) == IM2WIN_MATH_TF32, "nor of nine elements");
  expect(math_of(conv7, IM2WIN_MATH_FP32, false) == IM2WIN_MATH_FP32, "runs of float32");
}

/// The paper's layers, and others that come first in networks.
void check_choice() {
  const auto is_chosen = [](const Problem& layer, im2win_dtype dtype, im2win_math math, bool nhwc) {
    Problem problem = layer;
    problem.dtype = dtype;
    problem.math = math;
    if (nhwc) set_channels_last(problem);
    return stem::is_faster(problem);
  };
  const Problem conv1 = make_problem(3, 227, 96, 11, 11, 4, 4);
  const Problem conv3 = make_problem(3, 227, 64, 7, 7, 2, 2);
  const Problem conv7 = make_problem(3, 224, 64, 3, 3, 1, 1);
  for (const bool nhwc : {false, true}) {
    expect(is_chosen(conv1, IM2WIN_FLOAT32, IM2WIN_MATH_FP32, nhwc), "conv1 in float32");
    expect(is_chosen(conv3, IM2WIN_FLOAT32, IM2WIN_MATH_FP32, nhwc), "conv3 in float32");
    expect(is_chosen(conv3, IM2WIN_FLOAT32, IM2WIN_MATH_TF32, nhwc), "conv3 in TF32");
    expect(is_chosen(conv3, IM2WIN_FLOAT16, IM2WIN_MATH_FP32, nhwc), "conv3 in float16");
    expect(is_chosen(conv7, IM2WIN_FLOAT32, IM2WIN_MATH_FP32, nhwc), "conv7 in float32");
    expect(is_chosen(conv7, IM2WIN_FLOAT32, IM2WIN_MATH_TF32, nhwc), "conv7 in TF32");
    expect(is_chosen(conv7, IM2WIN_FLOAT16, IM2WIN_MATH_FP32, nhwc), "conv7 in float16");
    const Problem patches = make_problem(3, 224, 96, 4, 4, 4, 4);
    expect(is_chosen(patches, IM2WIN_FLOAT16, IM2WIN_MATH_FP32, nhwc), "patches of 4 x 4");
    const Problem inception = make_problem(3, 299, 32, 3, 3, 2, 2);
    expect(is_chosen(inception, IM2WIN_FLOAT32, IM2WIN_MATH_FP32, nhwc), "149 columns, by twos");
    const Problem latent = make_problem(4, 66, 320, 3, 3, 1, 1);
    expect(is_chosen(latent, IM2WIN_FLOAT16, IM2WIN_MATH_FP32, nhwc), "64 columns of two images");
    Problem many = latent;
    many.n = 128;
    expect(is_chosen(many, IM2WIN_FLOAT16, IM2WIN_MATH_FP32, nhwc) == nhwc, "64 columns");
    expect(is_chosen(latent, IM2WIN_FLOAT32, IM2WIN_MATH_TF32, nhwc), "64 columns in TF32");
    const Problem grey = make_problem(1, 60, 32, 5, 5, 1, 1);
    expect(!is_chosen(grey, IM2WIN_FLOAT16, IM2WIN_MATH_FP32, nhwc), "a single channel");
    Problem small = make_problem(3, 32, 64, 3, 3, 1, 1);
    small.n = 128;
    expect(is_chosen(small, IM2WIN_FLOAT16, IM2WIN_MATH_FP32, nhwc), "rows of 30");
    // As runs of float32, which are of rows of pixels.
    expect(is_chosen(small, IM2WIN_FLOAT32, IM2WIN_MATH_TF32, nhwc) != nhwc, "30 columns in TF32");
    const Problem few = make_problem(3, 227, 8, 7, 7, 2, 2);
    expect(!is_chosen(few, IM2WIN_FLOAT16, IM2WIN_MATH_FP32, nhwc), "few filters");
    const Problem dense = make_problem(3, 299, 5, 3, 3, 1, 1);
    expect(is_chosen(dense, IM2WIN_FLOAT16, IM2WIN_MATH_FP32, nhwc) != nhwc, "few, dense windows");
  }
}

}  // namespace

int main() {
  check_all();
  check_columns();
  check_output_rows();
  check_filters();
  check_rows();
  check_pairs();
  check_computed();
  check_choice();
  check_blocks();
  expect(!check(make_problem(5, 61, 64, 16, 16, 16, 4), Operands::kHalf), "a band of many steps");
  expect(!check(make_problem(1, (1 << 20) - 1, 64, 1 << 19, 1 << 19, 1 << 18, 1), Operands::kHalf),
         "a filter of more taps than fit 32 bits");
  std::printf("%d wrong\n", failures);
  return failures == 0 ? 0 : 1;
}
