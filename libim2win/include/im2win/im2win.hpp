/* im2win.h for C++17 and newer: the same functions, with exceptions for statuses and with destructors.
 *
 *   im2win::Conv2dDesc desc;
 *   desc.n = 8; ...
 *   im2win::Plan plan(desc);
 *   plan.run(tensors, workspace, workspace_bytes);
 *
 * What the arguments mean, and who may call what when, is in im2win.h. Every function here throws
 * im2win::Error where the one below it fails, and std::bad_alloc where host memory runs out.
 */
#ifndef IM2WIN_HPP
#define IM2WIN_HPP

#include <im2win/im2win.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <new>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

namespace im2win {

/* The status of a call that failed and, as what(), its message. */
class Error : public std::runtime_error {
 public:
  explicit Error(im2win_status status) : runtime_error(im2win_last_error()), status_(status) {}
  im2win_status status() const noexcept { return status_; }

 private:
  im2win_status status_;
};

inline void check(im2win_status status) {
  if (status != IM2WIN_SUCCESS) throw Error(status);
}

/* ---- Devices and algorithms ------------------------------------------------------------------ */

/* 0 where there is none, for whatever reason. */
inline std::int32_t cuda_device_count() {
  std::int32_t count = 0;
  const im2win_status status = im2win_cuda_device_count(&count);
  if (status != IM2WIN_NO_DEVICE) check(status);
  return count;
}

inline std::string describe(std::int32_t device) {
  std::array<char, 256> text;
  check(im2win_device_describe(device, text.data(), text.size()));
  return text.data();
}

/* Best first, the one that takes every legal problem last. */
inline std::vector<std::string> algorithms(std::int32_t device) {
  std::vector<std::string> names;
  for (std::int32_t index = 0;; ++index) {
    const char* name = nullptr;
    check(im2win_algorithm_name(device, index, &name));
    if (name == nullptr) return names;
    names.emplace_back(name);
  }
}

/* ---- Problems and plans ---------------------------------------------------------------------- */

/* The defaults; sizes are to be set. */
struct Conv2dDesc : im2win_conv2d_desc {
  Conv2dDesc() { check(im2win_conv2d_desc_init(this, sizeof(im2win_conv2d_desc))); }
};

/* The defaults: the CPU and the best algorithm. */
struct PlanOptions : im2win_plan_options {
  PlanOptions() { check(im2win_plan_options_init(this, sizeof(im2win_plan_options))); }
};

/* Why the algorithm refuses the problem; nothing if it takes it. */
inline std::optional<std::string> refusal(const im2win_conv2d_desc& desc,
                                          const im2win_plan_options& options,
                                          const std::string& algorithm) {
  const im2win_status status = im2win_conv2d_supports(&desc, &options, algorithm.c_str());
  if (status == IM2WIN_UNSUPPORTED) return im2win_last_error();
  check(status);
  return std::nullopt;
}

/* What a call reads and writes. Bias and residual stay null where the problem has none. */
struct Tensors {
  const void* input = nullptr;
  const void* filter = nullptr;
  const void* bias = nullptr;
  const void* residual = nullptr;
  void* output = nullptr;
};

/* A problem with its algorithm. Moving leaves a plan that may only be destroyed or assigned to. */
class Plan {
 public:
  explicit Plan(const im2win_conv2d_desc& desc,
                const im2win_plan_options& options = PlanOptions()) {
    im2win_plan* plan = nullptr;
    check(im2win_plan_create(&desc, &options, &plan));
    plan_.reset(plan);
  }

  /* N K P Q. */
  std::array<std::int64_t, 4> output_shape() const {
    std::array<std::int64_t, 4> shape;
    check(im2win_plan_output_shape(get(), shape.data()));
    return shape;
  }

  std::size_t workspace_bytes() const { return size(im2win_plan_workspace_bytes); }
  std::size_t packed_filter_bytes() const { return size(im2win_plan_packed_filter_bytes); }

  const char* algorithm() const {
    const char* name = nullptr;
    check(im2win_plan_algorithm(get(), &name));
    return name;
  }

  void pack_filter(const void* filter, void* packed, std::size_t packed_bytes,
                   void* stream = nullptr) const {
    check(im2win_pack_filter(get(), filter, packed, packed_bytes, stream));
  }

  void run(const Tensors& tensors, void* workspace = nullptr, std::size_t workspace_bytes = 0,
           void* stream = nullptr) const {
    check(im2win_conv2d(get(), tensors.input, tensors.filter, tensors.bias, tensors.residual,
                        tensors.output, workspace, workspace_bytes, stream));
  }

  const im2win_plan* get() const noexcept { return plan_.get(); }

 private:
  struct Destroy {
    void operator()(im2win_plan* plan) const noexcept { im2win_plan_destroy(plan); }
  };

  std::size_t size(im2win_status (*query)(const im2win_plan*, std::size_t*)) const {
    std::size_t bytes = 0;
    check(query(get(), &bytes));
    return bytes;
  }

  std::unique_ptr<im2win_plan, Destroy> plan_;
};

/* ---- Memory ---------------------------------------------------------------------------------- */

/* Bytes on any device, aligned for every use here; on CUDA ordered on the legacy default stream. For
 * programs that have no memory of their own on the device. */
class Memory {
 public:
  Memory(std::int32_t device, std::size_t bytes) : bytes_(bytes), memory_(nullptr, Free{device}) {
    if (bytes == 0) return;
    void* pointer = nullptr;
    if (device == IM2WIN_CPU)
      pointer = ::operator new(bytes, alignment);
    else
      check(im2win_cuda_alloc(device, bytes, nullptr, &pointer));
    memory_.reset(pointer);
  }

  void* get() const noexcept { return memory_.get(); }
  std::size_t bytes() const noexcept { return bytes_; }

  /* All of it, from and to the host: done when they return. */
  void upload(const void* source) const { copy(get(), source); }
  void download(void* target) const { copy(target, get()); }

 private:
  static constexpr std::align_val_t alignment{256};

  struct Free {
    std::int32_t device;
    void operator()(void* pointer) const noexcept {
      if (device == IM2WIN_CPU)
        ::operator delete(pointer, alignment);
      else
        im2win_cuda_free(device, pointer, nullptr);
    }
  };

  void copy(void* target, const void* source) const {
    const std::int32_t device = memory_.get_deleter().device;
    if (bytes_ == 0) return;
    if (device == IM2WIN_CPU) {
      std::memcpy(target, source, bytes_);
      return;
    }
    check(im2win_cuda_copy(device, target, source, bytes_, nullptr));
    check(im2win_cuda_synchronize(device, nullptr));
  }

  std::size_t bytes_;
  std::unique_ptr<void, Free> memory_;
};

}  // namespace im2win

#endif  // IM2WIN_HPP
