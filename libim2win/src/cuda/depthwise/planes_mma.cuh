// Depthwise convolution in NCHW of 16-bit elements, stride 1, by tensor cores. For row r of the
// filter there is a band matrix of its weights, which turns two words of a row of the input into 8
// neighbouring sums of the output. The other factor is such words of 16 strips of a channel, from
// wherever they are: other columns, other rows or other images.
#pragma once

#include "cuda/depthwise/mma.cuh"
#include "cuda/depthwise/planes_rows.cuh"
#include "cuda/depthwise/run.cuh"

namespace im2win::cuda {

/// The fragments of the band matrices of a filter's rows: of word w of a strip's, element x of the
/// window row r has the weight of its column x - q + shift for output q.
template <int kTaps>
struct BandWeights {
  static constexpr int kWords = MmaPlanesTile::kWords;
  uint32_t fragments[kTaps][kWords];

  __device__ __forceinline__ BandWeights(const uint16_t* filter, int shift) {
    const int lane = threadIdx.x % 32;
    const int first = lane % 4 * 2 - lane / 4 + shift;
#pragma unroll
    for (int r = 0; r < kTaps; ++r) {
#pragma unroll
      for (int word = 0; word < kWords; ++word) {
        uint32_t pair = 0;
#pragma unroll
        for (int i = 0; i < 2; ++i) {
          const int s = first + 8 * word + i;
          if (unsigned(s) < kTaps) pair |= uint32_t{filter[r * kTaps + s]} << 16 * i;
        }
        fragments[r][word] = pair;
      }
    }
  }
};

/// A strip of a warp's channel: its first output in the tile, and the words of its windows.
struct MmaPlaneStrip {
  int image, row, column;  // the column may be before the image
  int number;              // among those of a row

  __device__ __forceinline__ MmaPlaneStrip(const MmaPlanesGrid& grid, int strip) {
    const auto [rest, in_row] = grid.strips.divide(strip);
    const auto [band, plane] = grid.images.divide(rest);
    image = plane;
    row = band * grid.tile.strip_rows;
    column = in_row * MmaPlanesTile::kColumns + grid.tile.first_column;
    number = in_row;
  }
};

/// The lowest `count` bits, of 31. Which rows are inside is kept as bits: the compiler tests several
/// at a time, but would compare each row's number.
__device__ __forceinline__ unsigned low_bits(int count) {
  return (1u << min(max(count, 0), 31)) - 1;
}

/// A lane's address in the rows of the input: a word of a strip's, or zeros.
struct WordAddress {
  uint32_t row, zeros, row_bytes;
  unsigned inside;  // a bit for each row from the first on: whether it is in the image, and here

  /// Goes to the next row.
  __device__ __forceinline__ uint32_t next() {
    const uint32_t address = inside & 1 ? row : zeros;
    inside >>= 1;
    row += row_bytes;
    return address;
  }
};

/// The words of a row of the input under 16 strips: the first factor of one product.
template <class Element, int kTaps>
struct RowWords {
  const BandWeights<kTaps>& weights;
  uint32_t words[4];

  __device__ __forceinline__ RowWords(const BandWeights<kTaps>& bands, uint32_t address)
      : weights(bands) {
    load_fragments(address, words);
  }

  __device__ __forceinline__ void operator()(float (&sums)[4], int r) const {
    multiply_16<Element>(sums, words, weights.fragments[r][0], weights.fragments[r][1]);
  }
};

/// A warp's part of a tile, 16 strips of a channel, and what a lane stores of it: of two strips the
/// columns q and q + 1, which are both in the image or neither, as rows are pairs of outputs.
struct PlaneWarp {
  MmaPlaneStrip mine;  // whose words the lane reads
  MmaPlaneStrip strips[2];
  int channel;  // of the tile
  int k, p[2], q[2];
  int rows[2];  // in the image, none if the columns are not

  __device__ __forceinline__ PlaneWarp(const MmaPlanesGrid& grid, const MmaPlanesPlace& at)
      : PlaneWarp(grid, at, grid.channel_warps.divide(static_cast<int>(threadIdx.x / 32))) {}

 private:
  __device__ __forceinline__ PlaneWarp(const MmaPlanesGrid& grid, const MmaPlanesPlace& at,
                                       QuotientRemainder<int> warp)
      : mine(grid, warp.remainder * MmaPlanesTile::kWarpStrips + int(threadIdx.x % 16)),
        strips{{grid, warp.remainder * MmaPlanesTile::kWarpStrips + int(threadIdx.x % 32 / 4)},
               {grid, warp.remainder * MmaPlanesTile::kWarpStrips + int(threadIdx.x % 32 / 4) + 8}},
        channel(warp.quotient),
        k(at.first_c + (channel < at.channels ? channel : 0)) {
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      p[i] = at.first_p + strips[i].row;
      q[i] = strips[i].column + int(threadIdx.x % 4) * 2;
      const bool is_any = channel < at.channels && unsigned(q[i]) < unsigned(grid.q);
      rows[i] = is_any ? min(grid.tile.strip_rows, at.rows - strips[i].row) : 0;
    }
  }
};

__device__ __forceinline__ WordAddress word_address(const MmaPlanesGrid& grid,
                                                    const MmaPlanesPlace& at, const uint4* zeros,
                                                    const uint4* input, const PlaneWarp& warp,
                                                    int padding_top) {
  const MmaPlanesTile& tile = grid.tile;
  const MmaPlaneStrip& strip = warp.mine;
  const int word = strip.number + tile.first_word + int(threadIdx.x % 32 / 16);
  const bool is_any = warp.channel < at.channels && strip.row < at.rows &&
                      unsigned(word) < unsigned(tile.row_words);
  const int y = at.first_p + strip.row - padding_top;
  const uint4* const first = input + strip.image * tile.image_words +
                             (warp.channel * at.input_rows + y - at.first_y) * tile.row_words +
                             word;
  return {keep(shared_address(first)), shared_address(zeros), uint32_t(tile.row_words) * 16,
          keep(is_any ? low_bits(at.first_y + at.input_rows - y) & ~low_bits(-y) : 0)};
}

/// Computes the lane's outputs of some turns again, a bit for each. It works out where they are by
/// itself, so that nothing is kept for it.
template <int kTaps, class Element>
__device__ __noinline__ void correct(const DepthwiseArguments<Element, float>& a,
                                     const MmaPlanesGrid& grid, unsigned turns) {
  const auto at = MmaPlanesPlace::of<kTaps>(grid, static_cast<int>(a.vertical.padding));
  const PlaneWarp warp(grid, at);
  const auto filter = a.outputs.filter(warp.k);
  const auto correct_pair = [&](int n, int p, int first_q) {
#pragma unroll 1
    for (int q = first_q; q < first_q + 2; ++q) write_any(a, filter, n, warp.k, p, q);
  };
  for (; turns != 0; turns &= turns - 1) {
    const int first_n = at.first_n + (__ffs(static_cast<int>(turns)) - 1) * grid.tile.images;
    for (int i = 0; i < 2; ++i)
      for (int row = 0; row < warp.rows[i]; ++row)
        correct_pair(first_n + warp.strips[i].image, warp.p[i] + row, warp.q[i]);
  }
}

/// Where a lane's outputs of a strip go in shared memory. There an image's outputs start as far into
/// a word as in device memory: their address in elements says how far, in its lowest bits.
template <class Element>
struct PairAddress {
  uint32_t shared;  // if the image's outputs start a word
  unsigned global;  // address in elements, if the turn starts with image 0
  unsigned inside;  // a bit for each row: whether it is in the image

  __device__ __forceinline__ uint32_t of(unsigned elements_before) const {
    return shared + (global + elements_before) % Run<Element>::kWord * sizeof(Element);
  }
};

template <class Element>
__device__ __forceinline__ PairAddress<Element> pair_address(const MmaPlanesGrid& grid,
                                                             const MmaPlanesPlace& at,
                                                             const PlaneWarp& warp, int strip,
                                                             const unsigned char* outputs,
                                                             const Element* target) {
  const int image = warp.strips[strip].image;
  const int pair = (warp.channel * at.rows + warp.strips[strip].row) * grid.q + warp.q[strip];
  return {
      keep(shared_address(outputs) + image * grid.tile.output_bytes + pair * int(sizeof(Element))),
      keep(unsigned(reinterpret_cast<uintptr_t>(target) / sizeof(Element)) +
           image * unsigned(grid.image_outputs)),
      keep(low_bits(warp.rows[strip]))};
}

/// Some images of the tile, from first_n on, from shared memory to shared memory. False if an output
/// may be wrong: zeros beside the bands and in the padding make NaN of infinite factors that are not
/// its own.
template <class Element, int kTaps, bool kIsClamp>
__device__ __forceinline__ bool compute_planes(const DepthwiseArguments<Element, float>& a,
                                               const MmaPlanesGrid& grid,
                                               const BandWeights<kTaps>& weights,
                                               const float (&initial)[4], int first_n,
                                               WordAddress address,
                                               const PairAddress<Element> (&pairs)[2]) {
  const unsigned elements_before = first_n * unsigned(grid.image_outputs);
  uint32_t out[2] = {pairs[0].of(elements_before), pairs[1].of(elements_before)};
  const PairClamp<Element> clamp_pair(a.clamp);
  const int row_bytes = grid.q * int(sizeof(Element));
  Finiteness<Element> finiteness;
  convolve_rows<kTaps, MmaPlanesTile::kRows>(
      initial, grid.tile.strip_rows,
      [&] { return RowWords<Element, kTaps>(weights, address.next()); },
      [&](int row, float(&sums)[4]) {
        activate<kIsClamp>(a, sums);
#pragma unroll
        for (int i = 0; i < 2; ++i) {
          const bool is_inside = pairs[i].inside >> row & 1;
          const Pair<Element> pair = clamp_pair(pair_of<Element>(sums[2 * i], sums[2 * i + 1]));
          finiteness.add(pair);
          if (is_inside) store_shared(out[i], reinterpret_cast<const uint32_t&>(pair));
          out[i] += row_bytes;
        }
      });
  return finiteness.is_finite();
}

/// The channels' outputs of images from first_n on, from shared memory.
template <class Element>
__device__ __forceinline__ void store_planes(const MmaPlanesGrid& grid, const MmaPlanesPlace& at,
                                             Team team, unsigned char* outputs, Element* target) {
  for (int image = team.first; image < grid.tile.images; image += team.step) {
    Element* const to = target + image * grid.image_outputs;
    Run<Element>(to, at.channels * at.rows * grid.q, outputs + image * grid.tile.output_bytes)
        .store(to, team);
  }
}

template <class Element, int kTaps, bool kIsClamp>
__device__ __forceinline__ void multiply_planes_of_tile(const DepthwiseArguments<Element, float>& a,
                                                        const MmaPlanesGrid& grid) {
  const MmaPlanesTile& tile = grid.tile;
  uint4* const zeros = dynamic_shared<uint4>();
  uint4* const inputs = zeros + 1;
  unsigned char* const outputs = reinterpret_cast<unsigned char*>(inputs + 2 * grid.input_words);
  const int padding_top = static_cast<int>(a.vertical.padding);
  const auto at = MmaPlanesPlace::of<kTaps>(grid, padding_top);
  const Team team = Team::of(grid.team_threads);
  if (threadIdx.x == 0) *zeros = uint4{0, 0, 0, 0};
  if (grid.w % 8 != 0) clear_row_ends(grid, inputs);
  const auto load = [&](int n, int turn) {
    load_mma_planes(reinterpret_cast<const uint16_t*>(a.input), grid, at, team, n,
                    inputs + turn % 2 * grid.input_words);
    __pipeline_commit();
  };
  follow(false);
  load(at.first_n, 0);

  const PlaneWarp warp(grid, at);
  const BandWeights<kTaps> weights(
      reinterpret_cast<const uint16_t*>(a.filter) + warp.k * kTaps * kTaps,
      8 * tile.first_word - tile.first_column + static_cast<int>(a.horizontal.padding));
  const float bias = a.outputs.bias(warp.k);
  // Four registers, as products take it, from lanes that all have the same: as the compiler does
  // not know that, it cannot keep one and copy it for each row.
  const float initial[4] = {__shfl_sync(~0u, bias, 0), __shfl_sync(~0u, bias, 1),
                            __shfl_sync(~0u, bias, 2), __shfl_sync(~0u, bias, 3)};
  const WordAddress first_address = word_address(grid, at, zeros, inputs, warp, padding_top);
  Element* const first_target =
      a.outputs.data() + (int64_t{at.first_c} * grid.p + at.first_p) * grid.q;
  const PairAddress<Element> pairs[2] = {pair_address(grid, at, warp, 0, outputs, first_target),
                                         pair_address(grid, at, warp, 1, outputs, first_target)};

  unsigned undefined = 0;  // a bit for each turn
  for (int n = at.first_n, turn = 0; n < at.end_n; n += tile.images, ++turn) {
    __pipeline_wait_prior(0);
    __syncthreads();
    if (n + tile.images < at.end_n) load(n + tile.images, turn + 1);
    WordAddress address = first_address;
    address.row += turn % 2 * grid.input_words * 16;
    if (!compute_planes<Element, kTaps, kIsClamp>(a, grid, weights, initial, n, address, pairs))
      undefined |= 1u << turn;
    if (n + tile.images >= at.end_n) ptx::let_next_start();
    __syncthreads();
    store_planes(grid, at, team, outputs, first_target + n * grid.image_outputs);
  }
  if (__syncthreads_or(undefined != 0)) correct<kTaps>(a, grid, undefined);
}

template <class Element, int kTaps, bool kIsClamp>
__global__ void __launch_bounds__(32 * MmaPlanesTile::kMaxWarps, 5)
    depthwise_planes_mma_kernel(const __grid_constant__ DepthwiseArguments<Element, float> a,
                                const __grid_constant__ MmaPlanesGrid grid) {
  if constexpr (has_code(kIsClamp)) multiply_planes_of_tile<Element, kTaps, kIsClamp>(a, grid);
}

}  // namespace im2win::cuda
