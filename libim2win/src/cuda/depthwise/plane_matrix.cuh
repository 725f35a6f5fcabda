// Depthwise convolution in NCHW of planes of few 16-bit elements, by tensor cores. A plane of outputs,
// as a row of elements, is a plane of the input times a matrix that has the filter's weights in some
// places and zeros in all others. Planes of a channel in several images are rows of the one factor, as
// they are in memory; window, stride, dilation and padding are in the matrix alone.
#pragma once

#include <cuda_pipeline.h>

#include "checked.hpp"
#include "cuda/depthwise/mma.cuh"
#include "cuda/depthwise/tile.hpp"
#include "cuda/launch.cuh"

namespace im2win::cuda {

/// The weight between two elements depends on how far the input's row and column are from the
/// output's. So a table of the weights by these distances has all of the matrix: at the sum of a place
/// of the input's element, which grows with it, and one of the output's, which falls. Elements that
/// there are not have places beyond the table, where zeros are. Plain data.
struct WeightTable {
  Divisor input_width, output_width, filter_width;
  int inputs, outputs, taps;  // elements
  int rows, columns, places;
  int stride_h, stride_w;
  int first_row, first_column;  // of the first tap; outside the table where no window has it inside
  int dilation_h, dilation_w;

  WeightTable(const Problem& problem, const PlaneMatrixTile& tile)
      : input_width(problem.w),
        output_width(problem.q),
        filter_width(problem.s),
        inputs(static_cast<int>(problem.h * problem.w)),
        outputs(static_cast<int>(problem.p * problem.q)),
        taps(static_cast<int>(problem.r * problem.s)),
        rows(tile.table_rows),
        columns(tile.table_columns),
        places(tile.table_places()),
        stride_h(static_cast<int>(problem.stride_h)),
        stride_w(static_cast<int>(problem.stride_w)),
        first_row(static_cast<int>((problem.p - 1) * problem.stride_h - problem.padding_top)),
        first_column(static_cast<int>((problem.q - 1) * problem.stride_w - problem.padding_left)),
        dilation_h(static_cast<int>(problem.dilation_h)),
        dilation_w(static_cast<int>(problem.dilation_w)) {}

  __device__ __forceinline__ int input_place(int element) const {
    if (unsigned(element) >= unsigned(inputs)) return places;
    const auto [y, x] = input_width.divide(element);
    return y * columns + x;
  }

  __device__ __forceinline__ int output_place(int element) const {
    if (unsigned(element) >= unsigned(outputs)) return places;
    const auto [p, q] = output_width.divide(outputs - 1 - element);
    return p * stride_h * columns + q * stride_w;
  }

  /// Written by a block.
  __device__ __forceinline__ void list_places(ElementPlaces& found) const {
    const int i = threadIdx.x, element = i % ElementPlaces::kCount - 1;
    if (i < ElementPlaces::kCount)
      found.inputs[element + 1] = static_cast<uint16_t>(input_place(element));
    else if (i < 2 * ElementPlaces::kCount)
      found.outputs[element + 1] = static_cast<uint16_t>(output_place(element));
  }

  /// Written by a warp.
  __device__ __forceinline__ void fill(const uint16_t* filter, uint16_t* table) const {
    const int lane = threadIdx.x % 32;
    for (int i = lane; i <= 2 * places; i += 32) table[i] = 0;
    __syncwarp();
    for (int tap = lane; tap < taps; tap += 32) {
      const auto [r, s] = filter_width.divide(tap);
      const int row = first_row + r * dilation_h, column = first_column + s * dilation_w;
      if (unsigned(row) < unsigned(rows) && unsigned(column) < unsigned(columns))
        table[row * columns + column] = filter[tap];
    }
    __syncwarp();
  }
};

/// The tile and the tensors. Plain data.
struct PlaneMatrixGrid {
  static constexpr bool kStartsEarly = true;
  PlaneMatrixTile tile;
  WeightTable table;
  Divisor channel_tiles;
  int n, c;
  int turns;  // of a block, each some images
  int64_t blocks;

  PlaneMatrixGrid(const Problem& problem, const PlaneMatrixTile& chosen, int64_t resident)
      : tile(chosen),
        table(problem, chosen),
        channel_tiles(ceil_div(problem.c, PlaneMatrixTile::kChannels)),
        n(static_cast<int>(problem.n)),
        c(static_cast<int>(problem.c)),
        turns(0),
        blocks(0) {
    const int64_t images = ceil_div(problem.n, PlaneMatrixTile::kImages);
    turns = static_cast<int>(choose_plane_matrix_turns(channel_tiles.divisor, images, resident));
    blocks = channel_tiles.divisor * ceil_div(images, turns);
  }
};

/// What a block computes: some channels, a warp each, of some images.
struct PlaneMatrixPlace {
  int first_n, end_n;
  int first_c, channels;
  int k;  // the warp's, or another's if it has none

  __device__ __forceinline__ explicit PlaneMatrixPlace(const PlaneMatrixGrid& grid) {
    const auto [turn, channel_tile] = grid.channel_tiles.divide(static_cast<int>(blockIdx.x));
    first_n = turn * grid.turns * PlaneMatrixTile::kImages;
    end_n = min(grid.n, first_n + grid.turns * PlaneMatrixTile::kImages);
    first_c = channel_tile * PlaneMatrixTile::kChannels;
    channels = min(PlaneMatrixTile::kChannels, grid.c - first_c);
    k = first_c + min(static_cast<int>(threadIdx.x / 32), channels - 1);
  }
};

/// A thread's part of the way between a tensor and shared memory: one or two words of the tile's planes of
/// two images, of which a warp has all. In shared memory images are an odd number of words apart, as the
/// lanes of a warp that multiplies have the same words of eight.
template <class Word>
class PlaneWords {
  static constexpr int kWarps = PlaneMatrixTile::kImages / 2;
  static_assert(kWarps == PlaneMatrixTile::kChannels, "a warp has two images");

 public:
  __device__ __forceinline__ PlaneWords(Word* tensor, const PlaneMatrixPlace& at, int c,
                                        int plane_elements, int shared_words)
      : image_words_(c * plane_elements / 8),
        count_(at.channels * plane_elements / 8 - static_cast<int>(threadIdx.x % 32)),
        n_(at.first_n + static_cast<int>(threadIdx.x / 32)),
        end_n_(at.end_n),
        shared_words_(shared_words) {
    const int64_t word = int64_t{n_} * image_words_ + at.first_c * plane_elements / 8;
    words_ = tensor + word + threadIdx.x % 32;
  }

  /// copy(word of the tensor, word in shared memory) for the next images.
  template <class Copy>
  __device__ __forceinline__ void next(uint4* shared, Copy copy) {
    uint4* const first = shared + threadIdx.x / 32 * shared_words_ + threadIdx.x % 32;
#pragma unroll
    for (int i = 0; i < 2; ++i) {
#pragma unroll
      for (int j = 0; j < 2; ++j) {
        if (n_ + i * kWarps < end_n_ && 32 * j < count_)
          copy(words_ + int64_t{i * kWarps} * image_words_ + 32 * j,
               first + i * kWarps * shared_words_ + 32 * j);
      }
    }
    n_ += PlaneMatrixTile::kImages;
    words_ += int64_t{PlaneMatrixTile::kImages} * image_words_;
  }

 private:
  Word* words_;
  int image_words_, count_;
  int n_, end_n_;
  int shared_words_;
};

/// Where the lane's first word is in shared memory, of the warp's plane in each of its two images.
struct PlaneAddresses {
  int lead;  // elements of the first word before the plane
  uint32_t of_image[2];

  __device__ __forceinline__ PlaneAddresses(const void* shared, int plane_elements, int words) {
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    lead = warp * plane_elements % 2;
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      of_image[i] = shared_address(shared) + (lane / 4 + 8 * i) * words * 16 +
                    2 * (warp * plane_elements - lead) + lane % 4 * 4;
      asm volatile("" : "+r"(of_image[i]));  // else worked out again for each use
    }
  }
};

/// The matrix's fragments, of 16 elements of the input by 8 of the output each.
struct PlaneMatrix {
  static constexpr int kSteps = PlaneMatrixTile::kElements / 16;
  static constexpr int kParts = PlaneMatrixTile::kElements / 8;
  uint32_t fragments[kParts][kSteps][2];

  __device__ __forceinline__ PlaneMatrix(const ElementPlaces& places, const uint16_t* weights,
                                         int input_lead, int output_lead) {
    const int lane = threadIdx.x % 32;
    const uint16_t* const inputs = places.inputs + 1 - input_lead + lane % 4 * 2;
    const uint16_t* const outputs = places.outputs + 1 - output_lead + lane / 4;
    uint32_t columns[kParts];  // addresses
#pragma unroll
    for (int part = 0; part < kParts; ++part)
      columns[part] = shared_address(weights + outputs[8 * part]);
#pragma unroll
    for (int step = 0; step < kSteps; ++step) {
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const int input = 16 * step + 8 * half;
        const int first = 2 * inputs[input], second = 2 * inputs[input + 1];
#pragma unroll
        for (int part = 0; part < kParts; ++part)
          fragments[part][step][half] = load_shared_half(columns[part] + first) |
                                        load_shared_half(columns[part] + second) << 16;
      }
    }
  }
};

/// Finishes the sums of a warp's planes and writes them to shared memory, in pairs of neighbours.
template <class Element>
class PlaneWriter {
 public:
  __device__ __forceinline__ PlaneWriter(const Clamp<float>& clamp, const WeightTable& table,
                                         int lead)
      : table_(table), clamp_(clamp), first_(static_cast<int>(threadIdx.x % 4) * 2 - lead) {
    // Else what is known of each part is worked out ahead of all turns, and takes registers.
    asm volatile("" : "+r"(first_));
  }

  /// Columns 8 part to 8 part + 7 of the product, of an image to where `address` is.
  __device__ __forceinline__ void write(int part, uint32_t address, float first, float second) {
    const int output = first_ + 8 * part, last = table_.outputs - 1;
    const Pair<Element> pair = clamp_(pair_of<Element>(first, second));
    finiteness_.add(pair);
    const auto bits = reinterpret_cast<const uint32_t&>(pair);
    address += 16 * part;
    if (unsigned(output) < unsigned(last)) store_shared(address, bits);
    if (output == last) store_shared_half(address, bits);
    if (part == 0 && output == -1) store_shared_half(address + 2, bits >> 16);
  }

  /// False if what the lane wrote may be wrong: zeros of the matrix make NaN of infinite factors that
  /// are not an output's own.
  __device__ __forceinline__ bool is_right() const { return finiteness_.is_finite(); }

 private:
  const WeightTable& table_;
  PairClamp<Element> clamp_;
  Finiteness<Element> finiteness_;
  int first_;  // output of the lane's first pair
};

/// Computes the warp's planes of images from first_n on again.
template <class Element>
__device__ __noinline__ void correct(const DepthwiseArguments<Element, float>& a,
                                     const PlaneMatrixGrid& grid, int first_n) {
  const PlaneMatrixPlace at(grid);
  const auto filter = a.outputs.filter(at.k);
  for (int n = first_n; n < min(first_n + PlaneMatrixTile::kImages, at.end_n); ++n) {
    for (int output = threadIdx.x % 32; output < grid.table.outputs; output += 32) {
      const auto [p, q] = grid.table.output_width.divide(output);
      write_any(a, filter, n, at.k, p, q);
    }
  }
}

/// The warp's planes of some images, from shared memory to shared memory. False if an
/// output may be wrong.
template <bool kIsClamp, class Element>
__device__ __forceinline__ bool multiply_planes(const DepthwiseArguments<Element, float>& a,
                                                const PlaneMatrix& matrix, int parts, float bias,
                                                const PlaneAddresses& input, int buffer,
                                                const PlaneAddresses& output,
                                                PlaneWriter<Element> writer) {
  uint32_t planes[PlaneMatrix::kSteps][4];
#pragma unroll
  for (int step = 0; step < PlaneMatrix::kSteps; ++step)
#pragma unroll
    for (int i = 0; i < 4; ++i)
      planes[step][i] = load_shared(input.of_image[i % 2] + buffer + 32 * step + i / 2 * 16);
  // Two parts at a time: the products of one wait for each other.
#pragma unroll
  for (int first = 0; first < PlaneMatrix::kParts; first += 2) {
    if (first >= parts) break;
    float sums[2][4];
#pragma unroll
    for (int j = 0; j < 8; ++j) sums[j / 4][j % 4] = bias;
#pragma unroll
    for (int step = 0; step < PlaneMatrix::kSteps; ++step) {
#pragma unroll
      for (int j = 0; j < 2; ++j)
        multiply_16<Element>(sums[j], planes[step], matrix.fragments[first + j][step][0],
                             matrix.fragments[first + j][step][1]);
    }
    activate<kIsClamp>(a, reinterpret_cast<float(&)[8]>(sums));
#pragma unroll
    for (int i = 0; i < 4; ++i)
      writer.write(first + i / 2, output.of_image[i % 2], sums[i / 2][i % 2 * 2],
                   sums[i / 2][i % 2 * 2 + 1]);
  }
  return writer.is_right();
}

/// What images do not fill is read, too.
__device__ __forceinline__ void clear(const PlaneMatrixTile& tile, uint4* inputs) {
  for (int word = threadIdx.x; word < 2 * tile.buffer_words(); word += blockDim.x)
    inputs[word] = uint4{0, 0, 0, 0};
}

template <class Element, bool kIsClamp>
__device__ __forceinline__ void multiply_matrix(const DepthwiseArguments<Element, float>& a,
                                                const PlaneMatrixGrid& grid) {
  const PlaneMatrixTile& tile = grid.tile;
  const WeightTable& table = grid.table;
  const PlaneMatrixPlace at(grid);
  uint4* const inputs = dynamic_shared<uint4>();
  uint4* const outputs = inputs + 2 * tile.buffer_words();
  auto& places = *reinterpret_cast<ElementPlaces*>(outputs);
  clear(tile, inputs);
  table.list_places(places);
  __syncthreads();
  PlaneWords input(reinterpret_cast<const uint4*>(a.input), at, grid.c, table.inputs,
                   tile.input_words);
  const auto load = [&](int turn) {
    input.next(inputs + turn % 2 * tile.buffer_words(), [](const uint4* from, uint4* to) {
      __pipeline_memcpy_async(to, from, sizeof(uint4));
    });
    __pipeline_commit();
  };
  follow();
  load(0);

  const int warp = threadIdx.x / 32;
  const PlaneAddresses from(inputs, table.inputs, tile.input_words);
  const PlaneAddresses to(outputs, table.outputs, tile.output_words);
  uint16_t* const weights = reinterpret_cast<uint16_t*>(&places + 1) + warp * tile.table_elements();
  table.fill(reinterpret_cast<const uint16_t*>(a.filter) + at.k * table.taps, weights);
  const PlaneMatrix matrix(places, weights, from.lead, to.lead);
  const float bias = a.outputs.bias(at.k);
  PlaneWords output(reinterpret_cast<uint4*>(a.outputs.data()), at, grid.c, table.outputs,
                    tile.output_words);
  unsigned undefined = 0;  // a bit for each turn, of the warp
  for (int n = at.first_n, turn = 0; n < at.end_n; n += tile.kImages, ++turn) {
    __pipeline_wait_prior(0);
    __syncthreads();
    if (n + tile.kImages < at.end_n) load(turn + 1);
    if (warp < at.channels) {
      const PlaneWriter<Element> writer(a.clamp, table, to.lead);
      const bool is_right = multiply_planes<kIsClamp>(
          a, matrix, tile.parts, bias, from, turn % 2 * tile.buffer_words() * 16, to, writer);
      if (!__all_sync(~0u, is_right)) undefined |= 1u << turn;
    }
    __syncthreads();
    output.next(outputs, [](uint4* to, const uint4* from) { *to = *from; });
  }
  if (!__syncthreads_or(undefined != 0)) return;
  for (; undefined != 0; undefined &= undefined - 1)
    correct(a, grid, at.first_n + (__ffs(static_cast<int>(undefined)) - 1) * tile.kImages);
}

template <class Element, bool kIsClamp>
__global__ void __launch_bounds__(32 * PlaneMatrixTile::kChannels, 2)
    depthwise_plane_matrix_kernel(const __grid_constant__ DepthwiseArguments<Element, float> a,
                                  const __grid_constant__ PlaneMatrixGrid grid) {
  if constexpr (has_code(kIsClamp)) multiply_matrix<Element, kIsClamp>(a, grid);
}

}  // namespace im2win::cuda
