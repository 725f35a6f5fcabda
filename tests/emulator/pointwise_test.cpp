// pointwise, emulated, on random problems.

#include <cstdint>
#include <cstdlib>

#include "cuda/algorithms.hpp"
#include "dense.hpp"

namespace {

using namespace im2win;

im2win_conv2d_desc random_desc() {
  im2win_conv2d_desc desc = default_desc();
  desc.n = between(1, 3);
  desc.c = once_in(2) ? 8 * between(1, 40) : once_in(2) ? 2 * between(1, 80) : between(1, 100);
  desc.k = once_in(2) ? 8 * between(1, 40) : once_in(2) ? between(1, 300) : between(1, 20);
  desc.h = between(1, 12);
  desc.w = between(1, 30);
  desc.r = desc.s = 1;
  choose_ends(desc);
  desc.input_layout = desc.output_layout = desc.residual_layout = IM2WIN_NHWC;
  desc.dtype = once_in(2) ? IM2WIN_FLOAT16 : IM2WIN_BFLOAT16;
  if (desc.bias_dtype != IM2WIN_NONE) desc.bias_dtype = desc.dtype;
  return desc;
}

}  // namespace

/// Argument: how many problems.
int main(int argc, char** argv) {
  const int count = argc > 1 ? std::atoi(argv[1]) : 100;
  emulator::set_multiprocessors(5);
  return check_all(count, random_desc, cuda::configure_pointwise) ? 0 : 1;
}
