// Plan = Problem + Target + the algorithm chosen for it, configured.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "backend.hpp"
#include "problem.hpp"

namespace im2win {

class Plan {
 public:
  /// The first worthwhile algorithm of the backend's table that takes the problem within the limit,
  /// or options.algorithm, with UNSUPPORTED or WORKSPACE_TOO_SMALL where that one does not.
  Plan(const Problem& problem, const im2win_plan_options& options);

  const Problem& problem() const { return problem_; }
  const char* algorithm() const { return algorithm_->name; }
  int64_t packed_filter_bytes() const { return convolution_->packed_filter_bytes(); }
  int64_t workspace_bytes() const {
    return takes_packed_filter_ ? convolution_->workspace_bytes() : convolution_->total_bytes();
  }

  /// Checks the buffers, then runs. See im2win_conv2d.
  void run(const Buffers& buffers, size_t workspace_bytes, void* stream) const;

  /// Checks the buffers, then packs. See im2win_pack_filter.
  void pack_filter(const void* filter, void* packed, size_t packed_bytes, void* stream) const;

 private:
  bool fit(const Algorithm& algorithm, uint64_t workspace_limit_bytes);
  void choose(uint64_t workspace_limit_bytes);
  void take(const char* name, uint64_t workspace_limit_bytes);
  void check(const Buffers& buffers, size_t workspace_bytes) const;

  Problem problem_;
  Target target_;
  bool takes_packed_filter_;
  const Backend* backend_;
  const Algorithm* algorithm_ = nullptr;
  std::unique_ptr<const Convolution> convolution_;
};

/// Throws UNSUPPORTED, with the reason, if the named algorithm refuses the problem.
void require_supported(const Problem& problem, int32_t device, const char* algorithm);

/// Fails as im2win_transform does.
void transform(const Problem& problem, int32_t device, const void* input, void* output,
               size_t output_bytes, void* stream);

}  // namespace im2win
