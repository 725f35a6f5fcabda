// What kernels of im2win_stem are compiled for, to choose from.
#pragma once

#include "cuda/fused/stem/tile.hpp"

namespace im2win::cuda::fused::stem {

/// Rows of 224 pixels, or theirs at strides of 2 and 4, are whole multiples of these.
constexpr KernelShape kNarrow = {.filters = 64,
                                 .columns = 56,
                                 .staging_warpgroups = 1,
                                 .multiplying_warpgroups = kMostWarpgroups};
constexpr KernelShape kWide = {.filters = 64,
                               .columns = 112,
                               .staging_warpgroups = 1,
                               .multiplying_warpgroups = kMostWarpgroups};
/// Of TF32 there is twice as much to stage for a product, by as many warpgroups as multiply.
constexpr KernelShape kWideTf32 = {
    .filters = 64, .columns = 112, .staging_warpgroups = 2, .multiplying_warpgroups = 2};
/// Whose bands are staged anew for each row, or run, and need few products.
constexpr KernelShape kDense = {.filters = 64,
                                .columns = 112,
                                .staging_warpgroups = 2,
                                .multiplying_warpgroups = 2,
                                .dense = true};
/// One has time to stage rows that come as they lie; a third multiplies.
constexpr KernelShape kDenseRaw = {.filters = 64,
                                   .columns = 112,
                                   .staging_warpgroups = 1,
                                   .multiplying_warpgroups = kMostWarpgroups,
                                   .dense = true};
constexpr KernelShape kDenseRuns = {.filters = 64,
                                    .columns = 112,
                                    .staging_warpgroups = 2,
                                    .multiplying_warpgroups = 2,
                                    .dense = true,
                                    .runs = true};
/// Of 16 bits there is room, and time to stage, for a third warpgroup that multiplies.
constexpr KernelShape kDenseRunsHalves = {.filters = 64,
                                          .columns = 112,
                                          .staging_warpgroups = 2,
                                          .multiplying_warpgroups = kMostWarpgroups,
                                          .dense = true,
                                          .runs = true};
/// 96 filters, which have a third of other products' rows in vain. Of 32 bits, two warpgroups: split operands take
/// the registers of a third, TF32's filters the room for its patch.
constexpr KernelShape kPixelMajor = {.filters = 96,
                                     .columns = 64,
                                     .staging_warpgroups = 1,
                                     .multiplying_warpgroups = 2,
                                     .pixel_major = true};
constexpr KernelShape kPixelMajorHalves = {.filters = 96,
                                           .columns = 64,
                                           .staging_warpgroups = 1,
                                           .multiplying_warpgroups = kMostWarpgroups,
                                           .pixel_major = true};

}  // namespace im2win::cuda::fused::stem
