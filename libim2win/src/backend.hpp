// What a backend offers, and what an algorithm is. One table a backend lists its algorithms.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "checked.hpp"
#include "problem.hpp"

namespace im2win {

/// Of workspaces and packed filters, in bytes.
constexpr int64_t kBufferAlignment = 256;

/// The buffers of one call. Pointers are to each tensor's element [0, 0, 0, 0]; those that the
/// problem has no use for are null.
struct Buffers {
  const void* input;
  const void* filter;  // packed, where the algorithm packs it
  const void* bias;
  const void* residual;
  void* output;
  void* workspace;
};

inline Buffers with_filter(Buffers buffers, const void* filter) {
  buffers.filter = filter;
  return buffers;
}

/// Where a plan runs.
struct Target {
  int32_t device;   // IM2WIN_CPU or a CUDA ordinal
  int32_t threads;  // of the CPU backend, >= 1
};

/// An algorithm configured for one problem and target. Immutable.
class Convolution {
 public:
  virtual ~Convolution() = default;
  /// Beside the packed filter.
  virtual int64_t workspace_bytes() const { return 0; }
  /// The size of the filter as the algorithm lays it out; 0 if it takes it as it is.
  virtual int64_t packed_filter_bytes() const { return 0; }
  /// Lays it out, as run() does its work. Called where packed_filter_bytes() is above 0.
  virtual void pack_filter(const void* /*filter*/, void* /*packed*/, void* /*stream*/) const {}
  /// Writes the whole output. On CUDA it enqueues on the stream of the current device, which is the
  /// target's; it neither allocates nor synchronises. n > 0.
  virtual void run(const Buffers& buffers, void* stream) const = 0;

  /// What pack_and_run() needs for the filter, beside the workspace. Above 0 where packed_filter_bytes()
  /// is.
  virtual int64_t packing_bytes() const { return packed_filter_bytes(); }
  /// Likewise, of a filter that is to be packed first, to `packed`.
  virtual void pack_and_run(const Buffers& buffers, void* packed, void* stream) const {
    pack_filter(buffers.filter, packed, stream);
    run(with_filter(buffers, packed), stream);
  }

  /// What a call needs that brings its filter as it is: workspace, then what packing it takes, each
  /// aligned.
  int64_t total_bytes() const {
    if (packing_bytes() == 0) return workspace_bytes();
    return checked_add(round_up(workspace_bytes(), kBufferAlignment), packing_bytes(),
                       "the workspace");
  }
};

struct Algorithm {
  const char* name;
  /// Why it does not take the problem; empty if it does.
  std::string (*refusal)(const Problem& problem);
  std::unique_ptr<Convolution> (*configure)(const Problem& problem, const Target& target);
  /// Whether to choose it before those after it where nobody names one; null means always. Cheap, and
  /// asked of any problem, before `refusal`.
  bool (*is_worthwhile)(const Problem& problem) = nullptr;
  /// Why it does not run on a device of the backend, which is there; null: it runs on all.
  std::string (*device_refusal)(int32_t device) = nullptr;

  std::string refusal_on(const Problem& problem, int32_t device) const {
    std::string reason = device_refusal == nullptr ? "" : device_refusal(device);
    return reason.empty() ? refusal(problem) : reason;
  }
};

/// A kind of device. Every function may be called from any thread.
struct Backend {
  /// Best first; the last takes every legal problem and needs no workspace.
  std::span<const Algorithm> algorithms;
  /// NO_DEVICE, with the reason, unless the device can be used.
  void (*require_device)(int32_t device);
  std::string (*describe)(int32_t device);
  /// INVALID_ARGUMENT, naming the argument, if the device cannot reach what the pointer points to.
  void (*require_accessible)(int32_t device, const char* argument, const void* pointer);
  /// With `packed`, the filter is packed there first.
  void (*run)(int32_t device, const Convolution& convolution, const Buffers& buffers, void* packed,
              void* stream);
  void (*pack_filter)(int32_t device, const Convolution& convolution, const void* filter,
                      void* packed, void* stream);
  /// The im2win tensor of the problem's input (see im2win_transform).
  void (*transform)(const Problem& problem, int32_t device, const void* input, void* output,
                    void* stream);
};

const Backend& cpu_backend();
const Backend& cuda_backend();

inline const Backend& backend_of(int32_t device) {
  return device == IM2WIN_CPU ? cpu_backend() : cuda_backend();
}

}  // namespace im2win
