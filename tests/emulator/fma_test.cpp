// im2win_fma, emulated, on random problems.

#include <cstdint>
#include <cstdlib>

#include "cuda/algorithms.hpp"
#include "dense.hpp"

namespace {

using namespace im2win;

im2win_conv2d_desc random_desc() {
  im2win_conv2d_desc desc = default_desc();
  desc.dtype = random_dtype();
  desc.n = between(1, 3);
  desc.groups = once_in(4) ? between(2, 3) : 1;
  desc.c = desc.groups * (once_in(2) ? between(1, 9) : 8 * between(1, 5));
  desc.k = desc.groups * (once_in(4) ? between(5, 20) : between(1, 4));
  desc.h = once_in(2) ? between(1, 9) : between(10, 40);
  desc.w = once_in(2) ? between(1, 9) : between(10, 150);
  desc.r = once_in(3) ? 1 : between(1, 7);
  desc.s = once_in(3) ? 1 : between(1, 11);
  if (once_in(3)) desc.stride_h = between(1, 4), desc.stride_w = between(1, 4);
  if (once_in(4)) desc.dilation_h = between(1, 3);
  for (int64_t* padding :
       {&desc.padding_top, &desc.padding_bottom, &desc.padding_left, &desc.padding_right})
    *padding = once_in(2) ? 0 : between(0, 4);
  choose_ends(desc);
  return desc;
}

}  // namespace

/// Argument: how many problems.
int main(int argc, char** argv) {
  const int count = argc > 1 ? std::atoi(argv[1]) : 300;
  return check_all(count, random_desc, cuda::configure_fma) ? 0 : 1;
}
