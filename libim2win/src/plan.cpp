#include "plan.hpp"

#include <algorithm>
#include <cstring>

#include "cpu/parallel.hpp"
#include "micro_batches.hpp"
#include "status.hpp"

namespace im2win {
namespace {

const Algorithm& find_algorithm(const Backend& backend, const char* name) {
  std::string known;
  for (const Algorithm& algorithm : backend.algorithms) {
    if (std::strcmp(algorithm.name, name) == 0) return algorithm;
    known += text(known.empty() ? "" : ", ", algorithm.name);
  }
  fail(IM2WIN_INVALID_ARGUMENT, "algorithm is \"", name, "\": expected one of ", known);
}

void require_taken(const Algorithm& algorithm, const std::string& refusal) {
  if (!refusal.empty()) fail(IM2WIN_UNSUPPORTED, "algorithm ", algorithm.name, " ", refusal);
}

bool has_device(const Backend& backend, int32_t device) {
  try {
    backend.require_device(device);
    return true;
  } catch (const Error& error) {
    if (error.status() != IM2WIN_NO_DEVICE) throw;
    return false;
  }
}

void require_device_number(int32_t device) {
  require(device >= IM2WIN_CPU, "device is ", device,
          ": expected IM2WIN_CPU (-1) or a CUDA ordinal");
}

/// OpenMP's number, as far as each has something to do: a second one takes some microseconds to begin.
int32_t threads_for(const Problem& problem) {
  constexpr double kProducts = 1 << 17;  // of a thread
  const double products = double(problem.output.elements()) * double(problem.window_elements());
  return static_cast<int32_t>(
      std::clamp(products / kProducts, 1.0, double(cpu::default_threads())));
}

Target make_target(const Problem& problem, const im2win_plan_options& options) {
  require_device_number(options.device);
  require(options.packed_filter == 0 || options.packed_filter == 1, "packed_filter is ",
          options.packed_filter, ": expected 0 or 1");
  require(options.threads >= 0 && options.threads <= cpu::kMaxThreads, "threads is ",
          options.threads, ": expected 1 to ", cpu::kMaxThreads, ", or 0 for OpenMP's default");
  return {options.device, options.threads > 0 ? options.threads : threads_for(problem)};
}

/// A one-dimensional run of elements, as a tensor.
Tensor vector(int64_t size, int64_t stride) { return {{1, 1, 1, size}, {0, 0, 0, stride}}; }

/// What the caller passed, and what it has to be.
struct Argument {
  const char* name;
  View view;
  int64_t alignment;
  bool expected;
};

void check_argument(const Argument& argument, const Backend& backend, int32_t device) {
  const void* pointer = argument.view.data;
  if (!argument.expected) {
    require(pointer == nullptr, argument.name, " is ", pointer,
            ": expected NULL, as the plan has none");
    return;
  }
  require(pointer != nullptr, argument.name, " is NULL");
  const auto alignment = static_cast<uintptr_t>(argument.alignment);
  require(reinterpret_cast<uintptr_t>(pointer) % alignment == 0, argument.name, " is ", pointer,
          ": expected an address aligned to ", alignment, " bytes");
  backend.require_accessible(device, argument.name, pointer);
}

Argument filter_argument(const Problem& problem, const void* filter) {
  const int64_t bytes = element_bytes(problem.dtype);
  return {"filter", {filter, problem.filter, bytes}, bytes, true};
}

Argument bytes_argument(const char* name, const void* pointer, int64_t size) {
  return {name, {pointer, vector(size, 1), 1}, kBufferAlignment, true};
}

void require_apart(const Argument& written, const Argument& other) {
  require(!may_overlap(written.view, other.view), written.name, " at ", written.view.data,
          " overlaps ", other.name, " at ", other.view.data);
}

}  // namespace

Plan::Plan(const Problem& problem, const im2win_plan_options& options)
    : problem_(problem),
      target_(make_target(problem, options)),
      takes_packed_filter_(options.packed_filter != 0),
      backend_(&backend_of(options.device)) {
  backend_->require_device(target_.device);
  if (options.algorithm == nullptr) {
    choose(options.workspace_limit_bytes);
  } else {
    take(options.algorithm, options.workspace_limit_bytes);
  }
}

/// Whether the algorithm keeps the limit, on the whole batch or on parts of it.
bool Plan::fit(const Algorithm& algorithm, uint64_t workspace_limit_bytes) {
  algorithm_ = &algorithm;
  convolution_ = algorithm.configure(problem_, target_);
  if (static_cast<uint64_t>(convolution_->total_bytes()) <= workspace_limit_bytes) return true;
  convolution_ = split_batch(algorithm, problem_, target_, workspace_limit_bytes);
  return convolution_ != nullptr;
}

void Plan::choose(uint64_t workspace_limit_bytes) {
  for (const Algorithm& algorithm : backend_->algorithms) {
    if (algorithm.is_worthwhile != nullptr && !algorithm.is_worthwhile(problem_)) continue;
    if (!algorithm.refusal_on(problem_, target_.device).empty()) continue;
    if (fit(algorithm, workspace_limit_bytes)) return;
  }
  fail(IM2WIN_INTERNAL_ERROR, "no algorithm takes this problem");
}

void Plan::take(const char* name, uint64_t workspace_limit_bytes) {
  const Algorithm& algorithm = find_algorithm(*backend_, name);
  require_taken(algorithm, algorithm.refusal_on(problem_, target_.device));
  if (fit(algorithm, workspace_limit_bytes)) return;
  fail(IM2WIN_WORKSPACE_TOO_SMALL, "workspace_limit_bytes is ", workspace_limit_bytes,
       ": algorithm ", name, " needs ", least_bytes(algorithm, problem_, target_),
       " even for one image at a time");
}

void Plan::check(const Buffers& buffers, size_t workspace_bytes) const {
  const int64_t needed = this->workspace_bytes();
  if (workspace_bytes < static_cast<size_t>(needed))
    fail(IM2WIN_WORKSPACE_TOO_SMALL, "workspace_bytes is ", workspace_bytes, ": algorithm ",
         algorithm(), " needs ", needed);

  const int64_t bytes = element_bytes(problem_.dtype);
  const int64_t bias_bytes = element_bytes(problem_.bias_dtype);
  const bool has_bias = problem_.bias_dtype != IM2WIN_NONE;
  const Argument output = {"output", {buffers.output, problem_.output, bytes}, bytes, true};
  const Argument workspace = bytes_argument("workspace", buffers.workspace, needed);
  const Argument filter = takes_packed_filter_ && packed_filter_bytes() > 0
                              ? bytes_argument("filter", buffers.filter, packed_filter_bytes())
                              : filter_argument(problem_, buffers.filter);
  const Argument read[] = {
      {"input", {buffers.input, problem_.input, bytes}, bytes, true},
      filter,
      {"bias",
       {buffers.bias, vector(problem_.k, problem_.bias_stride), bias_bytes},
       bias_bytes,
       has_bias},
  };
  const Argument residual = {
      "residual", {buffers.residual, problem_.residual, bytes}, bytes, problem_.has_residual};

  check_argument(output, *backend_, target_.device);
  if (needed > 0) {
    check_argument(workspace, *backend_, target_.device);
    require_apart(workspace, output);
  }
  const auto check_read = [&](const Argument& argument, bool is_in_place) {
    check_argument(argument, *backend_, target_.device);
    if (!argument.expected) return;
    if (needed > 0) require_apart(workspace, argument);
    if (!is_in_place) require_apart(output, argument);
  };
  for (const Argument& argument : read) check_read(argument, false);
  check_read(residual, buffers.residual == buffers.output &&
                           std::equal(std::begin(problem_.residual.stride),
                                      std::end(problem_.residual.stride), problem_.output.stride));
}

void Plan::run(const Buffers& buffers, size_t workspace_bytes, void* stream) const {
  if (problem_.n == 0) return;
  check(buffers, workspace_bytes);
  void* packed = nullptr;
  if (!takes_packed_filter_ && packed_filter_bytes() > 0) {
    const int64_t offset = round_up(convolution_->workspace_bytes(), kBufferAlignment);
    packed = static_cast<char*>(buffers.workspace) + offset;
  }
  backend_->run(target_.device, *convolution_, buffers, packed, stream);
}

void Plan::pack_filter(const void* filter, void* packed, size_t packed_bytes, void* stream) const {
  const int64_t needed = packed_filter_bytes();
  require(packed_bytes >= static_cast<size_t>(needed), "packed_bytes is ", packed_bytes,
          ": algorithm ", algorithm(), " needs ", needed);
  if (needed == 0) return;
  const Argument source = filter_argument(problem_, filter);
  const Argument target = bytes_argument("packed", packed, needed);
  check_argument(source, *backend_, target_.device);
  check_argument(target, *backend_, target_.device);
  require_apart(target, source);
  backend_->pack_filter(target_.device, *convolution_, filter, packed, stream);
}

void require_supported(const Problem& problem, int32_t device, const char* algorithm) {
  require_device_number(device);
  require(algorithm != nullptr, "algorithm is NULL");
  const Backend& backend = backend_of(device);
  const Algorithm& named = find_algorithm(backend, algorithm);
  require_taken(named, has_device(backend, device) ? named.refusal_on(problem, device)
                                                   : named.refusal(problem));
}

void transform(const Problem& problem, int32_t device, const void* input, void* output,
               size_t output_bytes, void* stream) {
  require_device_number(device);
  const Backend& backend = backend_of(device);
  backend.require_device(device);
  const int64_t needed = transform_bytes(problem);
  require(output_bytes >= static_cast<size_t>(needed), "output_bytes is ", output_bytes,
          ": expected at least ", needed);
  if (problem.n == 0) return;

  const int64_t bytes = element_bytes(problem.dtype);
  const Argument source = {"input", {input, problem.input, bytes}, bytes, true};
  const Argument target = {"output", {output, vector(needed / bytes, 1), bytes}, bytes, true};
  check_argument(source, backend, device);
  check_argument(target, backend, device);
  require_apart(target, source);
  backend.transform(problem, device, input, output, stream);
}

}  // namespace im2win
