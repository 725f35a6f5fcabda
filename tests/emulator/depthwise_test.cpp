// depthwise, emulated, on random problems: its kernels for dense tensors, by FMAs and by tensor cores, and for any.

#include <algorithm>
#include <cstdint>
#include <cstdlib>

#include "cuda/algorithms.hpp"
#include "dense.hpp"

namespace {

using namespace im2win;

im2win_conv2d_desc random_desc() {
  im2win_conv2d_desc desc = default_desc();
  desc.dtype = once_in(10) ? int32_t{IM2WIN_FLOAT64} : random_dtype();
  desc.n = once_in(2) ? between(8, 50) : between(1, 3);
  desc.c = desc.k = desc.groups = once_in(3) ? between(1, 80) : 8 * between(1, 10);
  desc.h = once_in(2) ? between(1, 8) : between(9, 40);
  desc.w = once_in(2) ? between(1, 9) : between(10, 33);
  desc.r = desc.s = 3 + 2 * between(0, 2);
  desc.stride_h = desc.stride_w = between(1, 2);
  if (once_in(3)) {
    desc.r = between(1, 11), desc.s = between(1, 17);
    desc.stride_h = between(1, 3), desc.stride_w = between(1, 3);
    desc.dilation_h = between(1, 4), desc.dilation_w = between(1, 4);
  }
  if (once_in(4)) {
    desc.stride_h = desc.stride_w = 1;
    desc.dilation_h = between(1, 5), desc.dilation_w = between(1, 5);
  }
  const int64_t most = between(0, std::max<int64_t>(4, desc.r / 2 * desc.dilation_h));
  for (int64_t* padding :
       {&desc.padding_top, &desc.padding_bottom, &desc.padding_left, &desc.padding_right})
    *padding = between(0, most);
  choose_ends(desc);
  if (once_in(3)) {
    const im2win_activation some[] = {IM2WIN_SILU, IM2WIN_HARDSWISH, IM2WIN_LEAKY_RELU};
    desc.activation = some[between(0, 2)];
    desc.activation_params[0] = 0.25;
  }
  return desc;
}

}  // namespace

/// Argument: how many problems.
int main(int argc, char** argv) {
  const int count = argc > 1 ? std::atoi(argv[1]) : 300;
  return check_all(count, random_desc, cuda::configure_depthwise) ? 0 : 1;
}
