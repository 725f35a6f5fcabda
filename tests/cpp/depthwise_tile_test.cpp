// The choice of tiles for depthwise convolutions: prints it for layers of common networks, checks
// what must hold.

#include <algorithm>
#include <cstdio>
#include <initializer_list>
#include <optional>
#include <vector>

#include "cuda/depthwise/tile.hpp"
#include "expect.hpp"

namespace {

using namespace im2win;
using namespace im2win::cuda;

/// Square sizes, batch 128, all tensors dense.
Problem layer(im2win_dtype dtype, int64_t channels, int64_t size, int64_t kernel, int64_t stride,
              int64_t padding) {
  Problem problem{};
  problem.dtype = dtype;
  problem.n = 128;
  problem.c = problem.k = problem.groups = channels;
  problem.h = problem.w = size;
  problem.r = problem.s = kernel;
  problem.stride_h = problem.stride_w = stride;
  problem.padding_top = problem.padding_bottom = padding;
  problem.padding_left = problem.padding_right = padding;
  problem.dilation_h = problem.dilation_w = 1;
  problem.p = problem.q = (size + 2 * padding - kernel) / stride + 1;
  return problem;
}

constexpr int64_t kMultiprocessors = 132, kResident = 2112;  // and warps, of an H200

void check_slices(const Problem& problem, const std::optional<SlicesTile>& tile) {
  expect(tile.has_value(), "a small window of dense channels has a tile");
  if (!tile) return;
  std::printf(
      "  NHWC: %d shares of strips of %d, %d images, %d bands of %d rows, %d turns: %lld warps\n",
      tile->shares, tile->columns, tile->images, tile->bands, tile->band_rows, tile->turns,
      static_cast<long long>(tile->warps(problem.n)));
  expect(tile->strips * tile->columns >= problem.q, "strips cover a row");
  expect((tile->strips - 1) * tile->columns < problem.q, "no strip is empty");
  const int units = tile->slice_bytes == kSliceBytes ? 32 : 2;  // of a warp
  expect(units * tile->shares >= tile->images * tile->strips * tile->slices,
         "shares cover the images");
  expect(problem.n % tile->images == 0, "turns take as many images");
  expect(tile->bands >= 1 && tile->turns >= 1, "a warp has something to do");
  expect(int64_t{tile->bands} * tile->band_rows >= problem.p, "bands cover an image");
  expect((tile->bands - 1) * int64_t{tile->band_rows} < problem.p, "no band is empty");
}

void check_mma_slices(const Problem& problem) {
  const auto tile = choose_mma_slices_tile(problem, kResident);
  check_slices(problem, tile);
  if (!tile) return;
  expect(tile->columns <= kMmaStripColumns, "a strip is no wider than a product takes");
  expect(tile->shares % tile->slices == 0, "units of a share are of one slice");
}

void check_planes(const Problem& problem) {
  const auto tile = choose_planes_tile(problem, kMultiprocessors);
  expect(tile.has_value(), "a small window of dense planes has a tile");
  if (!tile) return;
  std::printf("  NCHW: %d planes, %d strips, %d bands of %d rows, %lld bytes\n", tile->planes,
              tile->strips, tile->bands, tile->thread_rows,
              static_cast<long long>(tile->shared_bytes));
  expect(tile->shared_bytes <= kDepthwiseSharedBytes, "a tile fits shared memory");
  expect(tile->threads() <= kPlanesMaxThreads, "a block has few threads");
  expect(tile->strips * kStripSize >= problem.q, "strips cover a row");
  expect(tile->planes == 1 || tile->rows() >= problem.p, "several planes are whole");
}

/// Whether the strips of several images are one after the other modulo all banks, 8 words, and leave
/// room for an image.
bool are_images_spread(const Problem& problem, const MmaPlanesTile& tile) {
  const int64_t outputs = tile.channels * std::min<int64_t>(problem.p, tile.rows()) * problem.q;
  if (tile.image_words < tile.channels * tile.input_rows * tile.row_words ||
      tile.output_bytes < 2 * (outputs + 7))
    return false;
  return tile.images == 1 || ((tile.image_words - tile.strips) % 8 == 0 &&
                              (tile.output_bytes - 16 * tile.strips) % 128 == 0);
}

/// Every output's window lies in the words of its strip.
bool are_windows_covered(const Problem& problem, const MmaPlanesTile& tile) {
  for (int strip = 0; strip < tile.strips; ++strip) {
    const int64_t first = 8 * (strip + tile.first_word);
    const int64_t end = first + 8 * MmaPlanesTile::kWords;
    const int64_t column = MmaPlanesTile::kColumns * strip + tile.first_column;
    for (int64_t q = std::max<int64_t>(0, column); q < std::min(problem.q, column + 8); ++q) {
      for (int64_t s = 0; s < problem.s; ++s) {
        const int64_t x = q - problem.padding_left + s;
        if (x >= 0 && x < problem.w && (x < first || x >= end)) return false;
      }
    }
  }
  return true;
}

void check_mma_planes(const Problem& problem) {
  const auto tile = choose_mma_planes_tile(problem);
  expect(tile.has_value(), "a small window of dense planes has a tile");
  if (!tile) return;
  std::printf("  NCHW: %d images, %d channels, %d strips, %d bands of %d rows, %lld bytes\n",
              tile->images, tile->channels, tile->strips, tile->bands, tile->strip_rows,
              static_cast<long long>(tile->shared_bytes));
  expect(tile->shared_bytes <= kDepthwiseSharedBytes, "a tile fits shared memory");
  expect(tile->warps() >= 1 && tile->warps() <= MmaPlanesTile::kMaxWarps, "a block has few warps");
  expect(tile->strip_rows <= MmaPlanesTile::kRows, "a strip is no higher than a warp takes");
  expect(tile->first_column <= 0 && tile->first_column % 2 == 0, "outputs are stored in pairs");
  expect(tile->first_column + tile->strips * MmaPlanesTile::kColumns >= problem.q,
         "strips cover a row");
  expect(are_images_spread(problem, *tile), "strips of several images are in different banks");
  expect(are_windows_covered(problem, *tile), "windows lie within their words");
}

void check_plane_matrix(const Problem& problem) {
  const auto tile = choose_plane_matrix_tile(problem);
  const int64_t inputs = problem.h * problem.w, outputs = problem.p * problem.q;
  const auto whole_pairs = [](int64_t elements) { return elements + elements % 2; };
  expect(tile.has_value() == (std::max(whole_pairs(inputs), whole_pairs(outputs)) <= 64),
         "planes of up to 64 elements have a tile");
  if (!tile) return;
  std::printf("  NCHW: a table of %d x %d, %d and %d words an image, %lld bytes\n",
              tile->table_rows, tile->table_columns, tile->input_words, tile->output_words,
              static_cast<long long>(tile->shared_bytes));
  expect(tile->shared_bytes <= kDepthwiseSharedBytes, "a tile fits shared memory");
  expect(tile->input_words % 2 == 1 && tile->output_words % 2 == 1,
         "eight images are in different banks");
  const int64_t last = (PlaneMatrixTile::kChannels - 1) * inputs;
  expect(8 * int64_t{tile->input_words} >= last + PlaneMatrixTile::kElements,
         "what is read of an image's last plane is its own");
  expect(8 * int64_t{tile->parts} >= whole_pairs(outputs), "parts cover a plane");
}

void check_image_rows(const Problem& problem) {
  using Tile = ImageRowsTile;
  const auto tile = choose_image_rows_tile(problem);
  const bool is_strided = problem.stride_w == 2;
  if (problem.w % 2 != 0 || problem.q % 2 != 0 || (!is_strided && problem.w > 16))
    expect(!tile, "rows that are no pairs, or wide ones without a stride, have no tile");
  if (!tile) return;
  std::printf("  NCHW: %d channels, %d pairs of parts, %d bands of %d rows, %lld bytes\n",
              tile->channels, tile->pairs, tile->bands, tile->band_rows,
              static_cast<long long>(tile->shared_bytes));
  const int64_t rows = std::min<int64_t>(tile->rows(), problem.p);
  expect(tile->shared_bytes <= Tile::kSharedBytes, "a tile fits shared memory");
  expect(tile->warps() >= 1 && tile->warps() <= Tile::kMaxWarps, "a block has few warps");
  expect(problem.c % tile->channels == 0, "all tiles have as many channels");
  expect(tile->channels == 1 || tile->rows() >= problem.p, "several planes are whole");
  expect(2 * Tile::kColumns * tile->pairs >= problem.q, "parts cover a row");
  expect(tile->channels * rows * problem.q % 8 == 0, "what a block stores is words");
  expect(tile->input_words % 2 == 1 && tile->output_words % 2 == 1,
         "eight images are in different banks");
  const int64_t below =
      tile->rows() >= problem.p ? problem.h : (rows - 1) * problem.stride_h + problem.r;
  expect(
      8 * int64_t{tile->input_words} >= tile->channels * std::min(problem.h, below) * problem.w + 7,
      "an image's rows fit, wherever in a word they begin");
  expect(8 * int64_t{tile->output_words} >= tile->channels * rows * problem.q,
         "an image's outputs fit");
}

void check(im2win_dtype dtype, int64_t channels, int64_t size, int64_t kernel, int64_t stride,
           int64_t padding) {
  const Problem problem = layer(dtype, channels, size, kernel, stride, padding);
  const bool is_float = dtype == IM2WIN_FLOAT32;
  std::printf("%s %lld x %lld, kernel %lld, stride %lld, padding %lld\n",
              is_float ? "float" : "half", static_cast<long long>(channels),
              static_cast<long long>(size), static_cast<long long>(kernel),
              static_cast<long long>(stride), static_cast<long long>(padding));
  expect(has_depthwise_window(problem), "small square windows have kernels");
  check_slices(problem, choose_slices_tile(problem, kResident));
  check_planes(problem);
  if (!is_float) check_mma_slices(problem);
  if (!is_float) check_plane_matrix(problem);
  if (!is_float) check_image_rows(problem);
  if (!is_for_tensor_cores(problem)) return;
  check_mma_planes(problem);
}

/// 7x7, without a stride.
void check_sevens(int64_t size, int64_t padding) {
  check_slices(layer(IM2WIN_FLOAT32, 96, size, 7, 1, padding),
               choose_slices_tile(layer(IM2WIN_FLOAT32, 96, size, 7, 1, padding), kResident));
  const Problem problem = layer(IM2WIN_FLOAT16, 96, size, 7, 1, padding);
  check_mma_slices(problem);
  if (is_for_tensor_cores(problem)) check_mma_planes(problem);
}

/// Whether shares, of `share` outputs a dilation apart, cover `outputs` without meeting, none empty.
bool are_shared(int64_t outputs, int shares, int share, int64_t dilation) {
  std::vector<int> times(static_cast<size_t>(outputs));
  for (int64_t i = 0; i < shares; ++i) {
    const int64_t first = i / dilation * share * dilation + i % dilation;
    if (first >= outputs) return false;
    for (int64_t at = first; at < std::min(outputs, first + share * dilation); at += dilation)
      ++times[static_cast<size_t>(at)];
  }
  return std::all_of(times.begin(), times.end(), [](int each) { return each == 1; });
}

void check_combs(im2win_dtype dtype, int64_t size, int64_t dilation) {
  Problem problem = layer(dtype, 44, size, 5, 1, 2 * dilation);
  problem.dilation_h = problem.dilation_w = dilation;
  problem.p = problem.q = size;
  expect(has_slices_window(problem), "dilated windows without a stride have slices");
  for (const auto& choose : {choose_slices_tile, choose_mma_slices_tile}) {
    const auto tile = choose(problem, kResident);
    expect(tile.has_value(), "so they have tiles");
    if (!tile) continue;
    expect(are_shared(size, tile->strips, tile->columns, dilation), "strips share out the columns");
    expect(are_shared(size, tile->bands, tile->band_rows, dilation), "bands share out the rows");
  }
  problem.stride_h = problem.stride_w = 2;
  expect(has_slices_window(problem) == (dilation == 1), "dilated ones with a stride have none");
}

/// A few images are shared out among the multiprocessors, of many a thread has all rows that it can have.
void check_few_planes(int64_t channels, int64_t size, int64_t kernel, int64_t stride) {
  Problem problem = layer(IM2WIN_FLOAT32, channels, size, kernel, stride, kernel / 2);
  expect(choose_planes_tile(problem, kMultiprocessors)->thread_rows > 1, "threads have much to do");
  problem.n = 1;
  const auto tile = choose_planes_tile(problem, kMultiprocessors);
  expect(tile->thread_rows == 1, "or little");
  expect((problem.c / tile->planes) * ceil_div(problem.p, tile->rows()) >= kMultiprocessors,
         "no multiprocessor is idle");
}

/// Of 16 bits.
int slices_of(int64_t channels) {
  return choose_slices_tile(layer(IM2WIN_FLOAT16, channels, 14, 3, 1, 1), kResident)->slices;
}

void check_turns() {
  for (const auto choose : {choose_turns, choose_plane_matrix_turns}) {
    expect(choose(1000, 1, 100) == 1, "one image is one turn");
    expect(choose(10, 4, 1000) == 1, "a small problem spreads over the device");
    expect(choose(100, 100, 1000) == 10, "blocks of a large one are all resident");
  }
  expect(choose_plane_matrix_turns(144, 8, 264) == 6,
         "or short ones are beside and after long ones");
}

}  // namespace

int main() {
  check_turns();
  for (const im2win_dtype dtype : {IM2WIN_FLOAT32, IM2WIN_FLOAT16})
    for (const int size : {7, 9, 14, 28, 56, 112, 250})
      for (const int kernel : {3, 5})
        for (const int stride : {1, 2})
          for (const int padding : {0, kernel / 2, 4})
            check(dtype, 96, size, kernel, stride, padding);
  for (const int size : {7, 9, 14, 28, 56, 112, 250})
    for (const int padding : {0, 3, 4}) check_sevens(size, padding);
  for (const im2win_dtype dtype : {IM2WIN_FLOAT32, IM2WIN_FLOAT16})
    for (const int size : {7, 33, 65, 129})
      for (const int dilation : {1, 2, 3, 12, 50, 200}) check_combs(dtype, size, dilation);
  expect(!choose_slices_tile(layer(IM2WIN_FLOAT16, 9, 14, 3, 1, 1), kResident),
         "channels that are no whole words have no tile");
  expect(slices_of(10) == 5 && slices_of(44) == 22 && slices_of(16) == 8,
         "strips of short words, or of few, are one after the other");
  expect(slices_of(24) == 16 && slices_of(72) == 48, "others begin at every 16th lane");
  check_few_planes(672, 14, 5, 2);
  check_few_planes(240, 28, 3, 2);
  check_few_planes(512, 14, 3, 1);
  Problem odd = layer(IM2WIN_FLOAT16, 96, 7, 5, 1, 2);
  expect(choose_mma_slices_tile(odd, kResident)->images == 2, "images may be in pairs");
  odd.n = 3;
  expect(choose_mma_slices_tile(odd, kResident)->images == 1, "an odd one may not");
  expect(!is_for_tensor_cores(layer(IM2WIN_FLOAT32, 96, 14, 3, 1, 1)), "float has no tensor cores");
  expect(!is_for_tensor_cores(layer(IM2WIN_FLOAT16, 96, 28, 3, 2, 1)),
         "strided strips have none either");
  expect(is_for_tensor_cores(layer(IM2WIN_FLOAT16, 96, 28, 3, 1, 1)), "rows of 8 bytes have them");
  expect(!is_for_tensor_cores(layer(IM2WIN_FLOAT16, 96, 7, 5, 1, 2)), "rows of 2 bytes have none");
  expect(choose_image_rows_tile(layer(IM2WIN_FLOAT16, 96, 112, 3, 2, 1))->channels == 1,
         "of large planes a tile is some rows");
  expect(choose_image_rows_tile(layer(IM2WIN_FLOAT16, 96, 14, 3, 1, 1))->channels == 4,
         "of small ones several");
  Problem few = layer(IM2WIN_FLOAT16, 96, 28, 3, 2, 1);
  few.n = 20;
  expect(!choose_image_rows_tile(few), "half of a matrix's rows must not be in vain");
  Problem uneven = layer(IM2WIN_FLOAT16, 96, 14, 5, 1, 2);
  uneven.q = 13;
  expect(!is_for_tensor_cores(uneven), "odd rows of outputs, which are not pairs, have none");
  expect(!choose_planes_tile(layer(IM2WIN_FLOAT32, 1, 1 << 14, 5, 1, 2), kMultiprocessors),
         "rows that do not fit shared memory have no tile");
  std::printf("%d failures\n", failures);
  return failures != 0;
}
