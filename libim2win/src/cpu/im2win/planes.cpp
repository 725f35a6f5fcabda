// Windows are read in place, neighbours along a row as vectors, and filters as they are, so that nothing is
// rearranged. A task takes some rows of outputs, or a piece of a whole plane where one row of windows follows
// the other. It goes through them by as many outputs as a register tile has, and for each through all filters
// of the group, as long as its windows are in the first cache; where there are few pieces, through some filters.
//
//   workspace: bias of each filter

#include "cpu/im2win/planes.hpp"

#include <algorithm>
#include <atomic>
#include <vector>

#include "checked.hpp"
#include "cpu/kernels.hpp"
#include "cpu/output.hpp"
#include "cpu/parallel.hpp"

namespace im2win::cpu {
namespace {

constexpr int64_t kPieceOutputs = 192;
// Neighbouring rows seldom end with a line of a cache, for which two threads should seldom compete.
constexpr int64_t kMostTaskOutputs = 2048;
constexpr int64_t kTasksOfThread = 8;  // for threads to have even shares

/// Outputs side by side whose windows are, too.
int64_t run_length(const Problem& problem) {
  const Problem& d = problem;
  const bool is_one_run =
      d.q == d.w && d.stride_h == 1 && d.input.stride[2] == d.w && d.output.stride[2] == d.q;
  return is_one_run ? d.p * d.q : d.q;
}

/// Whether outputs are too many for the caches.
bool streams(const Problem& problem) {
  const int64_t bytes = problem.dtype == IM2WIN_FLOAT64 ? sizeof(double) : sizeof(float);
  return problem.output.elements() * bytes > kCachedBytes;
}

/// Whether outputs can pass by the caches: all runs begin with a line, if the first does.
bool can_stream(const Problem& problem) {
  constexpr int64_t kLine = kMaxVectorBytes / sizeof(float);
  const int64_t* stride = problem.output.stride;
  return stride[1] % kLine == 0 && (run_length(problem) > problem.q || stride[2] % kLine == 0);
}

bool has_taps_side_by_side(const Problem& problem) {
  const Problem& d = problem;
  const int64_t* stride = d.filter.stride;
  return (d.s == 1 || stride[3] == 1) && (d.r == 1 || stride[2] == d.s) &&
         (d.c_per_group() == 1 || stride[1] == d.r * d.s);
}

template <class Compute>
class Im2winPlanes final : public Convolution {
 public:
  Im2winPlanes(const Problem& problem, const Target& target)
      : problem_(problem),
        target_(target),
        kernels_(choose_kernels<Compute>()),
        range_(*range_of<Compute>(problem)),
        streams_(streams(problem)),
        run_(run_length(problem)),
        runs_(problem.p * problem.q / run_),
        piece_(runs_ == 1 ? kPieceOutputs : std::min(run_, kMostTaskOutputs)) {
    const int64_t* in = problem.input.stride;
    for (int64_t c = 0; c < problem.c_per_group(); ++c)
      for (int64_t r = 0; r < problem.r; ++r)
        for (int64_t s = 0; s < problem.s; ++s)
          offsets_.push_back(c * in[1] + r * problem.dilation_h * in[2] + s * problem.dilation_w);
  }

  int64_t workspace_bytes() const override { return problem_.k * int64_t{sizeof(Compute)}; }
  void run(const Buffers& buffers, void*) const override;

 private:
  /// Of a group.
  struct Filters {
    int64_t begin, end;
  };

  /// Neighbouring outputs of a group's planes.
  struct Tile {
    int64_t group;
    const Compute* input;  // what the first one sees first
    Compute* output;       // of the group's first filter
  };

  int64_t filter_parts(int64_t pieces) const;
  Filters filters_of(int64_t part, int64_t parts) const;
  void sum_piece(const Buffers& buffers, int64_t index, const Filters& filters) const;
  void sum_tile(const Buffers& buffers, const Tile& place, const Filters& filters,
                int64_t vectors) const;

  Problem problem_;
  Target target_;
  const Kernels<Compute>& kernels_;
  Range<Compute> range_;
  bool streams_;                  // to the output, past the caches
  int64_t run_;                   // outputs of one
  int64_t runs_;                  // of an image
  int64_t piece_;                 // of a run, at most
  std::vector<int64_t> offsets_;  // of the taps in a window
};

template <class Compute>
void Im2winPlanes<Compute>::run(const Buffers& buffers, void*) const {
  const Problem& d = problem_;
  fill_bias<Compute>(d, buffers, true, d.k_per_group(), static_cast<Compute*>(buffers.workspace));
  const int64_t pieces = d.n * d.groups * runs_ * ceil_div(run_, piece_);
  const int64_t most = std::clamp<int64_t>(pieces / (kTasksOfThread * target_.threads), 1,
                                           kMostTaskOutputs / piece_);
  const int64_t parts = filter_parts(pieces);
  parallel_for(ceil_div(pieces, most) * parts, target_.threads, [&](int64_t task, int32_t) {
    const int64_t begin = task / parts * most, end = std::min(begin + most, pieces);
    const Filters filters = filters_of(task % parts, parts);
    for (int64_t piece = begin; piece < end; ++piece) sum_piece(buffers, piece, filters);
    if (streams_) std::atomic_thread_fence(std::memory_order_seq_cst);
  });
}

/// Several where pieces alone would leave threads without an even share.
template <class Compute>
int64_t Im2winPlanes<Compute>::filter_parts(int64_t pieces) const {
  constexpr int64_t kFewTasks = 4;  // of a thread
  if (target_.threads == 1 || pieces >= kFewTasks * target_.threads) return 1;
  const int64_t wanted = ceil_div(kFewTasks * target_.threads, std::max<int64_t>(pieces, 1));
  return std::max<int64_t>(std::min(wanted, problem_.k_per_group() / (2 * kTileFilters)), 1);
}

/// Whole tiles. The last part has two at least, as a filter may be summed in both.
template <class Compute>
auto Im2winPlanes<Compute>::filters_of(int64_t part, int64_t parts) const -> Filters {
  const int64_t all = problem_.k_per_group(), share = all / kTileFilters / parts * kTileFilters;
  return {part * share, part + 1 < parts ? (part + 1) * share : all};
}

template <class Compute>
void Im2winPlanes<Compute>::sum_piece(const Buffers& buffers, int64_t index,
                                      const Filters& filters) const {
  const Problem& d = problem_;
  const int64_t per_run = ceil_div(run_, piece_);
  const int64_t p = index / per_run % runs_;
  const int64_t group = index / per_run / runs_ % d.groups;
  const int64_t n = index / per_run / runs_ / d.groups;
  const auto* input = static_cast<const Compute*>(buffers.input) +
                      offset(d.input, n, group * d.c_per_group(), p * d.stride_h, 0);
  auto* output =
      static_cast<Compute*>(buffers.output) + offset(d.output, n, group * d.k_per_group(), p, 0);
  const int64_t end = std::min((index % per_run + 1) * piece_, run_);
  for (int64_t i = index % per_run * piece_; i < end;) {
    const int64_t vectors =
        std::min<int64_t>(ceil_div(end - i, kernels_.vector_elements), kernels_.max_tile_vectors);
    // The last tile of a run makes some outputs again.
    const int64_t first = std::min(i, run_ - vectors * kernels_.vector_elements);
    sum_tile(buffers, {group, input + first, output + first}, filters, vectors);
    i += vectors * kernels_.vector_elements;
  }
}

template <class Compute>
void Im2winPlanes<Compute>::sum_tile(const Buffers& buffers, const Tile& place,
                                     const Filters& share, int64_t vectors) const {
  const Problem& d = problem_;
  const int64_t k_per_group = d.k_per_group();
  const int64_t elements = vectors * kernels_.vector_elements;
  PlanesTile<Compute> tile;
  tile.offsets = offsets_.data();
  tile.taps = static_cast<int64_t>(offsets_.size());
  tile.input = place.input;
  tile.filter_stride = d.filter.stride[0];
  tile.output_stride = d.output.stride[1];
  tile.range = range_;
  tile.streams = streams_;
  const int64_t even_filters = k_per_group / kFilterStep * kFilterStep;
  for (int64_t k = share.begin, filters; k < share.end; k += filters) {
    filters = std::min(round_up(std::min<int64_t>(kTileFilters, share.end - k), kFilterStep),
                       even_filters);
    const int64_t first =
        std::min(k, k_per_group - filters);  // of an odd number one is summed again
    const int64_t filter = place.group * k_per_group + first;
    tile.filters = static_cast<const Compute*>(buffers.filter) + filter * tile.filter_stride;
    tile.bias = static_cast<const Compute*>(buffers.workspace) + filter;
    tile.output = place.output + first * tile.output_stride;
    // Each group of filters asks for a line of what the next tile sees.
    const int64_t line = (k - share.begin) / kTileFilters * kernels_.vector_elements;
    tile.next = place.input + elements + std::min(line, elements);
    kernels_.sum_planes[vectors - 1][filters / kFilterStep - 1](tile);
  }
}

}  // namespace

bool is_by_planes(const Problem& problem) {
  const Problem& d = problem;
  // A register tile has no more.
  constexpr int64_t kShortest = int64_t{kMaxTileVectors} * kMaxVectorBytes / sizeof(float);
  // Of few filters, vectors along these would be idle for the most part.
  constexpr int64_t kMostTapsOfFew = 2048;
  const int64_t most_taps = d.k_per_group() < kTileFilters ? kMostTapsOfFew : kMostPlanesTaps;
  const bool is_dense =
      d.input.stride[3] == 1 && d.output.stride[3] == 1 && has_taps_side_by_side(d);
  return (d.dtype == IM2WIN_FLOAT32 || d.dtype == IM2WIN_FLOAT64) && is_dense && d.stride_w == 1 &&
         !d.is_padded() && d.k_per_group() >= kFilterStep && range_of<float>(d) &&
         run_length(d) >= kShortest && !exceeds(most_taps, {d.c_per_group(), d.r, d.s}) &&
         (can_stream(d) || !streams(d));
}

std::unique_ptr<Convolution> make_im2win_planes(const Problem& problem, const Target& target) {
  if (problem.dtype == IM2WIN_FLOAT64)
    return std::make_unique<Im2winPlanes<double>>(problem, target);
  return std::make_unique<Im2winPlanes<float>>(problem, target);
}

}  // namespace im2win::cpu
