// The C ABI: check what only C callers can get wrong, forward, turn every exception into a status.

#include <cstdio>

#include "cuda/memory.hpp"
#include "descriptors.hpp"
#include "im2win/im2win.h"
#include "plan.hpp"
#include "problem.hpp"
#include "status.hpp"

using im2win::guarded;
using im2win::require;

struct im2win_plan {
  im2win::Plan plan;
};

namespace {

void require_pointer(const void* pointer, const char* name) {
  require(pointer != nullptr, name, " is NULL");
}

const im2win::Plan& checked(const im2win_plan* plan) {
  require_pointer(plan, "plan");
  return plan->plan;
}

}  // namespace

extern "C" {

const char* im2win_status_name(im2win_status status) { return im2win::status_name(status); }

const char* im2win_last_error(void) { return im2win::last_error(); }

int32_t im2win_version(void) {
  return IM2WIN_VERSION_MAJOR * 10000 + IM2WIN_VERSION_MINOR * 100 + IM2WIN_VERSION_PATCH;
}

im2win_status im2win_cuda_device_count(int32_t* count) {
  return guarded([&] {
    require_pointer(count, "count");
    *count = 0;
    *count = im2win::cuda::device_count();
  });
}

im2win_status im2win_device_describe(int32_t device, char* text, size_t text_bytes) {
  return guarded([&] {
    require_pointer(text, "text");
    require(text_bytes > 0, "text_bytes is 0: expected at least 1");
    require(device >= IM2WIN_CPU, "device is ", device,
            ": expected IM2WIN_CPU (-1) or a CUDA ordinal");
    const im2win::Backend& backend = im2win::backend_of(device);
    backend.require_device(device);
    std::snprintf(text, text_bytes, "%s", backend.describe(device).c_str());
  });
}

im2win_status im2win_conv2d_desc_init(im2win_conv2d_desc* desc, size_t desc_bytes) {
  return guarded([&] { im2win::write_default_desc(desc, desc_bytes); });
}

im2win_status im2win_conv2d_output_size(const im2win_conv2d_desc* desc, int64_t* p, int64_t* q) {
  return guarded([&] {
    require_pointer(p, "p");
    require_pointer(q, "q");
    const im2win::Problem problem = im2win::make_problem(desc);
    *p = problem.p;
    *q = problem.q;
  });
}

im2win_status im2win_plan_options_init(im2win_plan_options* options, size_t options_bytes) {
  return guarded([&] { im2win::write_default_options(options, options_bytes); });
}

im2win_status im2win_algorithm_name(int32_t device, int32_t index, const char** name) {
  return guarded([&] {
    require_pointer(name, "name");
    require(device >= IM2WIN_CPU, "device is ", device,
            ": expected IM2WIN_CPU (-1) or a CUDA ordinal");
    require(index >= 0, "index is ", index, ": expected at least 0");
    const auto algorithms = im2win::backend_of(device).algorithms;
    const auto i = static_cast<size_t>(index);
    *name = i < algorithms.size() ? algorithms[i].name : nullptr;
  });
}

im2win_status im2win_conv2d_supports(const im2win_conv2d_desc* desc,
                                     const im2win_plan_options* options, const char* algorithm) {
  return guarded([&] {
    const im2win_plan_options target = im2win::read_options(options);
    im2win::require_supported(im2win::make_problem(desc), target.device, algorithm);
  });
}

im2win_status im2win_plan_create(const im2win_conv2d_desc* desc, const im2win_plan_options* options,
                                 im2win_plan** plan) {
  return guarded([&] {
    require_pointer(plan, "plan");
    *plan = nullptr;
    *plan =
        new im2win_plan{im2win::Plan(im2win::make_problem(desc), im2win::read_options(options))};
  });
}

void im2win_plan_destroy(im2win_plan* plan) { delete plan; }

im2win_status im2win_plan_output_shape(const im2win_plan* plan, int64_t* shape) {
  return guarded([&] {
    const im2win::Problem& problem = checked(plan).problem();
    require_pointer(shape, "shape");
    shape[0] = problem.n;
    shape[1] = problem.k;
    shape[2] = problem.p;
    shape[3] = problem.q;
  });
}

im2win_status im2win_plan_workspace_bytes(const im2win_plan* plan, size_t* workspace_bytes) {
  return guarded([&] {
    const int64_t bytes = checked(plan).workspace_bytes();
    require_pointer(workspace_bytes, "workspace_bytes");
    *workspace_bytes = static_cast<size_t>(bytes);
  });
}

im2win_status im2win_plan_packed_filter_bytes(const im2win_plan* plan,
                                              size_t* packed_filter_bytes) {
  return guarded([&] {
    const int64_t bytes = checked(plan).packed_filter_bytes();
    require_pointer(packed_filter_bytes, "packed_filter_bytes");
    *packed_filter_bytes = static_cast<size_t>(bytes);
  });
}

im2win_status im2win_pack_filter(const im2win_plan* plan, const void* filter, void* packed,
                                 size_t packed_bytes, void* stream) {
  return guarded([&] { checked(plan).pack_filter(filter, packed, packed_bytes, stream); });
}

im2win_status im2win_plan_algorithm(const im2win_plan* plan, const char** name) {
  return guarded([&] {
    const char* algorithm = checked(plan).algorithm();
    require_pointer(name, "name");
    *name = algorithm;
  });
}

im2win_status im2win_conv2d(const im2win_plan* plan, const void* input, const void* filter,
                            const void* bias, const void* residual, void* output, void* workspace,
                            size_t workspace_bytes, void* stream) {
  return guarded([&] {
    checked(plan).run({input, filter, bias, residual, output, workspace}, workspace_bytes, stream);
  });
}

im2win_status im2win_transform_bytes(const im2win_conv2d_desc* desc, size_t* output_bytes) {
  return guarded([&] {
    require_pointer(output_bytes, "output_bytes");
    const im2win::Problem problem = im2win::make_transform_problem(desc);
    *output_bytes = static_cast<size_t>(im2win::transform_bytes(problem));
  });
}

im2win_status im2win_transform(const im2win_conv2d_desc* desc, int32_t device, const void* input,
                               void* output, size_t output_bytes, void* stream) {
  return guarded([&] {
    im2win::transform(im2win::make_transform_problem(desc), device, input, output, output_bytes,
                      stream);
  });
}

im2win_status im2win_cuda_alloc(int32_t device, size_t bytes, void* stream, void** pointer) {
  return guarded([&] {
    require_pointer(pointer, "pointer");
    *pointer = nullptr;
    *pointer = im2win::cuda::alloc(device, bytes, stream);
  });
}

im2win_status im2win_cuda_free(int32_t device, void* pointer, void* stream) {
  return guarded([&] {
    if (pointer != nullptr) im2win::cuda::free(device, pointer, stream);
  });
}

im2win_status im2win_cuda_copy(int32_t device, void* target, const void* source, size_t bytes,
                               void* stream) {
  return guarded([&] {
    if (bytes == 0) return;
    require_pointer(target, "target");
    require_pointer(source, "source");
    im2win::cuda::copy(device, target, source, bytes, stream);
  });
}

im2win_status im2win_cuda_synchronize(int32_t device, void* stream) {
  return guarded([&] { im2win::cuda::synchronize(device, stream); });
}

}  // extern "C"
