#include "cuda/depthwise/tile.hpp"

#include <algorithm>
#include <array>
#include <numeric>

#include "checked.hpp"
#include "cuda/depthwise/banks.hpp"

namespace im2win::cuda {
namespace {

/// Sizes that 32-bit arithmetic within an image takes, whatever the tile.
bool is_narrow(const Problem& problem) {
  constexpr int64_t kMaxElements = 1 << 30;
  const auto fits = [&](int64_t c, int64_t h, int64_t w) {
    return h < kMaxElements && w < kMaxElements && h * w < kMaxElements &&
           c < kMaxElements / std::max<int64_t>(h * w, 1);
  };
  return fits(problem.c, problem.h, problem.w) && fits(problem.c, problem.p, problem.q) &&
         fits(problem.n, problem.c, problem.p) &&
         std::max({problem.padding_top, problem.padding_bottom, problem.padding_left,
                   problem.padding_right}) < 5;
}

/// Such sizes with any padding, and bytes of rows that are a dilation apart.
bool is_narrow_padded(const Problem& problem) {
  constexpr int64_t kMost = (1 << 29) - 1;
  return has_images_of(problem, kMost) && !exceeds(kMost, {problem.c, problem.r, problem.s}) &&
         problem.n <= kMost;
}

/// Heights of strips to choose from: the largest even shares.
std::array<int, 4> strip_rows_of(const Problem& problem, int most) {
  std::array<int, 4> rows{};
  const int64_t fewest = ceil_div(problem.p, most);
  for (size_t i = 0; i < rows.size(); ++i)
    rows[i] = static_cast<int>(ceil_div(problem.p, fewest + static_cast<int64_t>(i)));
  return rows;
}

int below(int outputs, int64_t stride, int64_t taps) {
  return static_cast<int>((outputs - 1) * stride + taps);
}

/// In rows of the input below a strip, times 2 `resident`: those of all warps, with what it takes
/// each to start, shared among the resident ones; and half of a warp's own, in which the device
/// empties. So warps are short, and at any time work on neighbouring images.
int64_t slices_cost(const Problem& problem, const SlicesTile& tile, int64_t resident) {
  const int64_t start = problem.r * problem.s / 6;
  const int64_t rows =
      tile.turns * std::min<int64_t>(ceil_div(problem.h, problem.dilation_h),
                                     below(tile.band_rows, problem.stride_h, problem.r));
  return 2 * tile.warps(problem.n) * (rows + start) + resident * rows;
}

/// Shares of outputs that are a dilation apart, `share` of them at most. They are numbered by the first
/// output.
int comb_shares(int64_t outputs, int64_t share, int64_t dilation) {
  const int64_t before = (ceil_div(outputs, share * dilation) - 1) * dilation;
  return static_cast<int>(before + std::min(dilation, outputs - before * share));
}

SlicesTile with_slices(const Problem& problem, int slice_bytes, int columns) {
  SlicesTile tile{};
  tile.slice_bytes = slice_bytes;
  tile.columns = columns;
  tile.images = 1;
  tile.slices = static_cast<int>(ceil_div(problem.c * element_bytes(problem.dtype), slice_bytes));
  tile.strips = comb_shares(problem.q, columns, problem.dilation_w);
  return tile;
}

/// Whether sizes are narrow and channels whole words.
bool are_for_slices(const Problem& problem) {
  return is_narrow_padded(problem) &&
         problem.c * element_bytes(problem.dtype) % slices_word_bytes(problem) == 0;
}

/// The tile with the cheapest bands and turns.
std::optional<SlicesTile> choose_bands(const Problem& problem, SlicesTile tile, int64_t resident) {
  constexpr int kMost = 64;
  constexpr int64_t kMaxWarps = 1 << 30;
  const int64_t rows = ceil_div(problem.p, problem.dilation_h);
  std::optional<SlicesTile> best;
  for (int bands = 1; bands <= std::min<int64_t>(kMost, rows); ++bands) {
    tile.band_rows = static_cast<int>(ceil_div(rows, bands));
    tile.bands = comb_shares(problem.p, tile.band_rows, problem.dilation_h);
    for (tile.turns = 1; tile.turns <= std::min<int64_t>(kMost, ceil_div(problem.n, tile.images));
         ++tile.turns) {
      if (!best || slices_cost(problem, tile, resident) < slices_cost(problem, *best, resident))
        best = tile;
    }
  }
  if (best && best->warps(problem.n) > kMaxWarps) return std::nullopt;
  return best;
}

/// Elements of the input of a plane, or of its rows below the tile.
int64_t plane_inputs(const Problem& problem, const PlanesTile& tile) {
  const int64_t rows = below(tile.rows(), problem.stride_h, problem.r);
  return problem.w * (tile.rows() >= problem.p ? problem.h : std::min(problem.h, rows));
}

/// Filters, input and output may start anywhere within a word. The output takes the input's place.
PlanesTile with_bytes(const Problem& problem, PlanesTile tile) {
  const int64_t output_rows = std::min<int64_t>(problem.p, tile.rows());
  const auto bytes = [&](int64_t elements) {
    const int64_t size = tile.planes * elements * element_bytes(problem.dtype);
    return round_up(size + kDepthwiseWordBytes, kDepthwiseWordBytes);
  };
  tile.filter_bytes = static_cast<int>(bytes(problem.r * problem.s));
  tile.shared_bytes =
      tile.filter_bytes + bytes(std::max(plane_inputs(problem, tile), output_rows * problem.q));
  return tile;
}

/// How many times a warp's lanes take to read an input each, the first of their strips'.
int64_t planes_accesses(const Problem& problem, const PlanesTile& tile) {
  const int64_t plane = plane_inputs(problem, tile);
  return accesses([&](int64_t lane) {
    const int64_t thread = lane % tile.threads();
    const int64_t strip = thread % tile.strips, place = thread / tile.strips;
    const int64_t row = place % tile.bands * tile.thread_rows, column = strip * kStripSize;
    const int64_t element =
        place / tile.bands * plane + row * problem.stride_h * problem.w + column * problem.stride_w;
    return element * element_bytes(problem.dtype) / int64_t{sizeof(float)};
  });
}

/// Products of a strip: its code is that of kStripSize rows of outputs, and ends after the rows of the input
/// below `thread_rows`.
int64_t strip_products(const Problem& problem, int64_t input_rows) {
  int64_t rows = 0;
  for (int64_t p = 0; p < kStripSize; ++p)
    rows += std::clamp<int64_t>(input_rows - p * problem.stride_h, 0, problem.r);
  return rows * problem.s * kStripSize;
}

/// In cycles of a multiprocessor, about: of all blocks in turns of those that run at a time, as windows_cost().
/// What an instruction and a word take was fitted to an H200's times, of 1 to 128 images.
double planes_cost(const Problem& problem, const PlanesTile& tile, int64_t multiprocessors) {
  constexpr double kLatency = 2600, kStart = 25, kSchedulers = 4, kCycleBytes = 20;
  constexpr int64_t kWarps = 16, kSharedBytes = 227 << 10;  // of an H200's multiprocessor
  const int64_t warps = ceil_div(tile.threads(), kLanes);
  const int64_t input_rows = below(tile.thread_rows, problem.stride_h, problem.r);
  const int64_t reads = input_rows * below(kStripSize, problem.stride_w, problem.s);
  const double words =
      double(tile.shared_bytes) / double(kDepthwiseWordBytes) / double(kLanes * warps);
  const double instructions = 3.0 * double(reads) + double(strip_products(problem, input_rows)) +
                              4.0 * kStripSize * tile.thread_rows + 30 * words + 150;
  const double waits = 2 * double((planes_accesses(problem, tile) - 1) * reads);
  const int64_t blocks =
      problem.n * ceil_div(problem.c, tile.planes) * ceil_div(problem.p, tile.rows());
  const int64_t room = std::min(kWarps / warps, kSharedBytes / (tile.shared_bytes + (1 << 10)));
  const int64_t at_once = std::clamp<int64_t>(ceil_div(blocks, multiprocessors), 1, room);
  const double alone = kLatency + 2 * instructions;
  const double issued = double(at_once * warps) * (instructions + waits) / kSchedulers;
  const double moved = double(at_once * tile.shared_bytes) / kCycleBytes;
  const double each = double(blocks) / double(multiprocessors);  // multiprocessor's blocks
  const double turns = each > double(at_once) ? each / double(at_once) + 1 : 1;
  return turns * std::max({alone, issued + alone / double(at_once), moved}) + kStart * each;
}

/// Whether the windows of all strips lie in their words, zeros beside the image left out.
bool are_windows_inside(const Problem& problem, const MmaPlanesTile& tile) {
  for (int64_t q = 0; q < problem.q; ++q) {
    const int64_t strip = (q - tile.first_column) / MmaPlanesTile::kColumns;
    const int64_t begin = 8 * (strip + tile.first_word);
    const int64_t first = q - problem.padding_left;
    const int64_t last = std::min(problem.w, first + problem.s) - 1;
    if (last >= 0 &&
        (std::max<int64_t>(first, 0) < begin || last >= begin + 8 * MmaPlanesTile::kWords))
      return false;
  }
  return true;
}

/// The fewest strips that have all windows inside their words. first_column is at most 0, so that
/// strip 0 is the first, and even, so that outputs are stored in pairs.
MmaPlanesTile choose_columns(const Problem& problem) {
  MmaPlanesTile best{};
  for (int first_word = 0; first_word >= -1; --first_word) {
    for (int column = 0; column > -MmaPlanesTile::kColumns; column -= 2) {
      MmaPlanesTile tile{};
      tile.first_column = column;
      tile.first_word = first_word;
      tile.strips = static_cast<int>(ceil_div(problem.q - column, MmaPlanesTile::kColumns));
      if ((best.strips == 0 || tile.strips < best.strips) && are_windows_inside(problem, tile))
        best = tile;
    }
  }
  return best;
}

/// Words from one image to the next, for `words` of each. Eight words are in different banks where
/// their numbers differ modulo 8: those of a row's strips do, and the next image's go on from there.
int spread_images(const MmaPlanesTile& tile, int64_t words) {
  constexpr int64_t kBankWords = 8;
  if (tile.images > 1) words += (tile.strips + kBankWords - words % kBankWords) % kBankWords;
  return static_cast<int>(words);
}

/// Zeros, the input of these images and the next, and the output.
int64_t shared_bytes(const MmaPlanesTile& tile) {
  return kDepthwiseWordBytes * (1 + 2 * int64_t{tile.input_words()}) +
         int64_t{tile.images} * tile.output_bytes;
}

/// As slices_cost(). Both ends of a run of memory cost a sector.
int64_t mma_planes_cost(const Problem& problem, const MmaPlanesTile& tile) {
  constexpr int64_t kBlock = 256, kRun = 4;
  const int64_t blocks = ceil_div(problem.n, tile.images) * ceil_div(problem.c, tile.channels) *
                         ceil_div(problem.p, tile.rows());
  const int64_t products = tile.warps() * (tile.strip_rows + problem.r - 1) * problem.r * 5;
  return blocks *
         (shared_bytes(tile) / kDepthwiseWordBytes + products + kRun * tile.images + kBlock);
}

constexpr int64_t kWordElements = 8;  // of 16 bits

/// Whether rows of 16 images are worthwhile: most of the images are there, and rows are pairs. Without a
/// stride, only for many images, and rows that are two parts: strips of others take less time.
bool is_for_image_rows(const Problem& problem) {
  using Tile = ImageRowsTile;
  const auto is_words = [](int64_t elements) { return elements % kWordElements == 0; };
  return 3 * round_up(problem.n, Tile::kImages) <= 4 * problem.n && problem.w % 2 == 0 &&
         problem.q % 2 == 0 && is_words(problem.c * problem.h * problem.w) &&
         is_words(problem.c * problem.p * problem.q) &&
         (problem.stride_w == 2 || (problem.n >= 4 * Tile::kImages && problem.q > Tile::kColumns &&
                                    problem.w <= 2 * Tile::kColumns));
}

/// Some whole planes, or rows of one, by as many warps as there may be for bands that are not low.
ImageRowsTile with_rows(const Problem& problem, int64_t channels, int64_t rows) {
  using Tile = ImageRowsTile;
  Tile tile{};
  tile.channels = static_cast<int>(channels);
  tile.pairs = static_cast<int>(ceil_div(problem.q, 2 * Tile::kColumns));
  tile.bands =
      std::max(1, std::min(Tile::kMaxWarps / (tile.channels * tile.pairs),
                           static_cast<int>(ceil_div(rows * problem.stride_h, Tile::kBandInputs))));
  while (rows % tile.bands != 0) --tile.bands;
  tile.band_rows = static_cast<int>(rows / tile.bands);
  const int64_t input_rows =
      rows >= problem.p
          ? problem.h
          : std::min<int64_t>(problem.h, below(tile.rows(), problem.stride_h, problem.r));
  const auto odd_words = [&](int64_t elements) {
    return static_cast<int>(ceil_div(elements, kWordElements)) | 1;
  };
  tile.input_words = odd_words(channels * input_rows * problem.w + kWordElements - 1);
  tile.output_words = odd_words(channels * rows * problem.q);
  tile.shared_bytes =
      kDepthwiseWordBytes *
      (Tile::kImages * (tile.input_words + tile.output_words) + 2 * Tile::kZeroWords);
  return tile;
}

bool is_dilated(const Problem& problem) {
  return problem.dilation_h != 1 || problem.dilation_w != 1;
}

bool has_square_step(const Problem& problem) {
  return problem.stride_h == problem.stride_w && (problem.stride_h == 1 || problem.stride_h == 2);
}

/// Of the turns of a block, one for some images, those that take the least time(turns).
template <class Time>
int64_t fastest_turns(int64_t images, Time time) {
  int64_t best = 1;
  for (int64_t turns = 2; turns <= std::min<int64_t>(images, 32); ++turns)
    if (time(turns) < time(best)) best = turns;
  return best;
}

}  // namespace

bool has_images_of(const Problem& problem, int64_t most) {
  const int64_t padded_h = problem.padding_top + problem.h + problem.padding_bottom;
  return !exceeds(most, {problem.c, padded_h, problem.padded_w()}) &&
         !exceeds(most, {problem.c, problem.p, problem.q});
}

bool has_narrow_steps(const Problem& problem) {
  constexpr int64_t kMostStep = 1 << 14, kMost = 1 << 30;
  return has_images_of(problem, kMost) && problem.n < kMost &&
         std::max({problem.stride_h, problem.stride_w, problem.dilation_h, problem.dilation_w}) <
             kMostStep;
}

bool is_square(const Problem& problem, int taps) {
  return problem.r == taps && problem.s == taps && has_square_step(problem) && !is_dilated(problem);
}

bool has_depthwise_window(const Problem& problem) {
  return is_square(problem, 3) || is_square(problem, 5);
}

bool has_slices_window(const Problem& problem) {
  return problem.r == problem.s && (problem.r == 3 || problem.r == 5 || problem.r == 7) &&
         has_square_step(problem) && (problem.stride_h == 1 || !is_dilated(problem));
}

int64_t slices_word_bytes(const Problem& problem) {
  return problem.c * element_bytes(problem.dtype) % kDepthwiseWordBytes == 0 ? kDepthwiseWordBytes
                                                                             : 4;
}

int64_t choose_turns(int64_t tiles, int64_t images, int64_t resident) {
  // In turns' time: to prepare takes that of one.
  return fastest_turns(images, [&](int64_t turns) {
    return ceil_div(tiles * ceil_div(images, turns), resident) * (turns + 1);
  });
}

int64_t choose_plane_matrix_turns(int64_t tiles, int64_t images, int64_t resident) {
  // In half a turn's time: to prepare takes that of three. Blocks do not slow each other down. Long ones start
  // first, then those for the images left, in the places that the last of the long ones leave, or after them.
  return fastest_turns(images, [&](int64_t turns) {
    const int64_t full = tiles * (images / turns), rest = images % turns == 0 ? 0 : tiles;
    const int64_t long_time = 2 * turns + 3, short_time = 2 * (images % turns) + 3;
    const int64_t begin = full / resident * long_time, busy = full % resident;
    const int64_t beside = ceil_div(rest, resident - busy) * short_time;
    if (busy == 0 || beside <= long_time) return begin + (busy > 0 ? long_time : beside);
    const int64_t left = rest - (resident - busy) * (long_time / short_time);
    return begin + long_time + ceil_div(left, resident) * short_time;
  });
}

bool is_for_tensor_cores(const Problem& problem) {
  return element_bytes(problem.dtype) == 2 && problem.stride_h == 1 &&
         (has_depthwise_window(problem) || is_square(problem, 7)) && problem.w % 2 == 0 &&
         problem.q % 2 == 0;
}

std::optional<PlanesTile> choose_planes_tile(const Problem& problem, int64_t multiprocessors) {
  // Of 5x5 windows the code is so long that two warps had better read it together.
  const int64_t fewest = problem.r == 5 && problem.stride_h == 1 ? 64 : 32;
  const int64_t strips = ceil_div(problem.q, kStripSize);
  if (!is_narrow(problem) || strips > kPlanesMaxThreads) return std::nullopt;
  // Few products take less time than their input: rather idle lanes than few blocks beside.
  const int64_t room = problem.r == 3 ? 14 << 10 : kDepthwiseSharedBytes;
  std::optional<PlanesTile> best;
  double best_cost = 0;
  const auto consider = [&](const PlanesTile& tile) {
    if (tile.shared_bytes > kDepthwiseSharedBytes) return;
    const double its_cost = planes_cost(problem, tile, multiprocessors);
    if (best && its_cost >= best_cost) return;
    best = tile;
    best_cost = its_cost;
  };
  for (int thread_rows = 1; thread_rows <= kStripSize; ++thread_rows) {
    if (thread_rows != even_share(problem.p, thread_rows)) continue;
    for (int64_t threads = fewest; threads <= 256; threads *= 2) {
      PlanesTile tile{1, static_cast<int>(strips), 1, thread_rows, 0, 0};
      tile.bands =
          even_share(ceil_div(problem.p, thread_rows), std::max<int64_t>(1, threads / strips));
      if (tile.rows() >= problem.p)
        tile.planes = static_cast<int>(std::clamp<int64_t>(threads / tile.threads(), 1, problem.c));
      while (tile.planes > 1 && with_bytes(problem, tile).shared_bytes > room) --tile.planes;
      consider(with_bytes(problem, tile));
    }
  }
  return best;
}

std::optional<ImageRowsTile> choose_image_rows_tile(const Problem& problem) {
  using Tile = ImageRowsTile;
  if (!is_narrow(problem) || !is_for_image_rows(problem)) return std::nullopt;
  std::optional<Tile> best;
  const auto consider = [&](int64_t channels, int64_t rows) {
    const Tile tile = with_rows(problem, channels, rows);
    if (problem.c % channels != 0 || channels * rows * problem.q % kWordElements != 0 ||
        rows < std::min<int64_t>(problem.p, Tile::kFewRows) || tile.warps() > Tile::kMaxWarps ||
        tile.shared_bytes > Tile::kSharedBytes)
      return false;
    best = tile;
    return true;
  };
  for (int64_t channels = 1; channels <= Tile::kMaxWarps; ++channels)
    if (consider(channels, problem.p) && best->warps() >= Tile::kFewWarps) return best;
  if (best || problem.p * problem.q % kWordElements != 0) return best;
  const int64_t unit = kWordElements / std::gcd(problem.q, kWordElements);
  for (int64_t tiles = 2; tiles <= problem.p; ++tiles)
    if (consider(1, round_up(ceil_div(problem.p, tiles), unit))) return best;
  return std::nullopt;
}

std::optional<PlaneMatrixTile> choose_plane_matrix_tile(const Problem& problem) {
  using Tile = PlaneMatrixTile;
  const int64_t inputs = problem.h * problem.w, outputs = problem.p * problem.q;
  const auto fits = [&](int64_t elements) {
    return problem.c * elements % 8 == 0 && elements + elements % 2 <= Tile::kElements;
  };
  if (!is_narrow(problem) || problem.n < Tile::kImages || !fits(inputs) || !fits(outputs))
    return std::nullopt;
  Tile tile{};
  tile.table_rows = static_cast<int>(problem.h + (problem.p - 1) * problem.stride_h);
  tile.table_columns = static_cast<int>(problem.w + (problem.q - 1) * problem.stride_w);
  const auto words = [](int64_t elements) { return static_cast<int>(ceil_div(elements, 8)) | 1; };
  tile.input_words = words((Tile::kChannels - 1) * inputs + Tile::kElements);
  tile.output_words = words(Tile::kChannels * outputs);
  tile.parts = static_cast<int>(ceil_div(outputs + outputs % 2, 8));
  const int64_t patch = std::max<int64_t>(
      kDepthwiseWordBytes * Tile::kImages * tile.output_words,
      int64_t{sizeof(ElementPlaces)} + 2 * Tile::kChannels * tile.table_elements());
  tile.shared_bytes = kDepthwiseWordBytes * 2 * tile.buffer_words() + patch;
  if (tile.shared_bytes > kDepthwiseSharedBytes) return std::nullopt;
  return tile;
}

std::optional<MmaPlanesTile> choose_mma_planes_tile(const Problem& problem) {
  if (!is_narrow(problem) || problem.w > kDepthwiseSharedBytes) return std::nullopt;
  const MmaPlanesTile columns = choose_columns(problem);
  if (columns.strips == 0) return std::nullopt;
  std::optional<MmaPlanesTile> best;
  const auto consider = [&](int images, int channels, int bands, int strip_rows) {
    MmaPlanesTile tile = columns;
    tile.images = images;
    tile.channels = channels;
    tile.bands = bands;
    tile.strip_rows = strip_rows;
    const bool whole = tile.rows() >= problem.p;
    if (!whole && images * channels > 1) return;
    tile.input_rows = static_cast<int>(
        whole ? problem.h
              : std::min<int64_t>(problem.h, below(tile.rows(), problem.stride_h, problem.r)));
    tile.row_words = static_cast<int>(ceil_div(problem.w, 8));
    tile.image_words = spread_images(tile, int64_t{channels} * tile.input_rows * tile.row_words);
    const int64_t output = channels * std::min<int64_t>(problem.p, tile.rows()) * problem.q;
    tile.output_bytes = 16 * spread_images(tile, ceil_div(output + 7, 8));
    tile.shared_bytes = shared_bytes(tile);
    if (tile.warps() <= MmaPlanesTile::kMaxWarps && tile.shared_bytes <= kDepthwiseSharedBytes &&
        (!best || mma_planes_cost(problem, tile) < mma_planes_cost(problem, *best)))
      best = tile;
  };
  for (const int strip_rows : strip_rows_of(problem, MmaPlanesTile::kRows)) {
    const int most = MmaPlanesTile::kMaxWarps * MmaPlanesTile::kWarpStrips;
    for (int bands = 1; bands <= std::min<int64_t>(most, ceil_div(problem.p, strip_rows)); ++bands)
      for (int channels = 1; channels <= MmaPlanesTile::kMaxWarps; ++channels)
        for (int images = 1; images <= MmaPlanesTile::kWarpStrips; ++images)
          if (problem.n % images == 0) consider(images, channels, bands, strip_rows);
  }
  return best;
}

std::optional<SlicesTile> choose_slices_tile(const Problem& problem, int64_t resident) {
  if (!are_for_slices(problem)) return std::nullopt;
  SlicesTile tile = with_slices(problem, kSliceBytes, kStripSize);
  if (slices_word_bytes(problem) == kDepthwiseWordBytes && 2 * tile.slices > kStripLanes)
    tile.slices = static_cast<int>(round_up(tile.slices, kStripLanes));
  tile.shares = static_cast<int>(ceil_div(int64_t{tile.slices} * tile.strips, 32));
  return choose_bands(problem, tile, resident);
}

std::optional<SlicesTile> choose_mma_slices_tile(const Problem& problem, int64_t resident) {
  if (!are_for_slices(problem)) return std::nullopt;
  const int columns = even_share(ceil_div(problem.q, problem.dilation_w), kMmaStripColumns);
  SlicesTile tile = with_slices(problem, kMmaSliceBytes, columns);
  if (tile.strips % 2 != 0 && problem.n % 2 == 0) tile.images = 2;
  tile.shares = static_cast<int>(tile.slices * ceil_div(int64_t{tile.strips} * tile.images, 2));
  return choose_bands(problem, tile, resident);
}

}  // namespace im2win::cuda
