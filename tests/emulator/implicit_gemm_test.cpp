// implicit_gemm_tiled in float32, TF32 and with 16 bits, emulated, on random problems.

#include <cstdint>
#include <cstdlib>

#include "cuda/implicit_gemm/split_k.hpp"
#include "dense.hpp"

namespace {

using namespace im2win;

im2win_conv2d_desc random_desc() {
  im2win_conv2d_desc desc = default_desc();
  desc.dtype = once_in(2) ? IM2WIN_FLOAT32 : once_in(2) ? IM2WIN_FLOAT16 : IM2WIN_BFLOAT16;
  desc.math = desc.dtype == IM2WIN_FLOAT32 && once_in(2) ? IM2WIN_MATH_TF32 : IM2WIN_MATH_FP32;
  desc.n = between(1, 3);
  desc.groups = once_in(4) ? between(2, 3) : 1;
  desc.c = desc.groups * (once_in(2) ? between(1, 9) : 4 * between(1, 12));
  desc.k = desc.groups * (once_in(2) ? between(1, 20) : between(1, 70));
  desc.h = between(1, 12);
  desc.w = once_in(2) ? between(1, 12) : 4 * between(1, 6);
  desc.r = once_in(2) ? 1 : between(1, 5);
  desc.s = once_in(2) ? 1 : between(1, 5);
  if (once_in(3)) desc.stride_h = between(1, 4), desc.stride_w = between(1, 4);
  if (once_in(4)) desc.dilation_h = between(1, 3), desc.dilation_w = between(1, 3);
  for (int64_t* padding :
       {&desc.padding_top, &desc.padding_bottom, &desc.padding_left, &desc.padding_right})
    *padding = once_in(2) ? 0 : between(0, 4);
  choose_ends(desc);
  if (desc.bias_dtype != IM2WIN_NONE) desc.bias_dtype = desc.dtype;
  return desc;
}

std::unique_ptr<Convolution> configure(const Problem& problem, const Target& target) {
  // Of few, tiles are large; of many, shared out.
  emulator::set_multiprocessors(once_in(2) ? 1 : 64);
  return cuda::implicit_gemm::configure_split_k(problem, target);
}

}  // namespace

/// Argument: how many problems.
int main(int argc, char** argv) {
  const int count = argc > 1 ? std::atoi(argv[1]) : 200;
  return check_all(count, random_desc, configure) ? 0 : 1;
}
