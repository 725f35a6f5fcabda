// The lowered matrix (lowering.hpp) is, by its strides, a tensor N C H W whose columns are those of
// one window after the other, each H * S apart. What is left to do is its convolution without a copy,
// which is that of im2win: the same kernels, so that what is compared is the lowering.
//
//   workspace: L | a transposed row of the image per thread | im2win's

#include "cpu/mec.hpp"

#include <algorithm>

#include "checked.hpp"
#include "cpu/im2win.hpp"
#include "cpu/kernels.hpp"
#include "cpu/parallel.hpp"
#include "lowering.hpp"

namespace im2win::cpu {
namespace {

constexpr int64_t kAlignment = 64;
constexpr int64_t kMaxRowElements = int64_t{1} << 36;  // of all channels: all threads' fit 64 bits

/// The convolution of L, which has the problem's output. Only of what refuse_lowering() takes.
Problem lowered_problem(const Problem& problem) {
  const LoweredStrides strides(problem);
  Problem lowered = problem;
  lowered.stride_w = problem.h * problem.s;
  lowered.w = (problem.q - 1) * lowered.stride_w + problem.s;
  lowered.input = {{problem.n, problem.c, problem.h, lowered.w},
                   {strides.n, 1, strides.h, problem.c}};
  return lowered;
}

class Mec final : public Convolution {
 public:
  Mec(const Problem& problem, const Target& target)
      : problem_(problem),
        threads_(target.threads),
        lowered_(problem),
        product_(configure_im2win(lowered_problem(problem), target)),
        row_bytes_(round_up(problem.w * problem.c * int64_t{sizeof(float)}, kAlignment)),
        rows_begin_(round_up(lowered_bytes(problem), kAlignment)),
        product_begin_(rows_begin_ + row_bytes_ * threads_) {}

  int64_t workspace_bytes() const override { return product_begin_ + product_->workspace_bytes(); }
  int64_t packed_filter_bytes() const override { return product_->packed_filter_bytes(); }
  void pack_filter(const void* filter, void* packed, void* stream) const override {
    product_->pack_filter(filter, packed, stream);
  }

  void run(const Buffers& buffers, void* stream) const override {
    auto* workspace = static_cast<char*>(buffers.workspace);
    lower(static_cast<const float*>(buffers.input), workspace);
    Buffers lowered = buffers;
    lowered.input = workspace;
    lowered.workspace = workspace + product_begin_;
    product_->run(lowered, stream);
  }

 private:
  void lower(const float* input, char* workspace) const {
    const Problem& d = problem_;
    const auto& kernels = choose_kernels<float>();
    const int64_t* in = d.input.stride;
    parallel_for(d.n * d.h, threads_, [&](int64_t task, int32_t thread) {
      const int64_t n = task / d.h, y = task % d.h;
      auto* row = reinterpret_cast<float*>(workspace + rows_begin_ + thread * row_bytes_);
      kernels.load({input + n * in[0] + y * in[2], in[3], in[1], row, d.c, d.w, d.c});
      auto* target = reinterpret_cast<float*>(workspace) + n * lowered_.n + y * lowered_.h;
      for (int64_t q = 0; q < d.q; ++q)
        std::copy_n(row + q * d.stride_w * d.c, d.s * d.c, target + q * lowered_.q);
    });
  }

  Problem problem_;
  int32_t threads_;
  LoweredStrides lowered_;
  std::unique_ptr<Convolution> product_;
  int64_t row_bytes_;
  int64_t rows_begin_;  // in the workspace
  int64_t product_begin_;
};

}  // namespace

std::string refuse_mec(const Problem& problem) {
  if (std::string reason = refuse_lowering(problem); !reason.empty()) return reason;
  if (exceeds(kMaxRowElements, {problem.c, problem.w}))
    return text("takes rows of at most ", kMaxRowElements, " elements of all channels");
  return refuse_im2win(lowered_problem(problem));
}

std::unique_ptr<Convolution> configure_mec(const Problem& problem, const Target& target) {
  return std::make_unique<Mec>(problem, target);
}

}  // namespace im2win::cpu
