// im2win.hpp: what it adds to im2win.h, which the other tests cover.

#include <cmath>
#include <cstdio>
#include <im2win/im2win.hpp>
#include <string>
#include <utility>
#include <vector>

#include "expect.hpp"

template <typename Call>
static im2win_status status_of(Call call, const std::string& part_of_message) {
  try {
    call();
  } catch (const im2win::Error& error) {
    expect(std::string(error.what()).find(part_of_message) != std::string::npos, error.what());
    return error.status();
  }
  return IM2WIN_SUCCESS;
}

static im2win::Conv2dDesc ones() {
  im2win::Conv2dDesc desc;
  desc.n = 2;
  desc.c = 3;
  desc.h = desc.w = 5;
  desc.k = 4;
  desc.r = desc.s = 3;
  return desc;
}

static void check_result() {
  const std::vector<float> input(2 * 3 * 25, 1), filter(4 * 3 * 9, 2);
  std::vector<float> output(2 * 4 * 9, NAN);
  im2win::Plan moved(ones());
  const im2win::Plan plan = std::move(moved);
  expect(plan.output_shape() == std::array<std::int64_t, 4>{2, 4, 3, 3}, "the shape is N K P Q");
  const im2win::Memory workspace(IM2WIN_CPU, plan.workspace_bytes());
  im2win::Tensors tensors;
  tensors.input = input.data();
  tensors.filter = filter.data();
  tensors.output = output.data();
  plan.run(tensors, workspace.get(), workspace.bytes());
  expect(output == std::vector<float>(output.size(), 54), "27 products of 1 and 2");
}

static void check_packed() {
  const std::vector<float> input(2 * 3 * 25, 1), filter(4 * 3 * 9, 2);
  std::vector<float> output(2 * 4 * 9, NAN);
  im2win::PlanOptions options;
  options.algorithm = "im2win";
  const im2win::Plan packing(ones(), options);
  const im2win::Memory packed(IM2WIN_CPU, packing.packed_filter_bytes());
  expect(packed.bytes() > 0, "im2win packs its filter");
  packing.pack_filter(filter.data(), packed.get(), packed.bytes());
  options.packed_filter = 1;
  const im2win::Plan plan(ones(), options);
  const im2win::Memory workspace(IM2WIN_CPU, plan.workspace_bytes());
  im2win::Tensors tensors;
  tensors.input = input.data();
  tensors.filter = packed.get();
  tensors.output = output.data();
  plan.run(tensors, workspace.get(), workspace.bytes());
  expect(output == std::vector<float>(output.size(), 54), "27 products of 1 and 2, packed");
}

static void check_errors() {
  auto desc = ones();
  desc.stride_h = 0;
  expect(status_of([&] { im2win::Plan{desc}; }, "stride_h is 0") == IM2WIN_INVALID_ARGUMENT,
         "a wrong descriptor throws");
  expect(status_of([&] { im2win::describe(-2); }, "-2") == IM2WIN_INVALID_ARGUMENT,
         "a wrong device throws");
}

static void check_algorithms() {
  const auto names = im2win::algorithms(IM2WIN_CPU);
  expect(!names.empty() && names.back() == "direct", "direct is the last");
  const im2win::PlanOptions options;
  expect(!im2win::refusal(ones(), options, "direct"), "direct refuses nothing");
  const auto reason = im2win::refusal(ones(), options, "depthwise");
  expect(reason && !reason->empty(), "depthwise refuses one group, and says why");
  expect(!im2win::describe(IM2WIN_CPU).empty(), "the CPU has a name");
  expect(im2win::cuda_device_count() >= 0, "no GPU is no error");
}

static void check_memory() {
  const std::vector<int> source = {1, 2, 3};
  std::vector<int> target(3);
  im2win::Memory first(IM2WIN_CPU, sizeof(int) * source.size());
  expect(reinterpret_cast<std::uintptr_t>(first.get()) % 256 == 0, "memory is aligned");
  first.upload(source.data());
  const im2win::Memory second = std::move(first);
  second.download(target.data());
  expect(target == source, "what goes in comes out");
  expect(im2win::Memory(IM2WIN_CPU, 0).get() == nullptr, "nothing is nowhere");
}

int main() {
  check_result();
  check_packed();
  check_errors();
  check_algorithms();
  check_memory();
  return failures != 0;
}
