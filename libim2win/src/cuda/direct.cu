// Naive convolution: one thread an output, every tensor by its strides. It takes every legal
// problem.
//
// float32 accumulates in float64, so that this is also the reference on the device.

#include "cuda/direct.cuh"

#include "checked.hpp"
#include "cuda/algorithms.hpp"
#include "cuda/launch.cuh"

namespace im2win::cuda {
namespace {

constexpr int kThreads = 256;

template <class Element, class Compute>
__global__ void __launch_bounds__(kThreads)
    direct_kernel(const __grid_constant__ DirectArguments<Element, Compute> a) {
  const int64_t number = thread_index();
  if (number >= a.order.count()) return;
  const OutputIndex at = a.order.locate(number);
  a.outputs.write(a.outputs.filter(at.k), a.outputs.pixel(at.n, at.p, at.q), window_sum(a, at));
}

template <class Element, class Compute>
class Direct final : public Convolution {
 public:
  explicit Direct(const Problem& problem) : arguments_(problem) {}

  void run(const Buffers& buffers, void* stream) const override {
    DirectArguments<Element, Compute> a = arguments_;
    a.input = static_cast<const Element*>(buffers.input);
    a.filter = static_cast<const Element*>(buffers.filter);
    a.outputs.bind(buffers);
    launch("direct_kernel", direct_kernel<Element, Compute>, ceil_div(a.order.count(), kThreads),
           kThreads, stream, a);
  }

 private:
  DirectArguments<Element, Compute> arguments_;
};

}  // namespace

std::string refuse_direct(const Problem&) { return ""; }

std::unique_ptr<Convolution> configure_direct(const Problem& problem, const Target&) {
  switch (problem.dtype) {
    case IM2WIN_FLOAT64: return std::make_unique<Direct<double, double>>(problem);
    case IM2WIN_FLOAT32: return std::make_unique<Direct<float, double>>(problem);
    case IM2WIN_FLOAT16: return std::make_unique<Direct<__half, float>>(problem);
    case IM2WIN_BFLOAT16: return std::make_unique<Direct<__nv_bfloat16, float>>(problem);
    case IM2WIN_NONE: break;
  }
  fail(IM2WIN_INTERNAL_ERROR, "direct has no kernel for dtype ", problem.dtype);
}

}  // namespace im2win::cuda
