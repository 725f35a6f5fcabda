// The algorithms of the CUDA backend: for each, why it refuses a problem, and its configuration.
#pragma once

#include <memory>
#include <string>

#include "backend.hpp"
#include "cuda/fused/tile.hpp"
#include "cuda/im2win/tile.hpp"

namespace im2win::cuda {

std::string refuse_direct(const Problem& problem);
std::unique_ptr<Convolution> configure_direct(const Problem& problem, const Target& target);

std::string refuse_depthwise(const Problem& problem);
std::unique_ptr<Convolution> configure_depthwise(const Problem& problem, const Target& target);

template <fused::Instructions kInstructions>
std::string refuse_fused(const Problem& problem);
template <fused::Instructions kInstructions>
std::string fused_refuses_device(int32_t device);
template <fused::Instructions kInstructions>
std::unique_ptr<Convolution> configure_fused(const Problem& problem, const Target& target);

std::string refuse_stem(const Problem& problem);
std::unique_ptr<Convolution> configure_stem(const Problem& problem, const Target& target);

std::string refuse_grouped(const Problem& problem);
std::unique_ptr<Convolution> configure_grouped(const Problem& problem, const Target& target);

std::string refuse_fma(const Problem& problem);
std::unique_ptr<Convolution> configure_fma(const Problem& problem, const Target& target);

std::string refuse_pointwise(const Problem& problem);
std::unique_ptr<Convolution> configure_pointwise(const Problem& problem, const Target& target);

std::string refuse_windows_mma(const Problem& problem);
std::unique_ptr<Convolution> configure_windows_mma(const Problem& problem, const Target& target);
std::string refuse_pointwise_mma(const Problem& problem);
std::unique_ptr<Convolution> configure_pointwise_mma(const Problem& problem, const Target& target);

std::string refuse_implicit_gemm(const Problem& problem);
std::unique_ptr<Convolution> configure_implicit_gemm(const Problem& problem, const Target& target);

std::string refuse_implicit_gemm_tiled(const Problem& problem);
std::unique_ptr<Convolution> configure_implicit_gemm_tiled(const Problem& problem,
                                                           const Target& target);

std::string refuse_im2win_basic(const Problem& problem);
std::unique_ptr<Convolution> configure_im2win_basic(const Problem& problem, const Target& target);

std::string refuse_im2win(const Problem& problem);
std::unique_ptr<Convolution> configure_im2win(const Problem& problem, const Target& target,
                                              Im2winVariant variant);

std::string refuse_mec(const Problem& problem);
std::unique_ptr<Convolution> configure_mec(const Problem& problem, const Target& target);

/// The refusals that several share; "" if there is none.
std::string refuse_all_but_float32(const Problem& problem);
/// Of an im2win tensor whose bytes do not fit 64 bits.
std::string refuse_transform(const Problem& problem);

}  // namespace im2win::cuda
