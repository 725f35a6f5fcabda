// im2win_fma of windows of few elements, emulated, on random problems.

#include "cuda/fma_windows.hpp"

#include <cstdint>
#include <cstdlib>

#include "cuda/fma_windows/tile.hpp"
#include "dense.hpp"

namespace {

using namespace im2win;

/// As random, until it is taken.
im2win_conv2d_desc random_desc() {
  im2win_conv2d_desc desc = default_desc();
  desc.dtype = random_dtype();
  desc.n = between(1, 3);
  desc.groups = once_in(4) ? between(2, 3) : 1;
  desc.r = once_in(3) ? 1 : between(1, 6);
  desc.s = once_in(3) ? 1 : between(1, 6);
  desc.c =
      desc.groups * between(1, cuda::fma_windows::kMostTaps / static_cast<int>(desc.r * desc.s));
  desc.k = desc.groups * (once_in(2)   ? between(1, 20)
                          : once_in(4) ? between(100, 200)
                                       : 4 * between(1, 16));
  desc.h = between(1, 20);
  desc.w = once_in(2) ? between(1, 20) : 4 * between(1, 8);
  if (once_in(3)) desc.stride_h = between(1, 4), desc.stride_w = between(1, 4);
  if (once_in(4)) desc.dilation_h = between(1, 3), desc.dilation_w = between(1, 3);
  for (int64_t* padding :
       {&desc.padding_top, &desc.padding_bottom, &desc.padding_left, &desc.padding_right})
    *padding = once_in(2) ? 0 : between(0, 4);
  choose_ends(desc);
  if (once_in(8)) desc.output_layout = desc.residual_layout = IM2WIN_NHWC;
  const bool is_taken =
      has_outputs(desc) && cuda::fma_windows::refusal(make_problem(&desc)).empty();
  return is_taken ? desc : random_desc();
}

std::unique_ptr<Convolution> configure(const Problem& problem, const Target& target) {
  // Blocks of few multiprocessors have several tiles each.
  emulator::set_multiprocessors(once_in(2) ? 1 : 64);
  return cuda::configure_fma_windows(problem, target);
}

}  // namespace

/// Argument: how many problems.
int main(int argc, char** argv) {
  const int count = argc > 1 ? std::atoi(argv[1]) : 200;
  return check_all(count, random_desc, configure) ? 0 : 1;
}
