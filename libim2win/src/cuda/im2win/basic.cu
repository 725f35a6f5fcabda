// Algorithm 2 of the paper: the im2win transform, then one thread an output, which reads its window
// from the im2win tensor in memory order. Taps outside the image are skipped.

#include "checked.hpp"
#include "cuda/algorithms.hpp"
#include "cuda/epilogue.cuh"
#include "cuda/launch.cuh"
#include "cuda/output_order.cuh"
#include "cuda/transform.hpp"
#include "cuda/window.cuh"

namespace im2win::cuda {
namespace {

constexpr int kThreads = 256;

struct BasicArguments {
  const float* windows = nullptr;
  const float* filter = nullptr;
  Outputs<float, float> outputs;
  OutputOrder order;
  WindowProduct product;
  Divisor k_per_group;
  int64_t filter_k;  // stride

  explicit BasicArguments(const Problem& problem)
      : outputs(problem),
        order(problem),
        product{Axis::vertical(problem), Axis::horizontal(problem), WindowLayout(problem),
                problem.c_per_group(),   problem.filter.stride[1],  problem.filter.stride[2],
                problem.filter.stride[3]},
        k_per_group(problem.k_per_group()),
        filter_k(problem.filter.stride[0]) {}
};

__global__ void __launch_bounds__(kThreads)
    im2win_basic_kernel(const __grid_constant__ BasicArguments a) {
  const int64_t number = thread_index();
  if (number >= a.order.count()) return;
  const OutputIndex at = a.order.locate(number);
  const WindowLayout& layout = a.product.layout;
  const int64_t first_c = a.k_per_group.quotient(at.k) * a.product.channels;
  const float* window = a.windows + layout.offset(at.n, at.p, at.q) + first_c * layout.channel;
  const float sum = a.product(window, a.filter + at.k * a.filter_k, at.p, at.q);
  a.outputs.write(a.outputs.filter(at.k), a.outputs.pixel(at.n, at.p, at.q), sum);
}

class Im2winBasic final : public Convolution {
 public:
  explicit Im2winBasic(const Problem& problem) : problem_(problem), arguments_(problem) {}

  int64_t workspace_bytes() const override { return transform_bytes(problem_); }

  void run(const Buffers& buffers, void* stream) const override {
    transform(problem_, buffers.input, buffers.workspace, stream);
    BasicArguments a = arguments_;
    a.windows = static_cast<const float*>(buffers.workspace);
    a.filter = static_cast<const float*>(buffers.filter);
    a.outputs.bind(buffers);
    launch("im2win_basic_kernel", im2win_basic_kernel, ceil_div(a.order.count(), kThreads),
           kThreads, stream, a);
  }

 private:
  Problem problem_;
  BasicArguments arguments_;
};

}  // namespace

std::string refuse_im2win_basic(const Problem& problem) {
  if (std::string reason = refuse_all_but_float32(problem); !reason.empty()) return reason;
  return refuse_transform(problem);
}

std::unique_ptr<Convolution> configure_im2win_basic(const Problem& problem, const Target&) {
  return std::make_unique<Im2winBasic>(problem);
}

}  // namespace im2win::cuda
