// Every allocation of a call fails once: the first, then the second, and so on until the call gets
// through. Each time it gives its status and text, writes nothing, and leaves nothing behind.
//
// OpenMP is warmed up first, as GNU's ends the process where it cannot allocate a team of threads.

#include <im2win/im2win.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <iterator>

namespace {

// Of the thread under test: OpenMP's others do not allocate for us.
thread_local int64_t allocations_until_failure = -1;  // negative: none is to come
thread_local int64_t blocks = 0;                      // in use

bool fails() {
  if (allocations_until_failure < 0) return false;
  return allocations_until_failure-- == 0;
}

void* counted(void* block) {
  blocks += block != nullptr;
  return block;
}

void* refused() {
  errno = ENOMEM;
  return nullptr;
}

}  // namespace

extern "C" {
void* __libc_malloc(size_t size);
void* __libc_calloc(size_t count, size_t size);
void* __libc_memalign(size_t alignment, size_t size);
void __libc_free(void* block);

void* malloc(size_t size) { return fails() ? refused() : counted(__libc_malloc(size)); }
void* calloc(size_t count, size_t size) {
  return fails() ? refused() : counted(__libc_calloc(count, size));
}
void* aligned_alloc(size_t alignment, size_t size) {
  return fails() ? refused() : counted(__libc_memalign(alignment, size));
}
void free(void* block) {
  blocks -= block != nullptr;
  __libc_free(block);
}
}

namespace {

int failures = 0;

void expect(bool condition, const char* call, const char* what) {
  if (condition) return;
  ++failures;
  std::printf("%s: not so: %s (last error: %s)\n", call, what, im2win_last_error());
}

constexpr size_t kFloats = 1 << 16;
alignas(256) float input[kFloats];
alignas(256) float filter[kFloats];
alignas(256) float output[kFloats];
alignas(256) char workspace[1 << 22];

im2win_conv2d_desc describe(int32_t dtype, int64_t groups) {
  im2win_conv2d_desc desc;
  im2win_conv2d_desc_init(&desc, sizeof desc);
  desc.dtype = dtype;
  desc.n = 2;
  desc.c = desc.k = 24;
  desc.h = desc.w = 9;
  desc.r = desc.s = 3;
  desc.padding_left = desc.padding_top = 1;
  desc.groups = groups;
  return desc;
}

/// `call` has to give `status` where it gets its memory, and OUT_OF_MEMORY where it does not.
void fail_each_allocation(const char* name, im2win_status status,
                          const std::function<im2win_status()>& call) {
  expect(call() == status, name, "it gives its status where there is memory");
  char text[256];
  std::snprintf(text, sizeof text, "%s", status == IM2WIN_SUCCESS ? "" : im2win_last_error());
  const int64_t in_use = blocks;
  int64_t n = 0;
  for (bool has_failed = true; has_failed; ++n) {
    std::fill(std::begin(output), std::end(output), -1.0F);
    allocations_until_failure = n;
    const im2win_status result = call();
    has_failed = allocations_until_failure < 0;
    allocations_until_failure = -1;
    // An exception that cannot be allocated comes from the C++ runtime's reserve.
    expect(result == (has_failed ? IM2WIN_OUT_OF_MEMORY : status) || result == status, name,
           "it gives its own status or that of no memory");
    if (result != IM2WIN_SUCCESS) {
      const bool is_own = result == status;
      expect(std::strcmp(im2win_last_error(), is_own ? text : "out of host memory") == 0, name,
             "a failure has its whole text");
      expect(std::all_of(std::begin(output), std::end(output), [](float y) { return y == -1; }),
             name, "a failure writes nothing");
    }
    expect(blocks == in_use, name, "nothing is left behind");
    expect(call() == status, name, "the next call works");
  }
  std::printf("%s: %lld allocations\n", name, static_cast<long long>(n - 1));
}

void make_plans(const im2win_conv2d_desc& desc, const char* algorithm, uint64_t limit) {
  im2win_plan_options options;
  im2win_plan_options_init(&options, sizeof options);
  options.algorithm = algorithm;
  options.workspace_limit_bytes = limit;
  im2win_plan* plan = nullptr;
  fail_each_allocation("im2win_plan_create", IM2WIN_SUCCESS, [&] {
    const im2win_status status = im2win_plan_create(&desc, &options, &plan);
    expect((status == IM2WIN_SUCCESS) == (plan != nullptr), "im2win_plan_create",
           "no plan comes with a failure");
    im2win_plan_destroy(plan);
    return status;
  });
}

void convolve(const im2win_conv2d_desc& desc, const char* algorithm) {
  im2win_plan_options options;
  im2win_plan_options_init(&options, sizeof options);
  options.algorithm = algorithm;
  im2win_plan* plan = nullptr;
  size_t bytes = 0;
  size_t packed_bytes = 0;
  im2win_plan_create(&desc, &options, &plan);
  im2win_plan_workspace_bytes(plan, &bytes);
  im2win_plan_packed_filter_bytes(plan, &packed_bytes);
  expect(bytes + packed_bytes <= sizeof workspace, algorithm, "the workspace is large enough");
  fail_each_allocation("im2win_conv2d", IM2WIN_SUCCESS, [&] {
    return im2win_conv2d(plan, input, filter, nullptr, nullptr, output, workspace, bytes, nullptr);
  });
  fail_each_allocation("im2win_conv2d without an output", IM2WIN_INVALID_ARGUMENT, [&] {
    return im2win_conv2d(plan, input, filter, nullptr, nullptr, nullptr, workspace, bytes, nullptr);
  });
  fail_each_allocation("im2win_pack_filter", IM2WIN_SUCCESS, [&] {
    return im2win_pack_filter(plan, filter, workspace, packed_bytes, nullptr);
  });
  im2win_plan_destroy(plan);
}

void ask(const im2win_conv2d_desc& desc) {
  im2win_conv2d_desc wrong = desc;
  wrong.stride_h = -1;
  int64_t size = 0;
  char line[128];
  fail_each_allocation("im2win_conv2d_output_size", IM2WIN_INVALID_ARGUMENT,
                       [&] { return im2win_conv2d_output_size(&wrong, &size, &size); });
  fail_each_allocation("im2win_conv2d_supports", IM2WIN_UNSUPPORTED,
                       [&] { return im2win_conv2d_supports(&desc, nullptr, "depthwise"); });
  fail_each_allocation("im2win_conv2d_supports of no algorithm", IM2WIN_INVALID_ARGUMENT,
                       [&] { return im2win_conv2d_supports(&desc, nullptr, "fft"); });
  fail_each_allocation("im2win_device_describe", IM2WIN_SUCCESS,
                       [&] { return im2win_device_describe(IM2WIN_CPU, line, sizeof line); });
  size_t bytes = 0;
  im2win_transform_bytes(&desc, &bytes);
  expect(bytes <= sizeof output, "im2win_transform", "there is room for it");
  fail_each_allocation("im2win_transform", IM2WIN_SUCCESS, [&] {
    return im2win_transform(&desc, IM2WIN_CPU, input, output, bytes, nullptr);
  });
}

}  // namespace

int main() {
  constexpr uint64_t kNoLimit = UINT64_MAX;
  for (int32_t dtype : {IM2WIN_FLOAT32, IM2WIN_FLOAT16}) {
    const im2win_conv2d_desc general = describe(dtype, 1);
    const im2win_conv2d_desc depthwise = describe(dtype, 24);
    make_plans(general, nullptr, kNoLimit);
    make_plans(general, "im2win", kNoLimit);
    make_plans(depthwise, "depthwise", kNoLimit);
    make_plans(general, nullptr, 1 << 15);
    convolve(general, "im2win");
    convolve(depthwise, "depthwise");
    convolve(general, "direct");
    ask(general);
  }
  return failures == 0 ? 0 : 1;
}
