// Algorithm 3 of the paper: the product of packed filters with the windows of an im2win tensor, by
// block tiles in shared memory and a micro-kernel in registers.
#pragma once

#include <cstdint>
#include <utility>

#include "cuda/im2win/block.cuh"
#include "cuda/im2win/loader.cuh"
#include "cuda/im2win/microkernel.cuh"
#include "cuda/im2win/tile.hpp"
#include "cuda/im2win/writer.cuh"
#include "cuda/launch.cuh"

namespace im2win::cuda {

/// The main loop with two buffers: while a tile is multiplied, the next is on its way to registers,
/// and while a tap is multiplied, the next one's fragments are.
template <class T>
__device__ __forceinline__ void multiply_with_prefetch(Loader<T>& loader, MicroKernel<T>& micro,
                                                       Tiles<T> (&tiles)[2], int count) {
  Fragments<T> fragments[2];
  loader.fetch();
  loader.commit(tiles[0]);
  __syncthreads();
  micro.load(fragments[0], tiles[0], 0);
  int current = 0;
#pragma unroll 1
  for (int tile = 0; tile < count; ++tile) {
    const bool has_next = tile + 1 < count;
    if (has_next) loader.fetch();
#pragma unroll
    for (int tap = 0; tap < T::kK; ++tap) {
      if (tap + 1 < T::kK) {
        micro.load(fragments[(tap + 1) % 2], tiles[current], tap + 1);
      } else if (has_next) {
        // Every warp has passed the last barrier, so none reads the other buffer any more.
        current ^= 1;
        loader.commit(tiles[current]);
        __syncthreads();
        micro.load(fragments[0], tiles[current], 0);
      }
      micro.multiply(fragments[tap % 2]);
    }
  }
  __syncthreads();
}

/// The ablation: one buffer, and every step waits for the one before.
template <class T>
__device__ __forceinline__ void multiply_in_turn(Loader<T>& loader, MicroKernel<T>& micro,
                                                 Tiles<T> (&tiles)[1], int count) {
#pragma unroll 1
  for (int tile = 0; tile < count; ++tile) {
    loader.fetch();
    loader.commit(tiles[0]);
    __syncthreads();
#pragma unroll
    for (int tap = 0; tap < T::kK; ++tap) {
      Fragments<T> fragments;
      micro.load(fragments, tiles[0], tap);
      micro.multiply(fragments);
    }
    __syncthreads();
  }
}

template <class T>
__global__ void __launch_bounds__(T::kThreads, T::kTile.blocks)
    im2win_kernel(const __grid_constant__ Im2winArguments a) {
  __shared__ Shared<T> shared;
  const int64_t number = block_index();
  if (number >= a.blocks) return;
  const BlockPosition block = BlockPosition::of<T>(a, number);

  // Pixels past the last read the last one's windows; their outputs are not stored.
  const WindowLayout& layout = a.exact.layout;
  const int64_t image = PixelPosition::of(a, block.first_pixel).image(layout);
  for (int i = threadIdx.x; i < T::kN; i += T::kThreads) {
    const int64_t pixel = min(block.first_pixel + i, a.pixels - 1);
    shared.pixels[i] = static_cast<uint32_t>(PixelPosition::of(a, pixel).base(layout) - image);
  }
  __syncthreads();

  Loader<T> loader(a, block, shared.pixels);
  MicroKernel<T> micro;
  const int tiles = (a.taps + T::kK - 1) / T::kK;
  if constexpr (T::kTile.prefetch) {
    multiply_with_prefetch(loader, micro, shared.tiles, tiles);
  } else {
    multiply_in_turn(loader, micro, shared.tiles, tiles);
  }
  Writer<T>(a, block, micro).write(shared.outputs[threadIdx.x / 32]);
}

/// The kernels of a variant, by the index of the tile.
template <Im2winVariant kVariant, int... kIndices>
Im2winKernel im2win_kernels(int index, std::integer_sequence<int, kIndices...>) {
  static constexpr Im2winKernel kKernels[] = {im2win_kernel<BlockTile<kIndices, kVariant>>...};
  return kKernels[index];
}

template <Im2winVariant kVariant>
Im2winKernel im2win_kernels(int index) {
  return im2win_kernels<kVariant>(index, std::make_integer_sequence<int, kIm2winTileCount>());
}

/// Those of any variant but the whole algorithm.
Im2winKernel ablated_im2win_kernel(int index, Im2winVariant variant);

}  // namespace im2win::cuda
