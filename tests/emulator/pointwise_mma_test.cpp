// pointwise_mma, emulated, on random problems.

#include <cstdint>
#include <cstdlib>

#include "cuda/algorithms.hpp"
#include "dense.hpp"

namespace {

using namespace im2win;

im2win_conv2d_desc random_desc() {
  im2win_conv2d_desc desc = default_desc();
  desc.dtype = random_dtype();
  desc.math = once_in(2) ? IM2WIN_MATH_TF32 : IM2WIN_MATH_FP32;
  desc.n = between(1, 5);
  desc.c = once_in(4) ? between(1, 200) : between(1, 60);
  desc.k = once_in(4) ? between(1, 300) : between(1, 70);
  desc.h = between(1, 12);
  desc.w = once_in(2) ? 4 * between(1, 8) : between(1, 30);
  desc.r = desc.s = 1;
  choose_ends(desc);
  if (once_in(2)) desc.filter_layout = IM2WIN_NHWC;
  return desc;
}

std::unique_ptr<Convolution> configure(const Problem& problem, const Target& target) {
  // Of few, warps go through several tiles; of many, filters are shared out.
  emulator::set_multiprocessors(once_in(2) ? 1 : 64);
  return cuda::configure_pointwise_mma(problem, target);
}

}  // namespace

/// Argument: how many problems.
int main(int argc, char** argv) {
  const int count = argc > 1 ? std::atoi(argv[1]) : 200;
  return check_all(count, random_desc, configure) ? 0 : 1;
}
