// An algorithm that is a template over the type of tensor, for a problem's type.
#pragma once

#include <memory>

#include "backend.hpp"
#include "cpu/half.hpp"
#include "status.hpp"

namespace im2win::cpu {

template <template <class> class Form>
std::unique_ptr<Convolution> make_form(const Problem& problem, const Target& target) {
  switch (problem.dtype) {
    case IM2WIN_FLOAT64: return std::make_unique<Form<double>>(problem, target);
    case IM2WIN_FLOAT32: return std::make_unique<Form<float>>(problem, target);
    case IM2WIN_FLOAT16: return std::make_unique<Form<Float16>>(problem, target);
    case IM2WIN_BFLOAT16: return std::make_unique<Form<BFloat16>>(problem, target);
    case IM2WIN_NONE: break;
  }
  fail(IM2WIN_INTERNAL_ERROR, "a problem without a dtype");
}

}  // namespace im2win::cpu
