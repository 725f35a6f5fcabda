// Depthwise convolution of any window: what a block computes, and the ways of its input and filters to
// shared memory, as floats, and of its outputs from there.
#pragma once

#include <cuda_pipeline.h>

#include <algorithm>
#include <type_traits>

#include "cuda/depthwise/sum.cuh"
#include "cuda/depthwise/windows_tile.hpp"
#include "cuda/launch.cuh"

namespace im2win::cuda {

/// A Comb on the device. Plain data.
struct WindowsAxis {
  Divisor outputs;  // that start combs
  Divisor inputs;   // between a comb's
  int stride, dilation;
  Divisor taps;  // that start combs, if the window has so many

  explicit WindowsAxis(const Comb& comb)
      : outputs(comb.outputs),
        inputs(comb.inputs),
        stride(static_cast<int>(comb.stride)),
        dilation(static_cast<int>(comb.dilation)),
        taps(comb.taps) {}

  __device__ __forceinline__ int step() const { return static_cast<int>(inputs.divisor); }
  __device__ __forceinline__ int starts() const { return static_cast<int>(outputs.divisor); }
};

/// Distances in a tensor, in elements of an image. Plain data.
struct WindowsLayout {
  int channel, row, column;

  explicit WindowsLayout(const Tensor& tensor) {
    const auto step = [&](int axis) {
      return tensor.size[axis] > 1 ? static_cast<int>(tensor.stride[axis]) : 0;
    };
    channel = step(1);
    row = step(2);
    column = step(3);
  }
};

/// The tile and the image. Plain data.
struct WindowsGrid {
  static constexpr bool kStartsEarly = true;  // before the kernel ahead of it ends: follow()
  WindowsTile tile;
  WindowsAxis down, along;
  Divisor channel_tiles, column_tiles, row_tiles;
  Divisor strips, bands;
  Divisor filter_taps, filter_columns, pass_taps;
  Divisor words;       // of a pixel, 1 of rows
  Divisor team_lanes;  // threads that stage a row at a time
  int teams;
  int planes;  // whose rows are staged one by one
  int comb_pitch, comb_passes;
  WindowsLayout input, output;
  int c, h, w, p, q;
  int64_t blocks;

  WindowsGrid(const Problem& problem, const WindowsTile& chosen)
      : tile(chosen),
        down(Comb::vertical(problem)),
        along(Comb::horizontal(problem)),
        channel_tiles(ceil_div(problem.c, tile.channels)),
        column_tiles(ceil_div(problem.q, tile.columns)),
        row_tiles(ceil_div(problem.p, tile.rows)),
        strips(tile.column_combs * along.outputs.divisor),
        bands(tile.row_combs * down.outputs.divisor),
        filter_taps(problem.r * problem.s),
        filter_columns(problem.s),
        pass_taps(tile.pass_taps),
        words(tile.is_pixel_major ? tile.channels / tile.word : 1),
        team_lanes(tile.team_lanes),
        teams(tile.block_threads() / tile.team_lanes),
        planes(tile.is_pixel_major ? 1 : tile.channels),
        comb_pitch(tile.comb_pitch(along.inputs.divisor)),
        comb_passes(tile.column_passes / tile.combs),
        input(problem.input),
        output(problem.output),
        c(static_cast<int>(problem.c)),
        h(static_cast<int>(problem.h)),
        w(static_cast<int>(problem.w)),
        p(static_cast<int>(problem.p)),
        q(static_cast<int>(problem.q)),
        blocks(problem.n * channel_tiles.divisor * column_tiles.divisor * row_tiles.divisor) {}
};

/// What a block computes: its first output, and the first input below it, which may be outside. A row
/// is staged from there on, or from the word that holds it.
struct WindowsPlace {
  int n, k, p, q;
  int y, x;
  int shift;  // of the first input in its word

  template <class Element>
  __device__ __forceinline__ WindowsPlace(const DepthwiseArguments<Element, float>& a,
                                          const WindowsGrid& grid) {
    const auto [pixels, channel_tile] = grid.channel_tiles.divide(static_cast<int>(blockIdx.x));
    const auto [rows, column_tile] = grid.column_tiles.divide(pixels);
    const auto [image, row_tile] = grid.row_tiles.divide(rows);
    n = image;
    k = channel_tile * grid.tile.channels;
    p = row_tile * grid.tile.rows;
    q = column_tile * grid.tile.columns;
    y = p * grid.down.stride - static_cast<int>(a.vertical.padding);
    const int first = q * grid.along.stride - static_cast<int>(a.horizontal.padding);
    shift = grid.tile.is_pixel_major ? 0 : first & (grid.tile.word - 1);
    x = first - shift;
  }
};

/// So many elements that are loaded and stored at a time.
template <class Element, int kCount>
struct alignas(kCount * sizeof(Element)) WindowsWord {
  Element elements[kCount];
};

/// Distances to the next plane, and to the next row.
struct WindowsPitch {
  int plane, row;
};

/// Goes down the rows of planes, one after the other, some at a time: where they begin in memory,
/// and in shared memory.
class RowWalk {
 public:
  int global, shared;

  __device__ __forceinline__ RowWalk(int rows, int first, int step, WindowsPitch globally,
                                     WindowsPitch here)
      : rows_(rows) {
    const int plane = first / rows, planes = step / rows;
    row_ = first - plane * rows;
    row_step_ = step - planes * rows;
    global = plane * globally.plane + row_ * globally.row;
    shared = plane * here.plane + row_ * here.row;
    global_step_ = planes * globally.plane + row_step_ * globally.row;
    shared_step_ = planes * here.plane + row_step_ * here.row;
    global_carry_ = globally.plane - rows * globally.row;
    shared_carry_ = here.plane - rows * here.row;
  }

  __device__ __forceinline__ void next() {
    row_ += row_step_;
    global += global_step_;
    shared += shared_step_;
    if (row_ < rows_) return;
    row_ -= rows_;
    global += global_carry_;
    shared += shared_carry_;
  }

 private:
  int rows_, row_, row_step_;
  int global_step_, shared_step_, global_carry_, shared_carry_;
};

/// So many floats that shared memory takes at a time.
template <int kCount>
struct alignas(std::min(kCount, 4) * sizeof(float)) WindowsFloats {
  float elements[kCount];
};

/// The words of the tile that are in the image, `row_words` in each of `rows` rows of `planes`
/// planes. A thread takes those with the same number in some rows, and works out once where they
/// are: place(number). move(place, is_any, globals, shareds) gets kBatch rows at a time: which of
/// them there are, and how far from that place their words are.
template <int kBatch, class Place, class Move>
__device__ __forceinline__ void for_each_word(const WindowsGrid& grid, int row_words, int rows,
                                              int planes, WindowsPitch globally, WindowsPitch here,
                                              Place place, Move move) {
  const auto [team, lane] = grid.team_lanes.divide(static_cast<int>(threadIdx.x));
  if (team >= grid.teams || rows <= 0) return;
  const RowWalk first(rows, team, grid.teams, globally, here);
  for (int i = lane; i < row_words; i += static_cast<int>(grid.team_lanes.divisor)) {
    const auto at = place(i);
    RowWalk walk = first;
    for (int left = rows * planes - team; left > 0; left -= kBatch * grid.teams) {
      int globals[kBatch], shareds[kBatch];
#pragma unroll
      for (int each = 0; each < kBatch; ++each) {
        globals[each] = walk.global;
        shareds[each] = walk.shared;
        walk.next();
      }
      move(at, [&](int each) { return each * grid.teams < left; }, globals, shareds);
    }
  }
}

/// A word's place in memory and in shared memory, that of the first row.
template <class Global, class Shared>
struct WordPlace {
  Global* global;
  Shared* shared;
  bool is_inside;
};

/// Copies the input below the tile; what is outside the image stays as it is. Complete after
/// __pipeline_commit() and _wait_prior(), and a barrier.
template <bool kIsPixelMajor, int kWord, class Element>
__device__ __forceinline__ void load_input(const Element* image, const WindowsGrid& grid,
                                           const WindowsPlace& at, float* shared) {
  using Word = WindowsWord<Element, kWord>;
  using Floats = WindowsFloats<kWord>;
  constexpr int kBatch = 8;  // on their way at a time
  constexpr int kColumns = kIsPixelMajor ? 1 : kWord;
  const WindowsTile& tile = grid.tile;
  const int words = static_cast<int>(grid.words.divisor);
  const int first_x = max(at.x, 0), first_y = max(at.y, 0);
  const int end_x = min(at.x + tile.comb_inputs * grid.along.step(), grid.w);
  for_each_word<kBatch>(
      grid, (end_x - first_x) / kColumns * words, min(at.y + tile.input_rows, grid.h) - first_y,
      min(grid.planes, grid.c - at.k), {grid.input.channel, grid.input.row},
      {tile.plane_pitch, tile.row_pitch},
      [&](int number) {
        const auto [column, word] = grid.words.divide(number);
        const int x = first_x + column * kColumns, k = at.k + word * kWord;
        const auto [beyond, comb] = grid.along.inputs.divide(x - at.x);
        return WordPlace<const Element, float>{
            image + (first_y * grid.input.row + x * grid.input.column + k * grid.input.channel),
            shared + word * kWord * tile.plane_pitch + (first_y - at.y) * tile.row_pitch +
                comb * grid.comb_pitch + beyond,
            k < grid.c};
      },
      [&](const auto& place, auto is_any, const int(&globals)[kBatch],
          const int(&shareds)[kBatch]) {
        if (!place.is_inside) return;
        if constexpr (std::is_same_v<Element, float> && (kWord == 1 || !kIsPixelMajor)) {
#pragma unroll
          for (int i = 0; i < kBatch; ++i)
            if (is_any(i))
              __pipeline_memcpy_async(place.shared + shareds[i], place.global + globals[i],
                                      sizeof(Word));
        } else {
          Word words[kBatch];
#pragma unroll
          for (int i = 0; i < kBatch; ++i)
            if (is_any(i)) words[i] = *reinterpret_cast<const Word*>(place.global + globals[i]);
#pragma unroll
          for (int i = 0; i < kBatch; ++i) {
            if (!is_any(i)) break;
            Floats floats;
#pragma unroll
            for (int j = 0; j < kWord; ++j)
              floats.elements[j] = to_compute<float>(words[i].elements[j]);
            float* const to = place.shared + shareds[i];
            if constexpr (kIsPixelMajor) {
#pragma unroll
              for (int j = 0; j < kWord; ++j) to[j * tile.plane_pitch] = floats.elements[j];
            } else {
              *reinterpret_cast<Floats*>(to) = floats;
            }
          }
        }
      });
}

template <bool kIsPixelMajor, int kWord, class Element>
__device__ __forceinline__ void store_output(Element* image, const WindowsGrid& grid,
                                             const WindowsPlace& at, const float* shared) {
  using Word = WindowsWord<Element, kWord>;
  constexpr int kBatch = 4;
  constexpr int kColumns = kIsPixelMajor ? 1 : kWord;
  const WindowsTile& tile = grid.tile;
  const int words = static_cast<int>(grid.words.divisor);
  const int element_pitch = kIsPixelMajor ? tile.output_pitch : 1;
  for_each_word<kBatch>(
      grid, min(tile.columns, grid.q - at.q) / kColumns * words, min(tile.rows, grid.p - at.p),
      min(grid.planes, grid.c - at.k), {grid.output.channel, grid.output.row},
      {tile.output_pitch, tile.columns},
      [&](int number) {
        const auto [column, word] = grid.words.divide(number);
        const int q = at.q + column * kColumns, k = at.k + word * kWord;
        return WordPlace<Element, const float>{
            image + (at.p * grid.output.row + q * grid.output.column + k * grid.output.channel),
            shared + word * kWord * tile.output_pitch + column * kColumns, k < grid.c};
      },
      [&](const auto& place, auto is_any, const int(&globals)[kBatch],
          const int(&shareds)[kBatch]) {
        if (!place.is_inside) return;
        Word words[kBatch];
#pragma unroll
        for (int i = 0; i < kBatch; ++i)
#pragma unroll
          for (int j = 0; j < kWord; ++j)
            if (is_any(i))
              words[i].elements[j] =
                  from_compute<Element>(place.shared[shareds[i] + j * element_pitch]);
#pragma unroll
        for (int i = 0; i < kBatch; ++i)
          if (is_any(i)) *reinterpret_cast<Word*>(place.global + globals[i]) = words[i];
      });
}

/// Calls use(constant) with whether pixels are staged, and the number of elements of a word.
template <class Element, class Use>
__device__ __forceinline__ void with_word(bool is_pixel_major, int elements, Use use) {
  using std::integral_constant;
  const auto with_layout = [&](auto word) {
    return is_pixel_major ? use(std::true_type{}, word) : use(std::false_type{}, word);
  };
  if constexpr (sizeof(Element) == 2)
    if (elements == 8) return with_layout(integral_constant<int, 8>{});
  switch (elements) {
    case 4: return with_layout(integral_constant<int, 4>{});
    case 2: return with_layout(integral_constant<int, 2>{});
    default: return with_layout(integral_constant<int, 1>{});
  }
}

/// Copies the filters: of a channel [pass along rows][pass down][row of a pass][tap]. What is beyond
/// the window stays as it is. Complete as load_input().
template <class Element>
__device__ __forceinline__ void load_filters(const Element* filters, const WindowsGrid& grid,
                                             int channels, float* shared) {
  const WindowsTile& tile = grid.tile;
  const int count = channels * static_cast<int>(grid.filter_taps.divisor);
#pragma unroll 4
  for (int i = threadIdx.x; i < count; i += blockDim.x) {
    const auto [channel, tap] = grid.filter_taps.divide(i);
    const auto [r, s] = grid.filter_columns.divide(tap);
    const auto [down, down_comb] = grid.down.taps.divide(r);
    const auto [along, along_comb] = grid.along.taps.divide(s);
    const auto [pass, number] = grid.pass_taps.divide(along);
    const int passes = along_comb * grid.comb_passes + pass;
    const int row = (passes * tile.row_passes + down_comb) * tile.row_taps + down;
    float* const to = shared + channel * tile.filter_pitch +
                      row * windows_taps_pitch(static_cast<int>(grid.pass_taps.divisor)) + number;
    if constexpr (std::is_same_v<Element, float>)
      __pipeline_memcpy_async(to, filters + i, sizeof(float));
    else
      *to = to_compute<float>(filters[i]);
  }
}

/// Zeros in the padding, and beyond the window.
__device__ __forceinline__ void clear_shared(int64_t bytes) {
  uint4* const words = dynamic_shared<uint4>();
  for (int i = threadIdx.x; i < int(bytes / 16); i += blockDim.x) words[i] = uint4{0, 0, 0, 0};
}

}  // namespace im2win::cuda
