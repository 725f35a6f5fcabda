#include "cpu/direct.hpp"

#include <algorithm>

#include "checked.hpp"
#include "cpu/half.hpp"
#include "cpu/output.hpp"
#include "cpu/parallel.hpp"

namespace im2win::cpu {
namespace {

// Outputs whose sums are carried together, so that the innermost loop runs along a row.
constexpr int64_t kRowBlock = 64;

template <class Element, class Compute>
class Direct final : public Convolution {
 public:
  Direct(const Problem& problem, const Target& target)
      : problem_(problem), threads_(target.threads) {}

  void run(const Buffers& buffers, void*) const override {
    const Problem& d = problem_;
    const OutputWriter<Element, Compute> writer(d, buffers);
    parallel_for(d.n * d.k * d.p, threads_, [&](int64_t row, int32_t) {
      const int64_t n = row / (d.k * d.p);
      const int64_t k = row / d.p % d.k;
      const int64_t p = row % d.p;
      for (int64_t q = 0; q < d.q; q += kRowBlock) {
        const int64_t count = std::min(kRowBlock, d.q - q);
        Compute sums[kRowBlock] = {};
        sum_row(buffers, n, k, p, q, q + count, sums);
        writer.write(n, k, p, q, sums, 1, count);
      }
    });
  }

 private:
  /// sums[i] += conv[n, k, p, q_begin + i], taps in the order c, r, s.
  void sum_row(const Buffers& buffers, int64_t n, int64_t k, int64_t p, int64_t q_begin,
               int64_t q_end, Compute* sums) const {
    const Problem& d = problem_;
    const int64_t* in = d.input.stride;
    const int64_t* f = d.filter.stride;
    const int64_t first_channel = k / d.k_per_group() * d.c_per_group();
    for (int64_t c = 0; c < d.c_per_group(); ++c) {
      for (int64_t r = 0; r < d.r; ++r) {
        const int64_t y = p * d.stride_h + r * d.dilation_h - d.padding_top;
        if (y < 0 || y >= d.h) continue;
        const Element* input_row = static_cast<const Element*>(buffers.input) + n * in[0] +
                                   (first_channel + c) * in[1] + y * in[2];
        const Element* filter_row =
            static_cast<const Element*>(buffers.filter) + k * f[0] + c * f[1] + r * f[2];
        for (int64_t s = 0; s < d.s; ++s)
          add_tap(input_row, static_cast<Compute>(filter_row[s * f[3]]), s, q_begin, q_end, sums);
      }
    }
  }

  /// Adds weight * input of one tap, for the outputs of the row whose tap lies inside the image.
  void add_tap(const Element* input_row, Compute weight, int64_t s, int64_t q_begin, int64_t q_end,
               Compute* sums) const {
    const Problem& d = problem_;
    const int64_t shift = s * d.dilation_w - d.padding_left;  // x = q * stride_w + shift
    const int64_t first = std::max(q_begin, ceil_div(-shift, d.stride_w));
    const int64_t last = std::min(q_end, ceil_div(d.w - shift, d.stride_w));
    const int64_t step = d.stride_w * d.input.stride[3];
    const Element* tap = input_row + (q_begin * d.stride_w + shift) * d.input.stride[3];
    for (int64_t i = first - q_begin; i < last - q_begin; ++i)
      sums[i] += static_cast<Compute>(tap[i * step]) * weight;
  }

  Problem problem_;
  int32_t threads_;
};

}  // namespace

std::string refuse_direct(const Problem&) { return ""; }

std::unique_ptr<Convolution> configure_direct(const Problem& problem, const Target& target) {
  switch (problem.dtype) {
    case IM2WIN_FLOAT64: return std::make_unique<Direct<double, double>>(problem, target);
    case IM2WIN_FLOAT32: return std::make_unique<Direct<float, double>>(problem, target);
    case IM2WIN_FLOAT16: return std::make_unique<Direct<Float16, float>>(problem, target);
    case IM2WIN_BFLOAT16: return std::make_unique<Direct<BFloat16, float>>(problem, target);
    case IM2WIN_NONE: break;
  }
  fail(IM2WIN_INTERNAL_ERROR, "a problem without a dtype");
}

}  // namespace im2win::cpu
