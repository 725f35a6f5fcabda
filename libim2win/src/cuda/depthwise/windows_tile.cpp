#include "cuda/depthwise/windows_tile.hpp"

#include <algorithm>
#include <initializer_list>
#include <numeric>
#include <utility>

#include "checked.hpp"
#include "cuda/depthwise/banks.hpp"
#include "cuda/depthwise/tile.hpp"
#include "cuda/words.hpp"

namespace im2win::cuda {
namespace {

using Tile = WindowsTile;

constexpr int64_t kMostOfImage = 1 << 30;  // elements, which 32-bit arithmetic takes

Comb comb(int64_t outputs, int64_t taps, int64_t stride, int64_t dilation) {
  // Steps that are not taken are as convenient ones.
  if (taps == 1) dilation = 1;
  if (outputs == 1) stride = dilation;
  const int64_t both = std::gcd(stride, dilation);
  return {stride, dilation, dilation / both, stride / both, stride / both * dilation};
}

/// Of a number of combs of outputs, each `of` it, that make even shares.
bool is_even_share(int64_t share, int64_t count) {
  return share == ceil_div(count, ceil_div(count, share));
}

bool is_pixel_major(const Problem& problem) {
  return problem.c > 1 && problem.input.is_nhwc() && problem.output.is_nhwc();
}

/// The most elements of a word that parts of `size` elements, and of `part`, are whole words of.
int word_elements(const Problem& problem, int64_t size, int64_t part) {
  return static_cast<int>(
      word_of({size, part}, kDepthwiseWordBytes / element_bytes(problem.dtype)));
}

/// Words are stored in shared memory by as many floats at a time, up to 16 bytes.
int words_pitch(const Problem& problem, const Tile& tile) {
  return is_pixel_major(problem) ? 1 : std::min(tile.word, 4);
}

/// Of `room` pitches from `least` on, in steps, the first with the least cost(pitch).
template <class Cost>
int best_pitch(int64_t least, int64_t step, int64_t room, Cost cost) {
  int64_t best = least;
  for (int64_t pitch = least + step; pitch < least + std::min(kBanks, room); pitch += step)
    if (cost(pitch) < cost(best)) best = pitch;
  return static_cast<int>(best);
}

/// A thread's place in its block, and its first output's in the tile.
struct ThreadPlace {
  int64_t channel, row, row_comb, column, column_comb;

  ThreadPlace(const Tile& tile, const Comb& down, const Comb& along, int64_t thread) {
    const int64_t strips = tile.column_combs * along.outputs, bands = tile.row_combs * down.outputs;
    const int64_t strip = thread % strips, band = thread / strips % bands;
    channel = thread / strips / bands;
    row_comb = band % down.outputs;
    row = band / down.outputs * tile.thread_rows;
    column_comb = strip % along.outputs;
    column = strip / along.outputs * Tile::kColumns;
  }
};

void count_shared_bytes(Tile& tile) {
  const int64_t floats =
      tile.channels * (tile.filter_pitch + int64_t{std::max(tile.plane_pitch, tile.output_pitch)});
  tile.shared_bytes = round_up(int64_t{sizeof(float)} * floats, kDepthwiseWordBytes);
}

/// Pitches such that lanes meet in few banks, those that compute, and those that stage pixels' words.
void choose_pitches(const Problem& problem, const Comb& down, const Comb& along, Tile& tile) {
  const int64_t words = is_pixel_major(problem) ? tile.channels / tile.word : 1;
  const auto staged = [&](int64_t pitch) {
    return accesses([&](int64_t lane) {
      return lane % words * tile.word * pitch + lane / words % std::max(tile.comb_inputs, 1);
    });
  };
  const auto read = [&](int64_t row_pitch, int64_t plane_pitch) {
    return accesses([&](int64_t lane) {
      const ThreadPlace at(tile, down, along, lane % tile.threads);
      const int64_t column = at.column_comb * along.stride;
      return at.channel * plane_pitch +
             (at.row_comb * down.stride + at.row * down.inputs) * row_pitch +
             column % along.inputs * tile.comb_pitch(along.inputs) + column / along.inputs +
             at.column;
    });
  };
  const auto put = [&](int64_t pitch) {
    return accesses([&](int64_t lane) {
      const ThreadPlace at(tile, down, along, lane % tile.threads);
      return at.channel * pitch + (at.row * down.outputs + at.row_comb) * tile.columns +
             at.column * along.outputs + at.column_comb;
    });
  };
  const auto room = [&](int64_t number) {
    return 1 + (Tile::kSharedBytes - tile.shared_bytes) / int64_t{sizeof(float)} / number;
  };
  const int64_t step = words_pitch(problem, tile);
  if (tile.row_combs > 1)
    tile.row_pitch = best_pitch(
        tile.row_pitch, step, std::min<int64_t>(room(tile.channels * tile.input_rows), 8),
        [&](int64_t pitch) { return read(pitch, pitch * tile.input_rows); });
  tile.plane_pitch = tile.row_pitch * tile.input_rows;
  count_shared_bytes(tile);
  if (tile.channels == 1) return;
  const int64_t most = room(tile.channels);
  tile.plane_pitch = best_pitch(tile.plane_pitch, step, most, [&](int64_t pitch) {
    return 4 * read(tile.row_pitch, pitch) + staged(pitch);
  });
  tile.output_pitch = best_pitch(tile.output_pitch, 1, most,
                                 [&](int64_t pitch) { return put(pitch) + staged(pitch); });
  count_shared_bytes(tile);
}

/// What follows from the fields that are chosen.
Tile complete(const Problem& problem, const Comb& down, const Comb& along, Tile tile) {
  const bool pixels = is_pixel_major(problem);
  tile.is_pixel_major = pixels;
  tile.filter_rows = static_cast<int>(problem.r);
  tile.row_passes = static_cast<int>(std::min(down.taps, problem.r));
  tile.row_taps = static_cast<int>(ceil_div(problem.r, down.taps));
  tile.combs = static_cast<int>(std::min(along.taps, problem.s));
  const int64_t passes = ceil_div(ceil_div(problem.s, along.taps), tile.pass_taps);
  tile.column_passes = static_cast<int>(tile.combs * passes);
  tile.rows = static_cast<int>(tile.row_combs * tile.thread_rows * down.outputs);
  tile.columns = static_cast<int>(tile.column_combs * Tile::kColumns * along.outputs);
  tile.input_rows =
      static_cast<int>(down.spread(tile.row_passes) +
                       (tile.row_combs * tile.thread_rows + tile.row_taps - 2) * down.inputs + 1);
  // A row of words starts up to a word before the first input.
  const int64_t row_size = along.inputs > 1 ? 1 : problem.w;
  tile.word = pixels ? word_elements(problem, problem.c, tile.channels)
                     : word_elements(problem, row_size, row_size);
  tile.output_word = pixels ? tile.word
                            : word_elements(problem, problem.q,
                                            tile.columns < problem.q ? tile.columns : problem.q);
  const int64_t beside = pixels ? 1 : tile.word;
  tile.comb_inputs =
      static_cast<int>(round_up(tile.column_combs * Tile::kColumns + passes * tile.pass_taps - 1 +
                                    along.spread(tile.combs) / along.inputs + beside - 1,
                                beside));
  tile.threads = static_cast<int>(tile.channels * tile.row_combs * down.outputs *
                                  tile.column_combs * along.outputs);
  // Filters of a warp's channels are in different banks.
  tile.filter_pitch = 4 * (tile.column_passes * tile.row_passes * tile.row_taps *
                               (windows_taps_pitch(tile.pass_taps) / 4) |
                           1);
  tile.row_pitch = static_cast<int>(along.inputs * tile.comb_pitch(along.inputs));
  tile.plane_pitch = tile.row_pitch * tile.input_rows;
  tile.output_pitch = tile.rows * tile.columns;
  count_shared_bytes(tile);
  return tile;
}

/// Rows by lanes: as few turns as possible of a block's threads, and lanes that are neighbours.
int choose_team_lanes(const Problem& problem, const Comb& along, const Tile& tile) {
  const bool pixels = is_pixel_major(problem);
  const int64_t row_inputs = tile.comb_inputs * along.inputs;
  const int64_t words = pixels ? row_inputs * tile.channels / tile.word : row_inputs / tile.word;
  const int64_t rows = int64_t{tile.input_rows} * (pixels ? 1 : tile.channels);
  int best = tile.block_threads();
  const auto turns = [&](int lanes) {
    return ceil_div(words, lanes) * ceil_div(rows, tile.block_threads() / lanes);
  };
  for (int lanes = best; lanes >= 16; --lanes)
    if (turns(lanes) < turns(best)) best = lanes;
  return best;
}

}  // namespace

Problem with_images_as_rows(Problem problem) {
  const bool is_line = problem.h == 1 && problem.r == 1 && problem.p == 1 &&
                       problem.padding_top == 0 && problem.padding_bottom == 0;
  if (problem.n <= 1 || !is_line || is_pixel_major(problem) ||
      exceeds(kMostOfImage, {problem.n, problem.c, problem.padded_w()}) ||
      exceeds(kMostOfImage, {problem.n, problem.c, problem.q}))
    return problem;
  for (Tensor* tensor : {&problem.input, &problem.output, &problem.residual}) {
    std::swap(tensor->size[0], tensor->size[2]);
    tensor->stride[2] = tensor->stride[0];
  }
  problem.h = problem.p = problem.n;
  problem.n = problem.stride_h = 1;
  return problem;
}

Comb Comb::vertical(const Problem& problem) {
  return comb(problem.p, problem.r, problem.stride_h, problem.dilation_h);
}
Comb Comb::horizontal(const Problem& problem) {
  return comb(problem.q, problem.s, problem.stride_w, problem.dilation_w);
}

/// Of all blocks in turns of those that run at a time, of few a multiprocessor's share. Such a turn takes what a block
/// waits for memory and its own instructions, or what all issue or move. What these take was fitted to an H200's times,
/// of 1 to 128 images.
double windows_cost(const Problem& problem, const Tile& tile, int64_t multiprocessors) {
  constexpr double kLatency = 8000, kStart = 200, kSchedulers = 4, kCycleBytes = 24;
  constexpr int64_t kSharedBytes = 227 << 10;  // an H200's
  const bool pixels = is_pixel_major(problem);
  const int64_t taps = int64_t{tile.row_passes} * tile.row_taps;  // about
  const int64_t reads = taps + tile.row_passes * (tile.thread_rows - 1);
  const double work = double(tile.column_passes) *
                      double(reads * (Tile::kColumns + tile.pass_taps + 8) +
                             taps * tile.thread_rows * (Tile::kColumns * tile.pass_taps + 6));
  const double elements = double(tile.channels) * (tile.plane_pitch + tile.output_pitch);
  const double staging = (6.0 + 16.0 / tile.word) * elements / tile.block_threads();
  const double filters =
      15.0 * double(tile.channels * problem.r * problem.s) / tile.block_threads();
  const double instructions = work + staging + filters + 300;
  // A part of a sector of memory costs as much as all of it.
  const int64_t bytes = tile.channels * element_bytes(problem.dtype);
  const double sectors =
      pixels && tile.channels < problem.c ? double(round_up(bytes, 32)) : double(bytes);
  const double moved = elements * sectors / tile.channels;
  const int64_t blocks = problem.n * ceil_div(problem.c, tile.channels) *
                         ceil_div(problem.p, tile.rows) * ceil_div(problem.q, tile.columns);
  const int64_t at_once =
      std::min<int64_t>({32, Tile::kBlocks * Tile::kMaxThreads / tile.block_threads(),
                         kSharedBytes / (tile.shared_bytes + (1 << 10)),
                         std::max<int64_t>(1, ceil_div(blocks, multiprocessors))});
  const double alone = kLatency + 3.5 * instructions;
  const double issued =
      double(at_once * tile.block_threads() / kLanes) * instructions / kSchedulers;
  const double turn =
      std::max({alone, issued + alone / double(at_once), double(at_once) * moved / kCycleBytes});
  const double each = double(blocks) / double(multiprocessors);  // multiprocessor's blocks
  const double turns = each > double(at_once) ? each / double(at_once) + 1 : 1;
  return turns * turn + kStart * each;
}

std::optional<WindowsTile> choose_windows_tile(const Problem& problem, int64_t multiprocessors) {
  constexpr int64_t kMostTaps = 1 << 12;  // more do not fit
  if (!has_narrow_steps(problem) || exceeds(kMostTaps, {problem.r, problem.s})) return std::nullopt;
  const Comb down = Comb::vertical(problem), along = Comb::horizontal(problem);
  const int64_t rows = ceil_div(problem.p, down.outputs);
  const int64_t all_columns = ceil_div(problem.q, Tile::kColumns * along.outputs);
  const int64_t combs = Tile::kMaxThreads / (down.outputs * along.outputs);
  const auto is_share = [&](int64_t channels, bool is_whole) {
    if (is_pixel_major(problem)) return channels < 4 || channels % 4 == 0 || channels == problem.c;
    return is_whole || channels == 1;
  };
  std::optional<Tile> best;
  double best_cost = 0;
  const auto consider = [&](Tile tile) {
    tile = complete(problem, down, along, tile);
    if (tile.threads > Tile::kMaxThreads || tile.shared_bytes > Tile::kSharedBytes) return;
    const double its_cost = windows_cost(problem, tile, multiprocessors);
    if (best && its_cost >= best_cost) return;
    best = tile;
    best_cost = its_cost;
  };
  const auto consider_shares = [&](Tile tile) {
    const int64_t all_rows = ceil_div(rows, tile.thread_rows);
    for (int64_t across = 1; across <= std::min(all_columns, combs); ++across) {
      if (!is_even_share(across, all_columns)) continue;
      tile.column_combs = static_cast<int>(across);
      for (int64_t bands = 1; bands <= std::min(all_rows, combs / across); ++bands) {
        if (!is_even_share(bands, all_rows)) continue;
        tile.row_combs = static_cast<int>(bands);
        const bool is_whole = across == all_columns && bands == all_rows;
        const int64_t most = std::min(problem.c, combs / (across * bands));
        for (tile.channels = 1; tile.channels <= most; ++tile.channels)
          if (is_share(tile.channels, is_whole)) consider(tile);
      }
    }
  };
  Tile tile{};
  for (tile.thread_rows = 1; tile.thread_rows <= Tile::kRows; ++tile.thread_rows)
    if (is_even_share(tile.thread_rows, rows))
      for (const int pass_taps : {2, 3, 4, 5, 7}) {
        tile.pass_taps = pass_taps;
        consider_shares(tile);
      }
  if (!best) return std::nullopt;
  choose_pitches(problem, down, along, *best);
  best->team_lanes = choose_team_lanes(problem, along, *best);
  return best;
}

}  // namespace im2win::cuda
