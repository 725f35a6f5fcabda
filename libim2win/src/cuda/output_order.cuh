// One thread an output: which thread takes which.
#pragma once

#include <cstdint>
#include <cstdlib>

#include "cuda/divisor.hpp"
#include "problem.hpp"

namespace im2win::cuda {

struct OutputIndex {
  int64_t n, k, p, q;
};

/// Numbers the outputs so that neighbours in number are neighbours in memory: pixels fastest, or
/// filters where those are closer to each other, as in NHWC. Plain data.
class OutputOrder {
 public:
  explicit OutputOrder(const Problem& problem)
      : k_(problem.k),
        p_(problem.p),
        q_(problem.q),
        count_(problem.output.elements()),
        filters_fastest_(problem.k > 1 && problem.q > 1 &&
                         std::abs(problem.output.stride[1]) < std::abs(problem.output.stride[3])) {}

  __host__ __device__ int64_t count() const { return count_; }

  __host__ __device__ bool filters_fastest() const { return filters_fastest_; }

  __device__ __forceinline__ OutputIndex locate(int64_t number) const {
    if (filters_fastest_) {
      const auto [pixel, k] = k_.divide(number);
      const auto [row, q] = q_.divide(pixel);
      const auto [n, p] = p_.divide(row);
      return {n, k, p, q};
    }
    const auto [row, q] = q_.divide(number);
    const auto [plane, p] = p_.divide(row);
    const auto [n, k] = k_.divide(plane);
    return {n, k, p, q};
  }

 private:
  Divisor k_, p_, q_;
  int64_t count_;
  bool filters_fastest_;
};

}  // namespace im2win::cuda
