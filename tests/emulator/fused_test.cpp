// im2win_fused and im2win_stem, emulated, on random problems of every dtype, layout and epilogue, and on data that
// tensor cores do not multiply well, beside a float64 reference.

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <algorithm>
#include <bit>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <limits>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "cuda/algorithms.hpp"
#include "cuda/fused/stem/tile.hpp"
#include "definition.hpp"
#include "descriptors.hpp"
#include "epilogue.hpp"
#include "problem.hpp"
#include "random_problems.hpp"
#include "status.hpp"

namespace {

using namespace im2win;
using cuda::fused::Instructions;

/// The memory of a tensor, whose elements are read and written as double. It starts as NaN.
class Values {
 public:
  Values(im2win_dtype dtype, const Tensor& tensor)
      : dtype_(dtype), bytes_(element_bytes(dtype)), extent_(byte_extent(tensor, bytes_)) {
    // Sometimes only as aligned as an element has to be.
    first_ = once_in(3) ? bytes_ : 64;
    memory_.assign(static_cast<size_t>(first_ + extent_.end - extent_.begin), char(0xff));
  }

  /// Of element [0, 0, 0, 0].
  void* data() { return address(0); }
  emulator::Range range() { return {address(0) + extent_.begin, address(0) + extent_.end}; }
  int64_t begin() const { return extent_.begin / bytes_; }
  int64_t end() const { return extent_.end / bytes_; }

  double at(int64_t i) const {
    const char* p = const_cast<Values*>(this)->address(i);
    if (dtype_ == IM2WIN_FLOAT32) return *reinterpret_cast<const float*>(p);
    if (dtype_ == IM2WIN_FLOAT16) return __half2float(*reinterpret_cast<const __half*>(p));
    return __bfloat162float(*reinterpret_cast<const __nv_bfloat16*>(p));
  }

  void set(int64_t i, float x) {
    char* p = address(i);
    if (dtype_ == IM2WIN_FLOAT32) {
      *reinterpret_cast<float*>(p) = x;
    } else if (dtype_ == IM2WIN_FLOAT16) {
      *reinterpret_cast<__half*>(p) = __float2half_rn(x);
    } else {
      *reinterpret_cast<__nv_bfloat16*>(p) = __float2bfloat16_rn(x);
    }
  }

  Values rounded_to_tf32() const {
    Values rounded = *this;
    for (int64_t i = begin(); i < end(); ++i) {
      const auto bits = std::bit_cast<uint32_t>(static_cast<float>(at(i)));
      rounded.set(i, std::bit_cast<float>(emulator::round_to_tf32(bits)));
    }
    return rounded;
  }

 private:
  char* address(int64_t i) { return memory_.data() + first_ - extent_.begin + i * bytes_; }

  im2win_dtype dtype_;
  int64_t bytes_, first_;
  ByteExtent extent_;
  std::vector<char> memory_;
};

/// kExtreme: not finite, too, and as large and small as can be; products of these overflow.
enum class Data { kNormal, kIntegers, kNotFinite, kWide, kExtreme };

float value(Data data) {
  const float normal = std::normal_distribution<float>()(random_bits);
  switch (data) {
    case Data::kNormal: return normal;
    case Data::kIntegers: return static_cast<float>(between(-4, 4));
    case Data::kWide: return std::ldexp(normal, static_cast<int>(between(-60, 60)));
    case Data::kNotFinite:
    case Data::kExtreme: {
      const float odd[] = {INFINITY, -INFINITY, NAN, 0.0f, 1e-40f, 3e38f};
      return once_in(40) ? odd[between(0, data == Data::kExtreme ? 5 : 3)] : normal;
    }
  }
  return 0;
}

Values random_values(im2win_dtype dtype, const Tensor& tensor, Data data) {
  Values values(dtype, tensor);
  for (int64_t i = values.begin(); i < values.end(); ++i) values.set(i, value(data));
  return values;
}

struct Reference {
  double value, magnitude;  // of the sum: sum of |x| |w|
};

Reference reference(const Problem& problem, const Values& input, const Values& filter, int64_t n,
                    int64_t k, int64_t p, int64_t q) {
  Reference sum = {0, 0};
  for_each_product(problem, n, k, p, q, [&](int64_t x, int64_t w) {
    const double product = input.at(x) * filter.at(w);
    sum.value += product;
    sum.magnitude += std::abs(product);
  });
  return sum;
}

/// Relative to the sum's magnitude, and to the result; and what rounding takes from a subnormal, or from what is added.
struct Bound {
  double sum, rounding, least = 1e-37;
};

Bound bound(const Problem& problem, Data data) {
  const bool exact = data == Data::kIntegers;  // sums are small integers
  const double terms = exact ? 0 : double(problem.window_elements()) * std::ldexp(1.0, -24);
  switch (problem.dtype) {
    case IM2WIN_FLOAT16: return {terms, std::ldexp(1.0, -11), std::ldexp(1.0, -25)};
    case IM2WIN_BFLOAT16: return {terms, std::ldexp(1.0, -8)};
    default: break;
  }
  // Split operands, and sums, which the tensor cores truncate.
  return {exact ? 0 : std::ldexp(1.0, -21), std::ldexp(1.0, -22)};
}

bool is_near(double got, double expected, double magnitude, const Bound& bound, double largest) {
  if (std::isnan(expected)) return std::isnan(got);
  if (magnitude > largest && std::isinf(got)) return true;  // terms beyond what a sum can hold
  if (std::isinf(expected) || std::abs(expected) > largest)
    return std::isinf(got) ? (got > 0) == (expected > 0) : std::abs(expected) < 2 * largest;
  return std::abs(got - expected) <=
         bound.sum * magnitude + bound.rounding * std::abs(expected) + bound.least;
}

struct Algorithm {
  /// What it makes of a problem.
  Problem (*as_computed)(const Problem&);
  std::string (*refuse)(const Problem&);
  std::unique_ptr<Convolution> (*configure)(const Problem&, const Target&);
};

Problem as_it_is(const Problem& problem) { return problem; }

constexpr Algorithm kFused[] = {
    {as_it_is, cuda::refuse_fused<Instructions::kWgmma>,
     cuda::configure_fused<Instructions::kWgmma>},
    {as_it_is, cuda::refuse_fused<Instructions::kMma>, cuda::configure_fused<Instructions::kMma>},
};
constexpr Algorithm kStem = {cuda::fused::stem::as_computed, cuda::refuse_stem,
                             cuda::configure_stem};

/// The number of wrong outputs.
int64_t check(const Algorithm& algorithm, const im2win_conv2d_desc& desc, Data data) {
  const Problem problem = make_problem(&desc);
  if (!algorithm.refuse(problem).empty()) return 0;
  const Data addends = data == Data::kIntegers ? data : Data::kNormal;
  const bool is_finite = data != Data::kNotFinite && data != Data::kExtreme;
  const Data weights = !is_finite && once_in(2) ? Data::kNormal : data;
  Values input = random_values(problem.dtype, problem.input, data);
  Values filter = random_values(problem.dtype, problem.filter, weights);
  Values bias =
      random_values(problem.bias_dtype == IM2WIN_NONE ? problem.dtype : problem.bias_dtype,
                    {{1, problem.k, 1, 1}, {0, 1, 0, 0}}, addends);
  Values residual = random_values(
      problem.dtype, problem.has_residual ? problem.residual : problem.output, addends);
  Values output(problem.dtype, problem.output);

  // Fewer than tiles, or more, which clusters then share out.
  emulator::set_multiprocessors(once_in(2) ? 3 : 8);
  const auto convolution = algorithm.configure(problem, {0, 1});
  const bool is_packed = convolution->packed_filter_bytes() > 0;
  std::vector<uint64_t> packed(static_cast<size_t>(convolution->packed_filter_bytes() / 8 + 1));
  if (is_packed) convolution->pack_filter(filter.data(), packed.data(), nullptr);
  const emulator::Range packed_range = {packed.data(), packed.data() + packed.size()};
  emulator::may_read({input.range(), is_packed ? packed_range : filter.range(), residual.range()});
  const bool has_bias = problem.bias_dtype != IM2WIN_NONE;
  const void* used_filter = is_packed ? packed.data() : filter.data();
  convolution->run({input.data(), used_filter, has_bias ? bias.data() : nullptr,
                    problem.has_residual ? residual.data() : nullptr, output.data(), nullptr},
                   nullptr);

  emulator::may_read({});

  // TF32's are rounded, but for sums that are formed again.
  struct Factors {
    Values input, filter;
  };
  const bool rounds =
      cuda::fused::operands_of(algorithm.as_computed(problem)) == cuda::fused::Operands::kTf32;
  std::vector<Factors> factors;
  if (rounds) factors.push_back({input.rounded_to_tf32(), filter.rounded_to_tf32()});
  if (!rounds || !is_finite) factors.push_back({input, filter});
  const Epilogue<double> epilogue(problem);
  const double largest = problem.dtype == IM2WIN_FLOAT16 ? 65504 : 3.4e38;
  int64_t wrong = 0;
  for (int64_t n = 0; n < problem.n; ++n)
    for (int64_t k = 0; k < problem.k; ++k)
      for (int64_t p = 0; p < problem.p; ++p)
        for (int64_t q = 0; q < problem.q; ++q) {
          const auto at = [&](const Tensor& tensor) {
            const int64_t(&stride)[4] = tensor.stride;
            return n * stride[0] + k * stride[1] + p * stride[2] + q * stride[3];
          };
          const double added = problem.has_residual ? residual.at(at(problem.residual)) : 0;
          const double own_bias = has_bias ? bias.at(k) : 0;
          const double got = output.at(at(problem.output));
          Bound limit = bound(problem, data);
          // They are added in float32, and may cancel.
          limit.least += std::ldexp(std::abs(problem.beta * added) + std::abs(own_bias), -23);
          double expected = 0;
          const bool is_right = std::any_of(factors.begin(), factors.end(), [&](const Factors& of) {
            const Reference sum = reference(problem, of.input, of.filter, n, k, p, q);
            expected = epilogue(sum.value, added, own_bias);
            return is_near(got, expected, sum.magnitude, limit, largest);
          });
          if (is_right) continue;
          if (wrong++ == 0)
            std::printf("[%d, %d, %d, %d] is %g, not %g\n", int(n), int(k), int(p), int(q), got,
                        expected);
        }
  return wrong;
}

/// Up to 2^most, every order of magnitude as often.
int64_t magnitude(int64_t most) {
  const int64_t least = int64_t{1} << between(0, most);
  return between(least, 2 * least - 1);
}

/// Sizes of any magnitude, of which few are legal and fewer fit: they are refused or planned.
void plan_extreme_problem() {
  const int64_t most = once_in(2) ? 10 : once_in(2) ? 20 : 34;
  const auto size = [&](int64_t usually) { return magnitude(once_in(2) ? usually : most); };
  im2win_conv2d_desc desc = default_desc();
  desc.groups = once_in(3) ? magnitude(8) : 1;
  desc.n = size(8);
  desc.c = desc.groups * size(9);
  desc.k = desc.groups * size(9);
  desc.h = magnitude(most);
  desc.w = magnitude(most);
  desc.r = size(3);
  desc.s = size(3);
  for (int64_t* step : {&desc.stride_h, &desc.stride_w, &desc.dilation_h, &desc.dilation_w})
    *step = size(1);
  for (int64_t* padding :
       {&desc.padding_top, &desc.padding_bottom, &desc.padding_left, &desc.padding_right})
    *padding = size(1) - 1;
  desc.dtype = once_in(2) ? IM2WIN_FLOAT32 : IM2WIN_FLOAT16;
  desc.input_layout = desc.output_layout = once_in(2) ? IM2WIN_NCHW : IM2WIN_NHWC;
  try {
    const Problem problem = make_problem(&desc);
    for (const Algorithm& algorithm : {kFused[0], kFused[1], kStem})
      if (algorithm.refuse(problem).empty()) algorithm.configure(problem, {0, 1});
  } catch (const Error&) {  // no legal problem
  }
}

void print(const im2win_conv2d_desc& d, Data data) {
  std::printf(
      "  %d x %d x %d x %d, %d x %d x %d, groups %d, stride %d %d, padding %d %d %d %d, dilation "
      "%d %d, dtype %d, math %d, layouts %d %d %d, activation %d, data %d\n",
      int(d.n), int(d.c), int(d.h), int(d.w), int(d.k), int(d.r), int(d.s), int(d.groups),
      int(d.stride_h), int(d.stride_w), int(d.padding_top), int(d.padding_bottom),
      int(d.padding_left), int(d.padding_right), int(d.dilation_h), int(d.dilation_w), d.dtype,
      d.math, d.input_layout, d.filter_layout, d.output_layout, d.activation, int(data));
}

}  // namespace

/// Arguments: how many problems; the seed of their numbers; anything more prints each before it runs.
int main(int argc, char** argv) {
  const int count = argc > 1 ? std::atoi(argv[1]) : 150;
  if (argc > 2) random_bits.seed(static_cast<unsigned>(std::atoi(argv[2])));
  const bool verbose = argc > 3;
  for (int i = 0; i < 20 * count; ++i) plan_extreme_problem();
  int failures = 0, checked = 0;
  while (checked < count) {
    const bool is_stem = once_in(3);
    const im2win_conv2d_desc desc = random_desc(is_stem);
    if (desc.h + desc.padding_top + desc.padding_bottom < desc.dilation_h * (desc.r - 1) + 1 ||
        desc.w + desc.padding_left + desc.padding_right < desc.dilation_w * (desc.s - 1) + 1)
      continue;
    ++checked;
    const bool wide = desc.dtype == IM2WIN_FLOAT32 && desc.math == IM2WIN_MATH_FP32;
    const Data data = static_cast<Data>(between(0, wide ? 4 : 2));
    if (verbose) print(desc, data);
    if (check(is_stem ? kStem : kFused[between(0, 1)], desc, data) == 0) continue;
    ++failures;
    print(desc, data);
  }
  std::printf("%d problems, %d wrong\n", checked, failures);
  return failures == 0 ? 0 : 1;
}
