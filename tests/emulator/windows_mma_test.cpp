// windows_mma, emulated, on random problems.

#include <cstdint>
#include <cstdlib>

#include "cuda/algorithms.hpp"
#include "dense.hpp"

namespace {

using namespace im2win;

im2win_conv2d_desc random_desc() {
  im2win_conv2d_desc desc = default_desc();
  desc.dtype = once_in(2) ? IM2WIN_FLOAT16 : IM2WIN_BFLOAT16;
  desc.n = between(1, 4);
  desc.c = once_in(2) ? 4 * between(1, 6) : between(1, 20);
  desc.k = once_in(4) ? between(1, 200) : between(1, 70);
  desc.h = between(1, 16);
  desc.w = between(1, 20);
  desc.r = between(1, 4);
  desc.s = between(1, 4);
  desc.stride_h = between(1, 3);
  desc.stride_w = between(1, 3);
  desc.dilation_h = once_in(3) ? between(1, 3) : 1;
  desc.dilation_w = once_in(3) ? between(1, 3) : 1;
  desc.padding_top = between(0, 3);
  desc.padding_bottom = between(0, 3);
  desc.padding_left = between(0, 3);
  desc.padding_right = between(0, 3);
  choose_ends(desc);
  desc.input_layout = desc.output_layout = desc.residual_layout = IM2WIN_NHWC;
  if (once_in(2)) desc.filter_layout = IM2WIN_NHWC;
  return desc;
}

std::unique_ptr<Convolution> configure(const Problem& problem, const Target& target) {
  // Of few, warps go through several tiles; of many, filters are shared out.
  emulator::set_multiprocessors(once_in(2) ? 1 : 64);
  return cuda::configure_windows_mma(problem, target);
}

}  // namespace

/// Argument: how many problems.
int main(int argc, char** argv) {
  const int count = argc > 1 ? std::atoi(argv[1]) : 200;
  return check_all(count, random_desc, configure) ? 0 : 1;
}
