// Other forms of a problem, of the same tensors, which tiles of im2win_fused fit better. Each is the problem itself
// where it has no such form. Host-only.
#pragma once

#include <cstdint>

#include "problem.hpp"

namespace im2win::cuda::fused {

/// Images one below the other, where rows follow each other from image to image and no window meets two:
/// tiles then have any rows of them.
Problem with_merged_images(Problem problem);

/// All pixels of an image, perhaps of merged ones, as two rows, or as one if they are odd, where windows are single
/// pixels and rows follow each other: tiles then have any pixels, as many as they can, and a row for each warpgroup.
Problem with_merged_rows(Problem problem);

/// Images as rows of one image, whose rows follow each other, where windows are single pixels.
Problem with_images_as_rows(Problem problem);

/// Columns of a window's step as channels of one, where channels are neighbours and windows whole steps: a window then
/// meets its neighbour's next column, or none.
Problem with_columns_as_channels(Problem problem);

/// Rows of a window's step side by side as one, where windows are as high as that and a column wide: taps are a row's
/// width apart, and no window meets two rows.
Problem with_rows_as_columns(Problem problem);

/// Of planes: columns of a window's step as channels, its rows side by side as one, and its channels' rows below each
/// other, where columns are neighbours and windows their steps: each tap is a row of the window, whose elements are
/// neighbours.
Problem with_planes_as_rows(Problem problem);

/// Groups side by side as one, of at most so many filters, whose filters are zero outside their own channels
/// (see has_merged_groups): products have tiles of filters, most of which would be none of a small group's.
Problem with_merged_groups(Problem problem, int64_t filters);

}  // namespace im2win::cuda::fused
