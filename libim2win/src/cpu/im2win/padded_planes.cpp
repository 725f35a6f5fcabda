// A task copies the rows that some rows of outputs see, of a group's channels, to its thread's panel, with
// zeros for the padding. There the windows of all of its outputs are neighbours, one row's after the other's,
// but for the columns that a window has more than one. So they are one run, of which few outputs are in vain,
// however short the rows are. Some filters at a time go through the run, to sums whose rows are then copied to
// their planes.
//
//   workspace: bias of each filter | for each thread: panel | sums
//
// If not all weights are finite, sums are taken over the taps inside the image alone: 0 * Inf would be a NaN that is
// not the sum's.

#include "cpu/im2win/padded_planes.hpp"

#include <algorithm>
#include <cmath>
#include <vector>

#include "checked.hpp"
#include "cpu/depthwise/plan.hpp"
#include "cpu/im2win/planes.hpp"
#include "cpu/kernels.hpp"
#include "cpu/output.hpp"
#include "cpu/parallel.hpp"
#include "cpu/taps.hpp"

namespace im2win::cpu {
namespace {

constexpr int64_t kAlignment = 64;
constexpr int64_t kPanelBytes =
    int64_t{24} * 1024;  // for panel and sums to stay in the first cache
// Of a register tile, at most, which may go past a run's end.
constexpr int64_t kTileElements = int64_t{kMaxTileVectors} * kMaxVectorBytes / sizeof(float);

template <class Compute>
class Im2winPaddedPlanes final : public Convolution {
 public:
  Im2winPaddedPlanes(const Problem& problem, const Target& target)
      : problem_(problem),
        target_(target),
        kernels_(choose_kernels<Compute>()),
        range_(*range_of<Compute>(problem)),
        pitch_(seen_columns(problem, problem.q)),
        rows_(rows_of(problem, target)),
        bias_bytes_(round_up(problem.k * int64_t{sizeof(Compute)}, kAlignment)),
        panel_bytes_(bytes_of(problem.c_per_group() * seen_rows(problem, rows_) * pitch_)),
        sums_pitch_(run(rows_) + kTileElements),
        sums_bytes_(bytes_of(kTileFilters * sums_pitch_)) {
    const int64_t plane = seen_rows(problem, rows_) * pitch_;
    for (int64_t c = 0; c < problem.c_per_group(); ++c)
      for (int64_t r = 0; r < problem.r; ++r)
        for (int64_t s = 0; s < problem.s; ++s)
          offsets_.push_back(c * plane + r * problem.dilation_h * pitch_ + s * problem.dilation_w);
  }

  int64_t workspace_bytes() const override {
    return bias_bytes_ + (panel_bytes_ + sums_bytes_) * target_.threads;
  }
  void run(const Buffers& buffers, void*) const override;

 private:
  /// Rows of outputs of a group's planes.
  struct Block {
    int64_t n, group;
    int64_t begin, end;
  };

  /// From the first output of so many rows to the last.
  int64_t run(int64_t rows) const { return (rows - 1) * pitch_ + problem_.q; }
  static int64_t bytes_of(int64_t elements) {
    return round_up((elements + kTileElements) * int64_t{sizeof(Compute)}, kAlignment);
  }
  static int64_t rows_of(const Problem& problem, const Target& target);
  /// How many filters to sum at a time, of those of a group from number k on: of an odd number one is summed again.
  int64_t filters_from(int64_t k) const {
    const int64_t most = problem_.k_per_group() / kFilterStep * kFilterStep;
    const int64_t left = round_up(problem_.k_per_group() - k, kFilterStep);
    return std::min({int64_t{kTileFilters}, most, left});
  }

  bool is_finite(const Buffers& buffers) const;
  void fill(const Buffers& buffers, const Block& block, Compute* panel) const;
  void sum_filters(const Buffers& buffers, const Block& block, int64_t first, int64_t filters,
                   const Compute* panel, Compute* sums) const;
  Compute sum_inside(const Buffers& buffers, int64_t n, int64_t k, int64_t p, int64_t q) const;
  void sum_block_inside(const Buffers& buffers, const Block& block) const;

  const Compute* filter_of(const Buffers& buffers, int64_t k) const {
    return static_cast<const Compute*>(buffers.filter) + k * problem_.filter.stride[0];
  }
  Compute* output_of(const Buffers& buffers, int64_t n, int64_t k, int64_t p) const {
    return static_cast<Compute*>(buffers.output) + offset(problem_.output, n, k, p, 0);
  }

  Problem problem_;
  Target target_;
  const Kernels<Compute>& kernels_;
  Range<Compute> range_;
  int64_t pitch_;  // of the panel's rows
  int64_t rows_;   // of outputs, of a task
  int64_t bias_bytes_, panel_bytes_;
  int64_t sums_pitch_;  // from filter to filter
  int64_t sums_bytes_;
  std::vector<int64_t> offsets_;  // of the taps in a window
};

/// As many as fit, but as even shares for all threads.
template <class Compute>
int64_t Im2winPaddedPlanes<Compute>::rows_of(const Problem& problem, const Target& target) {
  const Problem& d = problem;
  const int64_t row_bytes = seen_columns(d, d.q) * int64_t{sizeof(Compute)};
  const int64_t more_rows = seen_rows(d, 1) - 1;
  const int64_t fitting =
      (kPanelBytes / row_bytes - d.c_per_group() * more_rows) / (d.c_per_group() + kTileFilters);
  const int64_t most = balanced_rows(d.n * d.groups * d.p, d.p, target.threads);
  return std::clamp<int64_t>(fitting, 1, most);
}

template <class Compute>
void Im2winPaddedPlanes<Compute>::run(const Buffers& buffers, void*) const {
  const Problem& d = problem_;
  char* const workspace = static_cast<char*>(buffers.workspace);
  fill_bias<Compute>(d, buffers, true, d.k_per_group(), reinterpret_cast<Compute*>(workspace));
  const bool all_finite = is_finite(buffers);
  const int64_t blocks = ceil_div(d.p, rows_);
  parallel_for(d.n * d.groups * blocks, target_.threads, [&](int64_t task, int32_t thread) {
    const int64_t begin = task % blocks * rows_;
    const Block block = {task / blocks / d.groups, task / blocks % d.groups, begin,
                         std::min(begin + rows_, d.p)};
    if (!all_finite) return sum_block_inside(buffers, block);
    char* const own = workspace + bias_bytes_ + thread * (panel_bytes_ + sums_bytes_);
    auto* const panel = reinterpret_cast<Compute*>(own);
    auto* const sums = reinterpret_cast<Compute*>(own + panel_bytes_);
    fill(buffers, block, panel);
    for (int64_t k = 0; k < d.k_per_group();) {
      const int64_t filters = filters_from(k);
      const int64_t first = std::min(k, d.k_per_group() - filters);
      sum_filters(buffers, block, block.group * d.k_per_group() + first, filters, panel, sums);
      k = first + filters;
    }
  });
}

template <class Compute>
bool Im2winPaddedPlanes<Compute>::is_finite(const Buffers& buffers) const {
  const auto taps = static_cast<int64_t>(offsets_.size());
  for (int64_t k = 0; k < problem_.k; ++k) {
    Compute zero = 0;
    for (int64_t i = 0; i < taps; ++i) zero += filter_of(buffers, k)[i] * Compute(0);
    if (!(zero == 0)) return false;
  }
  return true;
}

template <class Compute>
void Im2winPaddedPlanes<Compute>::fill(const Buffers& buffers, const Block& block,
                                       Compute* panel) const {
  const Problem& d = problem_;
  const int64_t first_y = block.begin - d.padding_top;
  const int64_t rows = seen_rows(d, rows_);
  // Columns of a row that are in the image.
  const int64_t left = std::min(d.padding_left, pitch_);
  const int64_t count = std::min(d.w, pitch_ - left);
  for (int64_t c = 0; c < d.c_per_group(); ++c) {
    const Compute* const plane = static_cast<const Compute*>(buffers.input) +
                                 offset(d.input, block.n, block.group * d.c_per_group() + c, 0, 0);
    for (int64_t y = first_y; y < first_y + rows; ++y, panel += pitch_) {
      if (y < 0 || y >= d.h) {
        std::fill_n(panel, pitch_, Compute(0));
        continue;
      }
      std::fill_n(panel, left, Compute(0));
      std::copy_n(plane + y * d.input.stride[2], count, panel + left);
      std::fill_n(panel + left + count, pitch_ - left - count, Compute(0));
    }
  }
}

template <class Compute>
void Im2winPaddedPlanes<Compute>::sum_filters(const Buffers& buffers, const Block& block,
                                              int64_t first, int64_t filters, const Compute* panel,
                                              Compute* sums) const {
  const Problem& d = problem_;
  const int64_t outputs = run(block.end - block.begin);
  PlanesTile<Compute> tile;
  tile.offsets = offsets_.data();
  tile.taps = static_cast<int64_t>(offsets_.size());
  tile.filters = filter_of(buffers, first);
  tile.filter_stride = d.filter.stride[0];
  tile.bias = static_cast<const Compute*>(buffers.workspace) + first;
  tile.range = range_;
  tile.output_stride = sums_pitch_;
  tile.streams = false;
  for (int64_t i = 0; i < outputs;) {
    const int64_t vectors = std::min<int64_t>(ceil_div(outputs - i, kernels_.vector_elements),
                                              kernels_.max_tile_vectors);
    tile.input = tile.next = panel + i;
    tile.output = sums + i;
    kernels_.sum_planes[vectors - 1][filters / kFilterStep - 1](tile);
    i += vectors * kernels_.vector_elements;
  }
  for (int64_t k = 0; k < filters; ++k)
    for (int64_t p = block.begin; p < block.end; ++p)
      std::copy_n(sums + k * sums_pitch_ + (p - block.begin) * pitch_, d.q,
                  output_of(buffers, block.n, first + k, p));
}

template <class Compute>
Compute Im2winPaddedPlanes<Compute>::sum_inside(const Buffers& buffers, int64_t n, int64_t k,
                                                int64_t p, int64_t q) const {
  const Problem& d = problem_;
  const int64_t y = p - d.padding_top, x = q - d.padding_left;
  const TapRange rows = taps_inside(d.h, d.r, d.dilation_h, y);
  const TapRange columns = taps_inside(d.w, d.s, d.dilation_w, x);
  const int64_t first_c = k / d.k_per_group() * d.c_per_group();
  Compute sum = 0;
  for (int64_t c = 0; c < d.c_per_group(); ++c) {
    for (int64_t r = rows.begin; r < rows.end; ++r) {
      const Compute* const row = static_cast<const Compute*>(buffers.input) +
                                 offset(d.input, n, first_c + c, y + r * d.dilation_h, x);
      const Compute* const taps = filter_of(buffers, k) + (c * d.r + r) * d.s;
      for (int64_t s = columns.begin; s < columns.end; ++s) sum += row[s * d.dilation_w] * taps[s];
    }
  }
  return sum;
}

template <class Compute>
void Im2winPaddedPlanes<Compute>::sum_block_inside(const Buffers& buffers,
                                                   const Block& block) const {
  const Problem& d = problem_;
  const auto* const bias = static_cast<const Compute*>(buffers.workspace);
  for (int64_t i = 0; i < d.k_per_group(); ++i) {
    const int64_t k = block.group * d.k_per_group() + i;
    for (int64_t p = block.begin; p < block.end; ++p) {
      Compute* const output = output_of(buffers, block.n, k, p);
      for (int64_t q = 0; q < d.q; ++q) {
        const Compute x = sum_inside(buffers, block.n, k, p, q) + bias[k];
        output[q] = x < range_.low ? range_.low : x > range_.high ? range_.high : x;
      }
    }
  }
}

}  // namespace

/// The parts of all lanes that are of some output, and of some filter where vectors lie along these and outputs
/// are transposed, which takes as long as the products of some taps.
bool is_by_padded_planes(const Problem& problem) {
  const Problem& d = problem;
  constexpr double kTransposingTaps = 20;
  if (!goes_along_planes(d) || d.stride_h != 1 || d.k_per_group() < kFilterStep ||
      d.output.elements() * int64_t{sizeof(float)} > kCachedBytes)
    return false;
  const int64_t lanes = choose_kernels<float>().vector_elements;
  const int64_t run = (d.p - 1) * seen_columns(d, d.q) + d.q;
  const double of_outputs = double(d.p * d.q) / double(round_up(run, lanes));
  const double of_filters = double(d.k_per_group()) / double(round_up(d.k_per_group(), lanes));
  const auto taps = double(d.window_elements());
  return of_outputs > of_filters * taps / (taps + kTransposingTaps);
}

std::unique_ptr<Convolution> make_im2win_padded_planes(const Problem& problem,
                                                       const Target& target) {
  if (problem.dtype == IM2WIN_FLOAT64)
    return std::make_unique<Im2winPaddedPlanes<double>>(problem, target);
  return std::make_unique<Im2winPaddedPlanes<float>>(problem, target);
}

}  // namespace im2win::cpu
