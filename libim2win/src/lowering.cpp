#include "lowering.hpp"

#include "checked.hpp"

namespace im2win {

int64_t lowered_bytes(const Problem& problem) {
  int64_t bytes = element_bytes(problem.dtype);
  for (int64_t size : {problem.c, problem.s, problem.h, problem.q, problem.n})
    bytes = checked_multiply(bytes, size, "the lowered matrix");
  return bytes;
}

std::string refuse_lowering(const Problem& problem) {
  const Problem& d = problem;
  if (d.dtype != IM2WIN_FLOAT32) return text("takes float32, not ", dtype_name(d.dtype));
  if (d.is_padded()) return "takes problems without padding";
  if (d.dilation_h != 1 || d.dilation_w != 1) return "takes problems without dilation";
  if (d.groups != 1) return text("takes problems without groups, not ", d.groups, " of them");
  try {
    const int64_t bytes = lowered_bytes(d);
    if (bytes <= kMaxExtent) return "";
    return text("takes lowered matrices of at most ", kMaxExtent, " bytes, not ", bytes);
  } catch (const Error& error) {
    return text("takes problems of a smaller lowered matrix: ", error.what());
  }
}

}  // namespace im2win
