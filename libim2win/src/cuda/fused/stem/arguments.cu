#include <algorithm>

#include "cuda/fused/raw_lines.hpp"
#include "cuda/fused/stem/arguments.cuh"

namespace im2win::cuda::fused::stem {
namespace {

Lines lines_of(const Problem& problem) {
  const int64_t elements = raw_column_elements(problem);
  return {Divisor(elements == 1 ? problem.c_per_group() : 1), static_cast<int32_t>(elements)};
}

bool has_sectors(const Problem& problem) {
  constexpr int64_t kPixels = 8;
  const Tensor& output = problem.output;
  for (int dimension = 0; dimension < 3; ++dimension)
    if (output.size[dimension] > 1 && output.stride[dimension] % kPixels != 0) return false;
  return problem.q % kPixels == 0 && output.stride[3] == 1;
}

}  // namespace

template <class Element>
Arguments<Element>::Arguments(const Problem& problem, const StemChoice& choice,
                              const KernelShape& shape, Operands operands, int64_t blocks)
    : fused::Arguments<Element>(problem, choice.tile, shape, operands),
      bands(choice.bands),
      band_positions(bands.positions),
      band_channels(problem.c_per_group()),
      lines(lines_of(problem)),
      writes_sectors(has_sectors(problem)),
      sets(choice.sets),
      filter_sets(problem.groups * this->filter_tiles.divisor / sets),
      group_sets(this->filter_tiles.divisor / sets),
      row_chunks(bands.chunks),
      row_pieces(bands.chunks * sets) {
  const auto set_tiles = static_cast<int32_t>(this->tiles / filter_sets.divisor / sets);
  set_blocks =
      static_cast<int32_t>(std::clamp<int64_t>(blocks / filter_sets.divisor, 1, set_tiles));
  block_tiles = set_tiles / set_blocks;
  more_tiles = set_tiles % set_blocks;
  this->shared = stem_layout(choice, shape, operands);
}

template struct Arguments<__half>;
template struct Arguments<__nv_bfloat16>;
template struct Arguments<float>;

}  // namespace im2win::cuda::fused::stem
