// The C ABI under libFuzzer: any descriptor, options and pointers, on the CPU. Wrong ones get a
// status and a message and change nothing; legal ones that are small run, and their results are
// compared with a float64 reference. AddressSanitizer and UndefinedBehaviorSanitizer see the rest.

#include <algorithm>
#include <cstdlib>
#include <cstring>

#include "call.hpp"
#include "expect.hpp"
#include "reference.hpp"
#include "run.hpp"
#include "tensor.hpp"

namespace fuzz {
namespace {

constexpr int64_t kMostWorkspaceBytes = 1 << 24;
constexpr double kMostProducts = 1 << 18;
constexpr int32_t kMostThreads = 1024;

bool are_legal(const im2win_plan_options& options, const char* isa) {
  return options.struct_size == sizeof options && options.device == IM2WIN_CPU &&
         options.threads >= 0 && options.threads <= kMostThreads &&
         (options.packed_filter == 0 || options.packed_filter == 1) && std::strcmp(isa, "mmx") != 0;
}

/// What a legal call without a name, or with one, may get.
void check_choice(const Call& call, im2win_status status) {
  const char* named = call.options.algorithm;
  if (named == nullptr) expect(status == IM2WIN_SUCCESS, "every legal problem has an algorithm");
  for (const char* name : {"direct", "im2win", "depthwise"}) {
    const im2win_status support = im2win_conv2d_supports(&call.desc, &call.options, name);
    expect(support == IM2WIN_SUCCESS || support == IM2WIN_UNSUPPORTED,
           "legal problems are taken or refused");
    if (named != nullptr && std::strcmp(name, named) == 0)
      expect(
          status == support || (support == IM2WIN_SUCCESS && status == IM2WIN_WORKSPACE_TOO_SMALL),
          "a supported algorithm has a plan, if its workspace may be as large as it has to");
  }
}

/// Of any call; NULL where it is wrong.
im2win_plan* create_plan(const Call& call, bool is_desc_legal) {
  im2win_plan* plan = nullptr;
  const im2win_status status = im2win_plan_create(&call.desc, &call.options, &plan);
  expect_message(status);
  expect((status == IM2WIN_SUCCESS) == (plan != nullptr), "a plan comes with success, only");
  if (!is_desc_legal) expect(plan == nullptr, "what has no output size has no plan");
  if (is_desc_legal && are_legal(call.options, call.isa)) check_choice(call, status);
  return plan;
}

Sizes query(const Call& call, const im2win_plan* plan) {
  Sizes sizes{};
  const char* name = nullptr;
  expect(im2win_plan_output_shape(plan, sizes.output) == IM2WIN_SUCCESS, "a plan has a shape");
  expect(im2win_plan_workspace_bytes(plan, &sizes.workspace) == IM2WIN_SUCCESS, "and a workspace");
  expect(im2win_plan_packed_filter_bytes(plan, &sizes.packed) == IM2WIN_SUCCESS, "and a filter");
  expect(im2win_plan_algorithm(plan, &name) == IM2WIN_SUCCESS && name != nullptr, "and a name");
  expect(sizes.workspace <= call.options.workspace_limit_bytes, "the limit is kept");
  expect(static_cast<int64_t>(sizes.workspace) >= 0, "sizes fit");
  return sizes;
}

/// Whether it is worth its time to run.
bool is_small(const Call& call, const Sizes& sizes) {
  const im2win_conv2d_desc& d = call.desc;
  double products = static_cast<double>(d.c) / static_cast<double>(d.groups);
  for (int64_t size :
       {sizes.output[0], sizes.output[1], sizes.output[2], sizes.output[3], d.r, d.s})
    products *= static_cast<double>(std::max<int64_t>(size, 1));
  double inputs = 1;
  for (int64_t size : {d.n, d.c, d.h, d.w})
    inputs *= static_cast<double>(std::max<int64_t>(size, 1));
  return products <= kMostProducts && inputs <= kMostProducts &&
         sizes.workspace + sizes.packed <= kMostWorkspaceBytes;
}

void transform(const Call& call) {
  const im2win_conv2d_desc& d = call.desc;
  size_t bytes = 0;
  const im2win_status status = im2win_transform_bytes(&d, &bytes);
  expect_message(status);
  if (status != IM2WIN_SUCCESS) return;
  if (d.n == 0)
    return expect(im2win_transform(&d, IM2WIN_CPU, nullptr, nullptr, 0, nullptr) == IM2WIN_SUCCESS,
                  "an empty batch is done at once");
  const Shape input({d.n, d.c, d.h, d.w}, d.input_layout, d.input_strides);
  if (bytes > kMostBytes || d.h > kMostBytes || d.w > kMostBytes || !is_small(input)) return;
  const int64_t p =
      (d.h + d.padding_top + d.padding_bottom - d.dilation_h * (d.r - 1) - 1) / d.stride_h + 1;
  const int64_t columns = (d.padding_left + d.w + d.padding_right) * d.r;
  Tensor source(input, d.dtype, call.shift);
  Tensor target({{d.n, d.c, p, columns}, IM2WIN_NCHW, {0, 0, 0, 0}}, d.dtype, call.shift);
  expect(target.memory().size() == static_cast<int64_t>(bytes), "the im2win tensor has its size");
  source.fill(call.data_seed, call.is_special);
  if (bytes > 0) {
    const im2win_status refusal =
        im2win_transform(&d, IM2WIN_CPU, source.pointer(), target.pointer(), bytes - 1, nullptr);
    expect(refusal == IM2WIN_INVALID_ARGUMENT, "it needs all its bytes");
    expect(target.memory().is_untouched(), "and none is written else");
  }
  expect(im2win_transform(&d, IM2WIN_CPU, source.pointer(), target.pointer(), bytes, nullptr) ==
             IM2WIN_SUCCESS,
         "a legal input is transformed");
  expect(is_transformed(d, source, target), "the transform is right");
  expect(target.are_gaps_untouched(), "nothing is written before it");
}

void fuzz_one(Bytes bytes) {
  Call call(bytes);
  setenv("IM2WIN_CPU_ISA", call.isa, 1);
  if (call.is_in_place) {
    call.desc.residual_layout = call.desc.output_layout;
    std::copy_n(call.desc.output_strides, 4, call.desc.residual_strides);
  }
  int64_t p = 0;
  int64_t q = 0;
  const im2win_status legality = im2win_conv2d_output_size(&call.desc, &p, &q);
  expect_message(legality);
  if (im2win_plan* plan = create_plan(call, legality == IM2WIN_SUCCESS)) {
    const Sizes sizes = query(call, plan);
    expect(sizes.output[2] == p && sizes.output[3] == q, "there is one output size");
    if (is_small(call, sizes)) {
      run(call, plan, sizes);
    } else {
      run_on_nothing(call, plan);
    }
    im2win_plan_destroy(plan);
  }
  transform(call);
}

}  // namespace
}  // namespace fuzz

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  fuzz::fuzz_one(fuzz::Bytes(data, size));
  return 0;
}
