// The tiles of Algorithm 3 and the choice among them. Plain host code: it can be printed and tested
// without a GPU.
#pragma once

#include <cstdint>
#include <string>

#include "problem.hpp"

namespace im2win::cuda {

/// Algorithm 3 whole, and with one of its techniques left out: the paper's ablation.
enum class Im2winVariant { kFull, kNoPrefetch, kNoVector, kNoMicrokernel };

/// One block computes M_B filters by N_B pixels, K_B taps at a time; one of its threads M_T by N_T.
struct Im2winTile {
  int filters;        // M_B
  int pixels;         // N_B
  int taps;           // K_B
  int micro_filters;  // M_T
  int micro_pixels;   // N_T
  int vector;         // neighbours that a thread owns and loads from shared memory as one word
  bool prefetch;      // two buffers, of which one is loaded while the other is multiplied
  int blocks;         // that a multiprocessor holds at once: it bounds the registers

  constexpr int threads() const { return filters / micro_filters * (pixels / micro_pixels); }
};

inline constexpr Im2winTile kIm2winTiles[] = {
    {128, 128, 8, 16, 8, 4, true, 2},  //
    {96, 128, 8, 12, 8, 4, true, 2},   //
    {64, 128, 8, 16, 8, 4, true, 4},   //
    {64, 64, 8, 8, 8, 4, true, 6},     //
    {32, 128, 8, 8, 8, 4, true, 5},
};
inline constexpr int kIm2winTileCount = sizeof kIm2winTiles / sizeof kIm2winTiles[0];

/// The most pixels of any tile, and a multiple of every tile's taps.
inline constexpr int kIm2winMaxPixels = 128;
inline constexpr int kIm2winTapMultiple = 32;

/// The tile `index` in the variant. Without a micro-kernel there is one tile, whatever the index.
constexpr Im2winTile im2win_tile(int index, Im2winVariant variant) {
  Im2winTile tile = kIm2winTiles[index];
  switch (variant) {
    case Im2winVariant::kFull: break;
    case Im2winVariant::kNoPrefetch: tile.prefetch = false; break;
    case Im2winVariant::kNoVector: tile.vector = 1; break;
    case Im2winVariant::kNoMicrokernel: tile = {32, 32, 32, 1, 1, 1, true, 1}; break;
  }
  return tile;
}

/// The time that the problem takes with the tile, in issue slots of a multiprocessor's schedulers.
double im2win_tile_cost(const Im2winTile& tile, const Problem& problem, int multiprocessors);

/// The index of the cheapest tile.
int choose_im2win_tile(const Problem& problem, int multiprocessors);

/// Whether float32 is better multiplied by im2win's FMAs than by im2win_fused, which splits every
/// element that it brings: for 1x1 filters that read the input in place, where few filters share a
/// split element. Of 16 layers on an H200 of four or more channels for each filter and 2^16 pixels it is true of six, for
/// which im2win_fused takes 1.12 to 1.33 times as long, and of the others of none, which take im2win 1.08 to 1.8 times
/// as long.
bool is_for_fmas(const Problem& problem);

/// Such as "128x128x8, 8x8 a thread".
std::string im2win_tile_text(const Im2winTile& tile);

}  // namespace im2win::cuda
