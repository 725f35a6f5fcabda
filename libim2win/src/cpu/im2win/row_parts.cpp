#include "cpu/im2win/row_parts.hpp"

#include <algorithm>
#include <utility>
#include <vector>

#include "checked.hpp"
#include "cpu/parallel.hpp"
#include "part_buffers.hpp"

namespace im2win::cpu {
namespace {

constexpr int64_t kLeastColumns = 256;    // of outputs, of a part
constexpr int64_t kPartsOfThread = 2;     // so that no thread waits long for another
constexpr int64_t kColumnsTogether = 64;  // whole vectors and lines of a cache
// Each part has a packed filter of its own, as it may lie in memory in another way.
constexpr int64_t kMostFilterElements = int64_t{1} << 21;  // of all

/// Outputs from column `output` on, of what is in the input from column `input` on.
struct Part {
  Problem problem;
  int64_t input, output;

  Part(const Problem& whole, int64_t begin, int64_t end) : problem(whole), input(0), output(begin) {
    const int64_t first = begin * whole.stride_w - whole.padding_left;
    const int64_t seen = (end - begin - 1) * whole.stride_w + (whole.s - 1) * whole.dilation_w + 1;
    input = std::max<int64_t>(first, 0);
    problem.padding_left = input - first;
    problem.padding_right = std::max<int64_t>(first + seen - whole.w, 0);
    problem.w = problem.input.size[3] = std::min(first + seen, whole.w) - input;
    problem.q = problem.output.size[3] = problem.residual.size[3] = end - begin;
  }
};

std::vector<Part> parts_of(const Problem& problem, int32_t threads) {
  const int64_t most = std::min(kPartsOfThread * threads, problem.q / kLeastColumns);
  const int64_t columns = round_up(ceil_div(problem.q, most), kColumnsTogether);
  std::vector<Part> parts;
  for (int64_t begin = 0; begin < problem.q; begin += columns)
    parts.emplace_back(problem, begin, std::min(begin + columns, problem.q));
  return parts;
}

class RowParts final : public Convolution {
 public:
  RowParts(const Problem& problem, const Target& target, std::vector<Part> parts,
           Configure configure)
      : problem_(problem), target_(target), parts_(std::move(parts)) {
    for (const Part& part : parts_) {
      convolutions_.push_back(configure(part.problem, {target.device, 1}));
      const Convolution& own = *convolutions_.back();
      workspace_bytes_ =
          std::max(workspace_bytes_, round_up(own.workspace_bytes(), kBufferAlignment));
      filters_begin_.push_back(filter_bytes_);
      filter_bytes_ += round_up(own.packed_filter_bytes(), kBufferAlignment);
    }
  }

  int64_t workspace_bytes() const override { return target_.threads * workspace_bytes_; }
  int64_t packed_filter_bytes() const override { return filter_bytes_; }

  void pack_filter(const void* filter, void* packed, void* stream) const override {
    parallel_for(count(), target_.threads, [&](int64_t i, int32_t) {
      convolutions_[i]->pack_filter(filter, advance(packed, filters_begin_[i]), stream);
    });
  }

  void run(const Buffers& buffers, void* stream) const override {
    parallel_for(count(), target_.threads, [&](int64_t i, int32_t thread) {
      convolutions_[i]->run(of_part(buffers, i, thread), stream);
    });
  }

 private:
  int64_t count() const { return static_cast<int64_t>(parts_.size()); }

  Buffers of_part(const Buffers& buffers, int64_t i, int32_t thread) const {
    constexpr int kColumns = 3;
    const Part& part = parts_[i];
    Buffers own = part_buffers(buffers, problem_, kColumns, part.input, part.output);
    own.filter = advance(buffers.filter, filters_begin_[i]);
    own.workspace = advance(buffers.workspace, thread * workspace_bytes_);
    return own;
  }

  Problem problem_;
  Target target_;
  std::vector<Part> parts_;
  std::vector<std::unique_ptr<Convolution>> convolutions_;
  std::vector<int64_t> filters_begin_;  // of the packed ones, none if they are as they were
  int64_t workspace_bytes_ = 0;         // of a thread
  int64_t filter_bytes_ = 0;
};

}  // namespace

bool is_by_row_parts(const Problem& problem, int64_t tiles, int32_t threads) {
  constexpr int64_t kMostIdle = 4;  // less than one in so many of the threads
  const int64_t rows = problem.n * problem.p * problem.groups, tasks = rows * tiles;
  return rows > 0 && rows < threads && problem.q >= 2 * kLeastColumns &&
         !exceeds(kMostFilterElements, {problem.k, problem.c_per_group(), problem.r, problem.s,
                                        kPartsOfThread * threads}) &&
         kMostIdle * (round_up(tasks, threads) - tasks) >= round_up(tasks, threads);
}

std::unique_ptr<Convolution> make_row_parts(const Problem& problem, const Target& target,
                                            Configure configure) {
  std::vector<Part> parts = parts_of(problem, target.threads);
  const auto sees_input = [](const Part& part) { return part.problem.w > 0; };
  if (!std::all_of(parts.begin(), parts.end(), sees_input)) return configure(problem, target);
  return std::make_unique<RowParts>(problem, target, std::move(parts), configure);
}

}  // namespace im2win::cpu
