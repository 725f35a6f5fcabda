// The points of Winograd's F(2, 3), F(2, 2) and F(2, 1), for kernels too: no functions, which the linker might give
// to others as one instruction set has them.
//
//   taps   points    products for two outputs
//   3      0 1 2 3   4 for 6
//   2      0 1 3     3 for 4
//   1      0 3       2 for 2
#pragma once

namespace im2win::cpu {

constexpr int kAxisPoints = 4;
constexpr int kWinogradPoints = kAxisPoints * kAxisPoints;  // of a tile of 2 x 2 outputs
constexpr int kMostPieceTaps = 3;

/// [taps - 1][point]
constexpr bool kHasPoint[kMostPieceTaps][kAxisPoints] = {
    {true, false, false, true}, {true, true, false, true}, {true, true, true, true}};

}  // namespace im2win::cpu
