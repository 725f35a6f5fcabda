// Algorithm 3 of the paper: the im2win transform, the packing of the filter, and their product.

#include "cuda/algorithms.hpp"
#include "cuda/im2win/product.cuh"
#include "cuda/transform.hpp"

namespace im2win::cuda {
namespace {

/// Whether the input serves as its own im2win tensor: with one window row and no padding that holds
/// just what a dense NCHW input does. So a 1x1 convolution has no transform and no workspace.
bool input_is_windows(const Problem& problem) {
  return problem.r == 1 && !problem.is_padded() && problem.input.is_nchw();
}

WindowLayout windows_layout(const Problem& problem) {
  WindowLayout layout(problem);
  if (input_is_windows(problem)) {
    layout.image = problem.c * problem.h * problem.w;
    layout.channel = problem.h * problem.w;
    layout.row = problem.p > 1 ? problem.stride_h * problem.w : 0;
  }
  return layout;
}

class Im2win final : public Convolution {
 public:
  Im2win(const Problem& problem, const Target& target, Im2winVariant variant)
      : problem_(problem), product_(problem, windows_layout(problem), target, variant) {}

  int64_t workspace_bytes() const override {
    return input_is_windows(problem_) ? 0 : transform_bytes(problem_);
  }
  int64_t packed_filter_bytes() const override { return product_.packed_filter_bytes(); }

  void pack_filter(const void* filter, void* packed, void* stream) const override {
    product_.pack_filter(filter, packed, stream);
  }

  void run(const Buffers& buffers, void* stream) const override {
    if (input_is_windows(problem_)) return product_.run(buffers.input, buffers, stream);
    transform(problem_, buffers.input, buffers.workspace, stream);
    product_.run(buffers.workspace, buffers, stream);
  }

 private:
  Problem problem_;
  Im2winProduct product_;
};

}  // namespace

std::string refuse_im2win(const Problem& problem) {
  if (std::string reason = refuse_all_but_float32(problem); !reason.empty()) return reason;
  if (std::string reason = refuse_transform(problem); !reason.empty()) return reason;
  return refuse_im2win_product(problem, windows_layout(problem), transform_bytes(problem));
}

std::unique_ptr<Convolution> configure_im2win(const Problem& problem, const Target& target,
                                              Im2winVariant variant) {
  return std::make_unique<Im2win>(problem, target, variant);
}

}  // namespace im2win::cuda
