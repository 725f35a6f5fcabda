// Naive convolution: one thread an output, every tensor by its strides. It takes every legal
// problem.
//
// float32 accumulates in float64, so that this is also the reference on the device. Loops run over
// the taps inside the image alone, so that padding meets no weight, finite or not.

#include <algorithm>
#include <iterator>

#include "checked.hpp"
#include "cuda/algorithms.hpp"
#include "cuda/epilogue.cuh"
#include "cuda/launch.cuh"
#include "cuda/output_order.cuh"
#include "cuda/window.cuh"

namespace im2win::cuda {
namespace {

constexpr int kThreads = 256;

template <class Element, class Compute>
struct DirectArguments {
  const Element* input = nullptr;
  const Element* filter = nullptr;
  Outputs<Element, Compute> outputs;
  OutputOrder order;
  Axis vertical, horizontal;
  Divisor k_per_group;
  int64_t c_per_group;
  int64_t dilation_h, dilation_w;
  int64_t input_stride[4];
  int64_t filter_stride[4];

  explicit DirectArguments(const Problem& problem)
      : outputs(problem),
        order(problem),
        vertical(Axis::vertical(problem)),
        horizontal(Axis::horizontal(problem)),
        k_per_group(problem.k_per_group()),
        c_per_group(problem.c_per_group()),
        dilation_h(problem.dilation_h),
        dilation_w(problem.dilation_w) {
    std::copy(std::begin(problem.input.stride), std::end(problem.input.stride), input_stride);
    std::copy(std::begin(problem.filter.stride), std::end(problem.filter.stride), filter_stride);
  }
};

template <class Element, class Compute>
__device__ __forceinline__ Compute window_sum(const DirectArguments<Element, Compute>& a,
                                              const OutputIndex& at) {
  const TapRange rows = a.vertical.inside(at.p);
  const TapRange columns = a.horizontal.inside(at.q);
  const int64_t first_c = a.k_per_group.quotient(at.k) * a.c_per_group;
  const Element* image = a.input + at.n * a.input_stride[0] + first_c * a.input_stride[1];
  const Element* filter = a.filter + at.k * a.filter_stride[0];
  Compute sum = 0;
  for (int64_t c = 0; c < a.c_per_group; ++c) {
    for (int64_t r = rows.begin; r < rows.end; ++r) {
      const int64_t y = a.vertical.start(at.p) + r * a.dilation_h;
      const Element* x = image + c * a.input_stride[1] + y * a.input_stride[2] +
                         a.horizontal.start(at.q) * a.input_stride[3];
      const Element* f = filter + c * a.filter_stride[1] + r * a.filter_stride[2];
      for (int64_t s = columns.begin; s < columns.end; ++s) {
        sum = fma(to_compute<Compute>(f[s * a.filter_stride[3]]),
                  to_compute<Compute>(x[s * a.dilation_w * a.input_stride[3]]), sum);
      }
    }
  }
  return sum;
}

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
