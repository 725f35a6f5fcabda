// grouped, emulated, on random problems.

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <iterator>
#include <numeric>

#include "cuda/algorithms.hpp"
#include "dense.hpp"

namespace {

using namespace im2win;

struct Group {
  int64_t channels, filters;
};

/// As random, until it is taken.
im2win_conv2d_desc random_desc() {
  constexpr Group kGroups[] = {{4, 4},  {8, 8}, {16, 16}, {32, 32}, {24, 24}, {8, 16},
                               {16, 8}, {4, 8}, {8, 4},   {2, 2},   {12, 12}, {32, 8},
                               {1, 2},  {6, 6}, {24, 8},  {8, 32},  {16, 24}};
  im2win_conv2d_desc desc = default_desc();
  const Group group = kGroups[between(0, once_in(2) ? 4 : int64_t{std::size(kGroups)} - 1)];
  desc.dtype = once_in(2) ? IM2WIN_FLOAT16 : IM2WIN_BFLOAT16;
  desc.n = between(1, 3);
  // Sets are whole where channels may be words, and the last one is not, elsewhere.
  const int64_t set =
      8 / std::min(std::gcd(group.channels, int64_t{8}), std::gcd(group.filters, int64_t{8}));
  desc.groups = once_in(2) ? between(2, 9) * set : between(2, 9 * set);
  desc.c = desc.groups * group.channels;
  desc.k = desc.groups * group.filters;
  desc.h = between(1, 20);
  desc.w = once_in(2) ? between(1, 12) : between(1, 40);
  desc.r = once_in(2) ? 3 : between(1, 5);
  desc.s = once_in(2) ? 3 : between(1, 5);
  if (once_in(3)) desc.stride_h = between(1, 3), desc.stride_w = between(1, 3);
  if (once_in(4)) desc.dilation_h = between(1, 3), desc.dilation_w = between(1, 3);
  for (int64_t* padding :
       {&desc.padding_top, &desc.padding_bottom, &desc.padding_left, &desc.padding_right})
    *padding = once_in(3) ? 0 : between(0, 3);
  choose_ends(desc);
  for (int32_t* layout : {&desc.input_layout, &desc.output_layout, &desc.filter_layout})
    *layout = once_in(2) ? IM2WIN_NCHW : IM2WIN_NHWC;
  desc.residual_layout = desc.output_layout;
  if (desc.bias_dtype != IM2WIN_NONE) desc.bias_dtype = desc.dtype;
  return has_outputs(desc) && cuda::refuse_grouped(make_problem(&desc)).empty() ? desc
                                                                                : random_desc();
}

std::unique_ptr<Convolution> configure(const Problem& problem, const Target& target) {
  // Of few, blocks go through several boxes.
  emulator::set_multiprocessors(once_in(2) ? 1 : 64);
  return cuda::configure_grouped(problem, target);
}

}  // namespace

/// Argument: how many problems.
int main(int argc, char** argv) {
  const int count = argc > 1 ? std::atoi(argv[1]) : 100;
  return check_all(count, random_desc, configure) ? 0 : 1;
}
