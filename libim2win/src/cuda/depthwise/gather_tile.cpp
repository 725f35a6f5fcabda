#include "cuda/depthwise/gather_tile.hpp"

#include <algorithm>
#include <cstdlib>

#include "checked.hpp"
#include "cuda/depthwise/tile.hpp"

namespace im2win::cuda {
namespace {

using Tile = GatherTile;

constexpr int64_t kLineBytes = 128;  // of memory, for the lanes of a pixel
constexpr int64_t kMostWeights = 4096;
constexpr int kTapRoom = 4;  // weights between those of two taps

bool has_pixels_for_neighbours(const Problem& problem) {
  const int64_t(&stride)[4] = problem.output.stride;
  const int64_t pixel = problem.q > 1   ? stride[3]
                        : problem.p > 1 ? stride[2]
                        : problem.n > 1 ? stride[0]
                                        : 1;
  return problem.k == 1 || std::abs(pixel) <= std::abs(stride[1]);
}

/// Whether 32 bits hold the distance of two rows, or columns, that are so far apart, twice.
bool is_near(int64_t steps, int64_t size, int64_t stride) {
  constexpr int64_t kMost = INT32_MAX / 4;
  return steps <= kMost && (size == 1 || stride == 0 || !exceeds(kMost, {steps, std::abs(stride)}));
}

bool is_narrow(const Problem& problem) {
  const Tensor &input = problem.input, &output = problem.output;
  const int64_t padded_h = problem.padding_top + problem.h + problem.padding_bottom;
  return problem.output_pixels() < INT32_MAX && is_near(padded_h, problem.h, input.stride[2]) &&
         is_near(problem.padded_w(), problem.w, input.stride[3]) &&
         is_near(problem.p, problem.p, output.stride[2]) &&
         is_near(problem.q, problem.q, output.stride[3]);
}

/// Whether channels lie in words of so many elements, wherever pixels are.
bool has_words(const Tensor& tensor, int64_t elements) {
  bool are_words = tensor.stride[1] == 1 && tensor.size[1] % elements == 0;
  for (const int axis : {0, 2, 3})
    are_words = are_words && (tensor.size[axis] == 1 || tensor.stride[axis] % elements == 0);
  return are_words;
}

/// Words of 16 bytes or four elements, else single ones.
int word_elements(const Problem& problem) {
  for (const int64_t word : {kDepthwiseWordBytes / element_bytes(problem.dtype), int64_t{4}})
    if (has_words(problem.input, word) && has_words(problem.output, word))
      return static_cast<int>(word);
  return 1;
}

void share_threads(const Problem& problem, Tile& tile) {
  const int64_t words = problem.k / tile.word;
  if (tile.is_channel_major) {
    const int64_t pixels = ceil_div(problem.output_pixels(), gather_pixels(tile.word));
    tile.pixels = static_cast<int>(std::clamp<int64_t>(pixels, 1, Tile::kThreads));
    tile.lanes = static_cast<int>(std::min<int64_t>(Tile::kThreads / tile.pixels, words));
  } else {
    const int64_t line = kLineBytes / (tile.word * element_bytes(problem.dtype));
    tile.lanes = even_share(words, std::min<int64_t>(line, 32));
    tile.pixels = Tile::kThreads / tile.lanes;
  }
}

}  // namespace

GatherTile choose_gather_tile(const Problem& problem, bool are_words) {
  Tile tile{};
  tile.is_channel_major = has_pixels_for_neighbours(problem);
  tile.is_narrow = is_narrow(problem);
  const bool may_have_words = are_words && problem.dtype != IM2WIN_FLOAT64 &&
                              !tile.is_channel_major && tile.is_narrow &&
                              problem.k_per_group() == 1;
  tile.word = may_have_words ? word_elements(problem) : 1;
  share_threads(problem, tile);
  const int64_t taps = kMostWeights / (tile.channels() + kTapRoom);
  tile.columns = static_cast<int>(std::min(problem.s, taps));
  tile.rows = static_cast<int>(std::min(problem.r, taps / tile.columns));
  // Words stay aligned, and lanes that bring neighbouring taps, or read neighbouring channels, meet in few banks.
  tile.channel_pitch = tile.is_channel_major ? tile.taps() | 1 : 1;
  tile.tap_pitch = tile.is_channel_major ? 1 : tile.channels() + kTapRoom;
  return tile;
}

/// Of all blocks in turns of those that run at a time. What a thread's word of a pixel takes was fitted to an H200's
/// times.
double gather_cost(const Problem& problem, const GatherTile& tile, int64_t multiprocessors) {
  const bool is_one = tile.word == 1, is_four = tile.word == 4;
  const double pixel = is_one ? 1.2 : is_four ? 2.3 : 2.6;
  const double tap = is_one ? 0.085 : is_four ? 0.17 : 0.29;
  const double block = GatherTile::kThreads * gather_pixels(tile.word) *
                       (pixel + tap * double(problem.r) * double(problem.s));
  const int64_t blocks =
      ceil_div(problem.k, tile.channels()) * ceil_div(problem.output_pixels(), tile.span());
  return double(ceil_div(blocks, multiprocessors * GatherTile::kBlocks) * GatherTile::kBlocks) *
         block;
}

}  // namespace im2win::cuda
