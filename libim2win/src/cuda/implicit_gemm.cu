// Algorithm 1 of the paper: implicit GEMM. M = filters, N = output pixels, K = taps of a window;
// one thread an output, whose window is gathered from the input by index arithmetic in the loop
// over K.
//
// Neighbouring threads take neighbouring pixels of one filter: loads of the input and stores
// coalesce, and the filter's element is the same for a warp. Taps outside the image are skipped.
//
// That is the algorithm as the paper has it, to be compared with; implicit_gemm_tiled is for use.

#include "checked.hpp"
#include "cuda/algorithms.hpp"
#include "cuda/epilogue.cuh"
#include "cuda/launch.cuh"
#include "cuda/output_order.cuh"
#include "cuda/window.cuh"

namespace im2win::cuda {
namespace {

constexpr int kThreads = 256;

struct ImplicitGemmArguments {
  const float* input = nullptr;
  const float* filter = nullptr;
  Outputs<float, float> outputs;
  OutputOrder order;
  Axis vertical, horizontal;
  Divisor k_per_group;
  int64_t c, c_per_group, h, w, r, s;
  int64_t dilation_h, dilation_w;

  explicit ImplicitGemmArguments(const Problem& problem)
      : outputs(problem),
        order(problem),
        vertical(Axis::vertical(problem)),
        horizontal(Axis::horizontal(problem)),
        k_per_group(problem.k_per_group()),
        c(problem.c),
        c_per_group(problem.c_per_group()),
        h(problem.h),
        w(problem.w),
        r(problem.r),
        s(problem.s),
        dilation_h(problem.dilation_h),
        dilation_w(problem.dilation_w) {}
};

__device__ __forceinline__ float window_sum(const ImplicitGemmArguments& a, const OutputIndex& at) {
  const TapRange rows = a.vertical.inside(at.p);
  const TapRange columns = a.horizontal.inside(at.q);
  const int64_t first_c = a.k_per_group.quotient(at.k) * a.c_per_group;
  const float* image = a.input + (at.n * a.c + first_c) * a.h * a.w + a.horizontal.start(at.q);
  const float* filter = a.filter + at.k * a.c_per_group * a.r * a.s;
  float sum = 0;
  for (int64_t c = 0; c < a.c_per_group; ++c) {
    for (int64_t r = rows.begin; r < rows.end; ++r) {
      const float* x = image + (c * a.h + a.vertical.start(at.p) + r * a.dilation_h) * a.w;
      const float* f = filter + (c * a.r + r) * a.s;
      for (int64_t s = columns.begin; s < columns.end; ++s)
        sum = fmaf(f[s], x[s * a.dilation_w], sum);
    }
  }
  return sum;
}

__global__ void __launch_bounds__(kThreads)
    implicit_gemm_kernel(const __grid_constant__ ImplicitGemmArguments a) {
  const int64_t number = thread_index();
  if (number >= a.order.count()) return;
  const OutputIndex at = a.order.locate(number);
  a.outputs.write(a.outputs.filter(at.k), a.outputs.pixel(at.n, at.p, at.q), window_sum(a, at));
}

class ImplicitGemm final : public Convolution {
 public:
  explicit ImplicitGemm(const Problem& problem) : arguments_(problem) {}

  void run(const Buffers& buffers, void* stream) const override {
    ImplicitGemmArguments a = arguments_;
    a.input = static_cast<const float*>(buffers.input);
    a.filter = static_cast<const float*>(buffers.filter);
    a.outputs.bind(buffers);
    launch("implicit_gemm_kernel", implicit_gemm_kernel, ceil_div(a.order.count(), kThreads),
           kThreads, stream, a);
  }

 private:
  ImplicitGemmArguments arguments_;
};

}  // namespace

std::string refuse_implicit_gemm(const Problem& problem) {
  if (std::string reason = refuse_all_but_float32(problem); !reason.empty()) return reason;
  if (!problem.input.is_nchw()) return "takes dense NCHW tensors: the input is not one";
  if (!problem.filter.is_nchw()) return "takes dense KCRS filters: the filter is not one";
  if (!problem.output.is_nchw()) return "takes dense NCHW tensors: the output is not one";
  return "";
}

std::unique_ptr<Convolution> configure_implicit_gemm(const Problem& problem, const Target&) {
  return std::make_unique<ImplicitGemm>(problem);
}

}  // namespace im2win::cuda
