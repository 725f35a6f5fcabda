// The slabs that a block stages and multiplies, tile after tile: all of a tile's, or, where a cluster shares
// them out, neighbouring ones.
#pragma once

#include <cstdint>

#include "cuda/fused/arguments.cuh"
#include "cuda/fused/shared.hpp"
#include "cuda/fused/tile.hpp"

namespace im2win::cuda::fused {

/// A cluster's blocks are neighbours, and have one tile.
__device__ __forceinline__ int32_t first_tile(const Tile& tile) {
  return static_cast<int32_t>(blockIdx.x >> tile.cluster_bits);
}
__device__ __forceinline__ int32_t block_of_cluster(const Tile& tile) {
  return static_cast<int32_t>(blockIdx.x) & (tile.cluster_blocks() - 1);
}

/// A block's slabs of a tile, counted tap group by tap group.
__device__ __forceinline__ int32_t first_slab(const Tile& tile) {
  return tile.first_slab(block_of_cluster(tile));
}
__device__ __forceinline__ int32_t end_slab(const Tile& tile) {
  return tile.first_slab(block_of_cluster(tile) + 1);
}

/// Where a block is among its slabs of a tile.
struct SlabShare {
  int tap_group = 0, chunk = 0;
  int left;                  // from this slab on
  bool enters_group = true;  // whether it is the block's first of its tap group

  __device__ __forceinline__ explicit SlabShare(const Tile& tile)
      : left(end_slab(tile) - first_slab(tile)) {
    if (tile.cluster_bits == 0) return;
    tap_group = first_slab(tile) / tile.chunks;
    chunk = first_slab(tile) % tile.chunks;
  }
  __device__ __forceinline__ void advance(const Tile& tile) {
    --left;
    enters_group = ++chunk == tile.chunks;
    if (!enters_group) return;
    chunk = 0;
    ++tap_group;
  }

  /// Those of its tap group, from this one on; and what is after them.
  __device__ __forceinline__ int of_group(const Tile& tile) const {
    return min(left, tile.chunks - chunk);
  }
  __device__ __forceinline__ void leave_group(const Tile& tile) {
    left -= of_group(tile);
    chunk = 0;
    ++tap_group;
  }
};

/// The slabs of a block, in the order of staging.
template <class Element>
struct SlabWalk {
  int32_t number;  // of the tile
  SlabShare slab;
  TilePosition tile{};

  __device__ __forceinline__ explicit SlabWalk(const Arguments<Element>& a)
      : number(first_tile(a.tile)), slab(a.tile) {
    if (!ended(a)) tile = locate(a, number);
  }
  __device__ __forceinline__ bool ended(const Arguments<Element>& a) const {
    return number >= a.tiles;
  }
  __device__ __forceinline__ void advance(const Arguments<Element>& a) {
    slab.advance(a.tile);
    if (slab.left == 0) enter_next_tile(a);
  }
  /// To the next tap group.
  __device__ __forceinline__ void leave_group(const Arguments<Element>& a) {
    slab.leave_group(a.tile);
    if (slab.left == 0) enter_next_tile(a);
  }

 private:
  __device__ __forceinline__ void enter_next_tile(const Arguments<Element>& a) {
    number += static_cast<int32_t>(gridDim.x);
    slab = SlabShare(a.tile);
    if (!ended(a)) tile = locate(a, number);
  }
};

}  // namespace im2win::cuda::fused
