// The CUDA backend's table of algorithms, and its entry points under a guard of the current device.

#include "backend.hpp"

#include "cuda/algorithms.hpp"
#include "cuda/device.hpp"
#include "cuda/fma_strips/choice.hpp"
#include "cuda/fma_windows/choice.hpp"
#include "cuda/fused/stem/tile.hpp"
#include "cuda/grouped/tile.hpp"
#include "cuda/implicit_gemm/choice.hpp"
#include "cuda/pointwise/tile.hpp"
#include "cuda/pointwise_mma/choice.hpp"
#include "cuda/transform.hpp"
#include "cuda/windows_mma/choice.hpp"
#include "status.hpp"

namespace im2win {
namespace cuda {

std::string refuse_all_but_float32(const Problem& problem) {
  if (problem.dtype == IM2WIN_FLOAT32) return "";
  return text("takes float32, not ", dtype_name(problem.dtype));
}

std::string refuse_transform(const Problem& problem) {
  try {
    transform_bytes(problem);
    return "";
  } catch (const Error& error) {
    return text("takes problems of a smaller im2win tensor: ", error.what());
  }
}

}  // namespace cuda

namespace {

template <cuda::Im2winVariant kVariant>
std::unique_ptr<Convolution> configure_im2win(const Problem& problem, const Target& target) {
  return cuda::configure_im2win(problem, target, kVariant);
}

using cuda::Im2winVariant;
using cuda::fused::Instructions;

/// Whether there is enough to do for algorithms of several launches. A thread goes through a window's elements one by
/// one, so that a plain kernel is done before them with few products of small windows, and with these alone.
bool is_large(const Problem& problem) {
  constexpr double kSmallProducts = 1 << 22;
  constexpr int64_t kSmallWindow = 4;
  const double products = double(problem.output.elements()) * double(problem.window_elements());
  return !cuda::implicit_gemm::is_for_tiles(problem) &&
         (problem.window_elements() >= kSmallWindow || products > kSmallProducts);
}

/// Also where others refuse, or a limit leaves them no memory. A small problem that is not for it is for `direct`.
bool is_for_implicit_gemm(const Problem& problem) {
  return is_large(problem) || cuda::implicit_gemm::is_for_tiles(problem);
}

/// With a filter a channel.
bool is_depthwise_for_fma(const Problem& problem) {
  return problem.k == problem.groups && problem.c == problem.groups &&
         cuda::fma_strips::is_faster_than_depthwise(problem) && cuda::refuse_fma(problem).empty();
}

bool is_for_fma(const Problem& problem) {
  return is_depthwise_for_fma(problem) || cuda::fma_windows::is_faster(problem) ||
         cuda::fma_strips::is_faster(problem);
}

bool is_for_pointwise(const Problem& problem) {
  return !cuda::implicit_gemm::is_for_tiles(problem) && cuda::pointwise::is_faster(problem);
}

bool is_for_grouped(const Problem& problem) {
  return !cuda::implicit_gemm::is_for_tiles(problem) && cuda::grouped::is_faster(problem);
}

bool is_for_fused(const Problem& problem) {
  return is_large(problem) && !cuda::is_for_fmas(problem);
}

bool is_for_stem(const Problem& problem) {
  return is_for_fused(problem) && cuda::fused::stem::is_faster(problem);
}

/// Filters of one channel share its windows, of which depthwise makes nothing: im2win_fused merges groups, and takes
/// a tenth of the time of eight filters a channel. It does not take small windows in float32, nor float64.
bool is_for_depthwise(const Problem& problem) {
  if (problem.k_per_group() == 1) return !is_depthwise_for_fma(problem);
  if (problem.c == 1) return false;
  if (problem.dtype == IM2WIN_FLOAT64) return true;
  return problem.dtype == IM2WIN_FLOAT32 && problem.k_per_group() == 2 &&
         !cuda::refuse_fused<Instructions::kMma>(problem).empty();
}

/// For what is there to be compared with, by name.
bool never(const Problem&) { return false; }

constexpr Algorithm kAlgorithms[] = {
    {"depthwise", cuda::refuse_depthwise, cuda::configure_depthwise, is_for_depthwise},
    {"pointwise_mma", cuda::refuse_pointwise_mma, cuda::configure_pointwise_mma,
     cuda::pointwise_mma::is_faster, cuda::fused_refuses_device<Instructions::kMma>},
    {"windows_mma", cuda::refuse_windows_mma, cuda::configure_windows_mma,
     cuda::windows_mma::is_faster, cuda::fused_refuses_device<Instructions::kMma>},
    {"im2win_fma", cuda::refuse_fma, cuda::configure_fma, is_for_fma},
    {"pointwise", cuda::refuse_pointwise, cuda::configure_pointwise, is_for_pointwise,
     cuda::fused_refuses_device<Instructions::kWgmma>},
    {"grouped", cuda::refuse_grouped, cuda::configure_grouped, is_for_grouped,
     cuda::fused_refuses_device<Instructions::kMma>},
    {"im2win_stem", cuda::refuse_stem, cuda::configure_stem, is_for_stem,
     cuda::fused_refuses_device<Instructions::kWgmma>},
    {"im2win_fused", cuda::refuse_fused<Instructions::kWgmma>,
     cuda::configure_fused<Instructions::kWgmma>, is_for_fused,
     cuda::fused_refuses_device<Instructions::kWgmma>},
    {"im2win_fused_mma", cuda::refuse_fused<Instructions::kMma>,
     cuda::configure_fused<Instructions::kMma>, is_for_fused,
     cuda::fused_refuses_device<Instructions::kMma>},
    {"im2win", cuda::refuse_im2win, configure_im2win<Im2winVariant::kFull>, is_large},
    {"im2win_no_prefetch", cuda::refuse_im2win, configure_im2win<Im2winVariant::kNoPrefetch>,
     never},
    {"im2win_no_vector", cuda::refuse_im2win, configure_im2win<Im2winVariant::kNoVector>, never},
    {"im2win_no_microkernel", cuda::refuse_im2win, configure_im2win<Im2winVariant::kNoMicrokernel>,
     never},
    {"im2win_basic", cuda::refuse_im2win_basic, cuda::configure_im2win_basic, never},
    {"mec", cuda::refuse_mec, cuda::configure_mec, never},
    {"implicit_gemm", cuda::refuse_implicit_gemm, cuda::configure_implicit_gemm, never},
    {"implicit_gemm_tiled", cuda::refuse_implicit_gemm_tiled, cuda::configure_implicit_gemm_tiled,
     is_for_implicit_gemm},
    {"direct", cuda::refuse_direct, cuda::configure_direct},
};

void run(int32_t device, const Convolution& convolution, const Buffers& buffers, void* packed,
         void* stream) {
  const cuda::CurrentDevice current(device);
  if (packed == nullptr) return convolution.run(buffers, stream);
  convolution.pack_and_run(buffers, packed, stream);
}

void pack_filter(int32_t device, const Convolution& convolution, const void* filter, void* packed,
                 void* stream) {
  const cuda::CurrentDevice current(device);
  convolution.pack_filter(filter, packed, stream);
}

void transform(const Problem& problem, int32_t device, const void* input, void* output,
               void* stream) {
  const cuda::CurrentDevice current(device);
  cuda::transform(problem, input, output, stream);
}

}  // namespace

const Backend& cuda_backend() {
  static const Backend backend = {
      kAlgorithms, cuda::require_device, cuda::describe, cuda::require_accessible,
      run,         pack_filter,          transform};
  return backend;
}

}  // namespace im2win
