// A task copies the rows that some rows of outputs see, of a group's channels, to its thread's panel, with
// zeros for the padding. There the windows of all of its outputs are neighbours, one row's after the other's,
// but for the columns that a window has more than one. So they are one run, of which few outputs are in vain,
// however short the rows are. Some filters at a time go through the run, to sums whose rows are then written to
// their planes.
//
//   workspace: bias of each filter | for each thread: panel | sums
//   packed filter: plane_sums.hpp

#include "cpu/im2win/padded_planes.hpp"

#include <algorithm>
#include <vector>

#include "checked.hpp"
#include "cpu/form.hpp"
#include "cpu/im2win/planes.hpp"
#include "cpu/kernels.hpp"
#include "cpu/output.hpp"
#include "cpu/parallel.hpp"
#include "cpu/phase_panel.hpp"
#include "cpu/plane_sums.hpp"
#include "cpu/taps.hpp"

namespace im2win::cpu {
namespace {

constexpr int64_t kAlignment = 64;
constexpr int64_t kPanelBytes = int64_t{96} * 1024;         // with sums, in the second-level cache
constexpr int64_t kMostPanelElements = int64_t{64} * 1024;  // for a row of outputs
// Of a register tile, at most, which may go past a run's end.
constexpr int64_t kTileElements = int64_t{kMaxTileVectors} * kMaxVectorBytes / sizeof(float);

template <class Element>
class Im2winPaddedPlanes final : public Convolution {
 public:
  using Compute = typename ComputeOf<Element>::Type;

  Im2winPaddedPlanes(const Problem& problem, const Target& target)
      : problem_(problem),
        target_(target),
        kernels_(choose_kernels<Element>()),
        range_(range_of<Compute>(problem)),
        pitch_(phase_pitch(problem)),
        rows_(rows_of(problem, target)),
        panel_(problem, rows_),
        offsets_(panel_.offsets()),
        filter_pitch_(plane_filter_elements(problem)),
        bias_bytes_(round_up(problem.k * int64_t{sizeof(Compute)}, kAlignment)),
        panel_bytes_(bytes_of(problem.c_per_group() * panel_.plane_elements())),
        sums_pitch_(run(rows_) + kTileElements),
        sums_bytes_(bytes_of(kTileFilters * sums_pitch_)) {}

  int64_t workspace_bytes() const override {
    return bias_bytes_ + (panel_bytes_ + sums_bytes_) * target_.threads;
  }
  int64_t packed_filter_bytes() const override {
    return problem_.k * filter_pitch_ * int64_t{sizeof(Compute)};
  }
  void pack_filter(const void* filter, void* packed, void*) const override {
    pack_plane_filters(problem_, static_cast<const Element*>(filter), static_cast<Compute*>(packed),
                       target_.threads);
  }
  void run(const Buffers& buffers, void*) const override;

 private:
  /// Rows of outputs of a group's planes, and the thread's panel and sums for them.
  struct Block {
    int64_t n, group;
    int64_t begin, end;
    Compute* panel;
    Compute* sums;
  };

  /// From the first output of so many rows to the last.
  int64_t run(int64_t rows) const { return (rows - 1) * pitch_ + problem_.q; }
  static int64_t bytes_of(int64_t elements) {
    return round_up((elements + kTileElements) * int64_t{sizeof(Compute)}, kAlignment);
  }
  static int64_t rows_of(const Problem& problem, const Target& target);
  /// How many filters to sum at a time, of those of a group from number k on: of an odd number one is summed
  /// again.
  int64_t filters_from(int64_t k) const {
    const int64_t most = problem_.k_per_group() / kFilterStep * kFilterStep;
    const int64_t left = round_up(problem_.k_per_group() - k, kFilterStep);
    return std::min({int64_t{kTileFilters}, most, left});
  }

  void fill(const Buffers& buffers, const Block& block) const;
  /// Of these filters, of which some are written already.
  void sum_filters(const Buffers& buffers, const Block& block, int64_t first, int64_t filters,
                   int64_t written) const;
  void sum_inside(const Buffers& buffers, const Block& block, int64_t k, Compute* sums) const;

  const Compute* filter_of(const Buffers& buffers, int64_t k) const {
    return static_cast<const Compute*>(buffers.filter) + k * filter_pitch_;
  }
  const Compute* bias_of(const Buffers& buffers, int64_t k) const {
    return static_cast<const Compute*>(buffers.workspace) + k;
  }

  Problem problem_;
  Target target_;
  const Kernels<Element>& kernels_;
  std::optional<Range<Compute>> range_;
  int64_t pitch_;                 // of the panel's rows
  int64_t rows_;                  // of outputs, of a task
  PhasePanel panel_;              // of each channel
  std::vector<int64_t> offsets_;  // of the taps in a window
  int64_t filter_pitch_;          // of the packed ones
  int64_t bias_bytes_, panel_bytes_;
  int64_t sums_pitch_;  // from filter to filter
  int64_t sums_bytes_;
};

/// As many as fit, but as even shares for all threads.
template <class Element>
int64_t Im2winPaddedPlanes<Element>::rows_of(const Problem& problem, const Target& target) {
  const Problem& d = problem;
  const int64_t row_bytes = phase_pitch(d) * int64_t{sizeof(Compute)};
  const int64_t phases = d.c_per_group() * d.stride_w;  // that a row of the input has
  const int64_t more_rows = seen_rows(d, 1) - d.stride_h;
  const int64_t fitting =
      (kPanelBytes / row_bytes - phases * more_rows) / (phases * d.stride_h + kTileFilters);
  const int64_t most = balanced_rows(d.n * d.groups * d.p, d.p, target.threads);
  return std::clamp<int64_t>(fitting, 1, most);
}

template <class Element>
void Im2winPaddedPlanes<Element>::run(const Buffers& buffers, void*) const {
  const Problem& d = problem_;
  char* const workspace = static_cast<char*>(buffers.workspace);
  fill_bias<Element>(d, buffers, range_.has_value(), d.k_per_group(),
                     reinterpret_cast<Compute*>(workspace));
  const int64_t blocks = ceil_div(d.p, rows_);
  parallel_for(d.n * d.groups * blocks, target_.threads, [&](int64_t task, int32_t thread) {
    char* const own = workspace + bias_bytes_ + thread * (panel_bytes_ + sums_bytes_);
    const int64_t begin = task % blocks * rows_;
    const Block block = {task / blocks / d.groups,
                         task / blocks % d.groups,
                         begin,
                         std::min(begin + rows_, d.p),
                         reinterpret_cast<Compute*>(own),
                         reinterpret_cast<Compute*>(own + panel_bytes_)};
    fill(buffers, block);
    for (int64_t k = 0; k < d.k_per_group();) {
      const int64_t filters = filters_from(k);
      const int64_t first = std::min(k, d.k_per_group() - filters);
      sum_filters(buffers, block, block.group * d.k_per_group() + first, filters, k - first);
      k = first + filters;
    }
  });
}

template <class Element>
void Im2winPaddedPlanes<Element>::fill(const Buffers& buffers, const Block& block) const {
  const Problem& d = problem_;
  std::fill_n(block.panel, d.c_per_group() * panel_.plane_elements(), Compute(0));
  for (int64_t c = 0; c < d.c_per_group(); ++c)
    panel_.load(kernels_,
                static_cast<const Element*>(buffers.input) +
                    offset(d.input, block.n, block.group * d.c_per_group() + c, 0, 0),
                block.begin, block.end, block.panel + c * panel_.plane_elements());
}

template <class Element>
void Im2winPaddedPlanes<Element>::sum_filters(const Buffers& buffers, const Block& block,
                                              int64_t first, int64_t filters,
                                              int64_t written) const {
  const int64_t outputs = run(block.end - block.begin);
  PlanesTile<Compute> tile;
  tile.offsets = offsets_.data();
  tile.taps = static_cast<int64_t>(offsets_.size());
  tile.filters = filter_of(buffers, first);
  tile.filter_stride = filter_pitch_;
  tile.bias = bias_of(buffers, first);
  tile.range = range_.value_or(unbounded<Compute>());
  tile.output_stride = sums_pitch_;
  tile.streams = false;
  for (int64_t i = 0; i < outputs;) {
    const int64_t vectors = std::min<int64_t>(ceil_div(outputs - i, kernels_.vector_elements),
                                              kernels_.max_tile_vectors);
    tile.input = tile.next = block.panel + i;
    tile.output = block.sums + i;
    kernels_.sum_planes[vectors - 1][filters / kFilterStep - 1](tile);
    i += vectors * kernels_.vector_elements;
  }
  const OutputWriter<Element, Compute> writer(problem_, buffers);
  for (int64_t i = written; i < filters; ++i) {  // a residual may be the output itself
    Compute* const sums = block.sums + i * sums_pitch_;
    const bool is_finite = filter_of(buffers, first + i)[filter_pitch_ - 1] != 0;
    if (!is_finite && problem_.is_padded()) sum_inside(buffers, block, first + i, sums);
    write_plane_sums(problem_, buffers, kernels_, writer, range_, block.n, first + i, block.begin,
                     block.end, sums, pitch_);
  }
}

/// The same of one filter, leaving out the taps that lie on the padding.
template <class Element>
void Im2winPaddedPlanes<Element>::sum_inside(const Buffers& buffers, const Block& block, int64_t k,
                                             Compute* sums) const {
  for (int64_t p = block.begin; p < block.end; ++p) {
    for (int64_t q = 0; q < problem_.q; ++q) {
      const int64_t start = (p - block.begin) * pitch_ + q;
      sums[start] = sum_plane_inside(problem_, p, q, block.panel + start, offsets_.data(),
                                     filter_of(buffers, k), *bias_of(buffers, k),
                                     range_.value_or(unbounded<Compute>()));
    }
  }
}

}  // namespace

/// The parts of all lanes that are of some output, and of some filter where vectors lie along these and outputs
/// are transposed, which takes as long as the products of some taps.
bool is_by_padded_planes(const Problem& problem, bool multiplies_pairs) {
  const Problem& d = problem;
  constexpr double kTransposingTaps = 20;
  constexpr double kCutRows = 0.55;  // of the time, what it takes to cut them into phases left out
  // Of windows that do not overlap some phases are seen by few taps, which copying would not be worth.
  const bool overlap =
      (d.stride_h == 1 && d.stride_w == 1) || (d.stride_h < d.r && d.stride_w < d.s);
  if (d.input.stride[3] != 1 || d.output.stride[3] != 1 || !overlap ||
      d.k_per_group() < kFilterStep ||
      exceeds(kMostPanelElements, {d.c_per_group(), seen_rows(d, 1), seen_columns(d, d.q)}) ||
      exceeds(kMostPlanesTaps, {d.c_per_group(), d.r, d.s}) ||
      d.output.elements() * int64_t{sizeof(float)} > kCachedBytes)
    return false;
  const int64_t lanes = choose_kernels<float>().vector_elements;
  const int64_t run = (d.p - 1) * phase_pitch(d) + d.q;
  const double of_copying = d.stride_h * d.stride_w == 1 ? 1 : kCutRows;
  const double of_outputs = of_copying * double(d.p * d.q) / double(round_up(run, lanes));
  const double of_filters = double(d.k_per_group()) / double(round_up(d.k_per_group(), lanes));
  const double taps = double(d.window_elements()) / (multiplies_pairs ? 2 : 1);
  const double by_filters = of_filters * double(d.window_elements()) / (taps + kTransposingTaps);
  return of_outputs > by_filters;
}

std::unique_ptr<Convolution> make_im2win_padded_planes(const Problem& problem,
                                                       const Target& target) {
  return make_form<Im2winPaddedPlanes>(problem, target);
}

}  // namespace im2win::cpu
