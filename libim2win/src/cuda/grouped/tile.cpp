#include "cuda/grouped/tile.hpp"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <numeric>

#include "checked.hpp"
#include "cuda/fused/estimate.hpp"
#include "cuda/implicit_gemm/split_k/tile.hpp"
#include "status.hpp"

namespace im2win::cuda::grouped {
namespace {

constexpr int64_t kElementBytes = 2, kWordBytes = kWord * kElementBytes;
/// Of a multiprocessor beside what one block may have, and what each takes more than it asks for.
constexpr int kReservedBytes = 1024;
/// More than any block has.
constexpr int kTooManyBytes = 1 << 20;
/// No box of so many pixels along an axis fits.
constexpr int64_t kMostPixels = 1 << 14;
constexpr double kStart = 2.44;  // microseconds
constexpr const char* kNoRoom = "has no room for filters and the pixels under a few outputs";

int64_t odd(int64_t words) { return words | 1; }

/// Input pixels under so many outputs.
int64_t span(int64_t outputs, int64_t stride, int64_t taps, int64_t dilation) {
  return (outputs - 1) * stride + (taps - 1) * dilation + 1;
}

bool shares_taps(const Problem& problem) {
  return problem.r == kSharedTapRows && problem.stride_h == problem.dilation_h;
}

int resident(const Layout& layout, const DeviceLimits& device) {
  return std::clamp((device.shared_bytes + kReservedBytes) / (layout.shared_bytes + kReservedBytes),
                    1, kMostResident);
}

/// To read and write what is no filter.
double memory_microseconds(const Problem& problem) {
  constexpr double kBytes = 3.9e6;  // of a microsecond
  const double pixels = double(problem.n) * double(problem.h) * double(problem.w);
  return kElementBytes *
         (pixels * double(problem.c) + double(problem.output_pixels()) * double(problem.k)) /
         kBytes;
}

/// How many are loaded for the products of a box, by the warp that has the most. Eight positions of several strips meet
/// in banks.
double matrices_of(const Problem& problem, const Tile& tile, const Layout& layout) {
  constexpr double kConflicts = 1.4;
  const Set set = set_of(problem);
  const int sets = set.filters == kWord ? 2 : 1, eights = sets * set.filters / kWord;  // see Shape
  const int items = tile.sets / sets * tile.position_groups();
  const int of_item =
      layout.steps * ((kStripRows + tile.tap_rows - 1) * sets + tile.tap_rows * ((eights + 1) / 2));
  const bool meet = tile.strips > 1 && tile.columns % 8 != 0;
  return double(round_up(items, kWarps)) * of_item * (meet ? kConflicts : 1);
}

/// Shares out evenly what takes as many parts.
int64_t even(int64_t all, int64_t most) { return ceil_div(all, ceil_div(all, most)); }

/// Calls use(tile) for each that fits.
template <class Use>
void for_each_tile(const Problem& problem, const DeviceLimits& device, const Use& use) {
  constexpr int kMostGroups = 4;  // of positions
  const Set set = set_of(problem);
  const int64_t strips = ceil_div(problem.p, kStripRows);
  const int fewest = set.filters == kWord ? 2 : 1;  // see Sums
  for (int sets = kMostSlab / std::max(set.channels, set.filters); sets >= fewest; sets /= 2)
    for (int groups = 1; groups <= kMostGroups; ++groups)
      for (int64_t high = 1; high <= std::min<int64_t>(groups * kPositions, strips); high *= 2) {
        Tile tile = {sets, static_cast<int>(even(strips, high)),
                     static_cast<int>(
                         even(problem.q, std::min<int64_t>(groups * kPositions / high, problem.q))),
                     shares_taps(problem) ? kSharedTapRows : 1, 1};
        if (boxes_of(problem, tile) > boxes_at_once(problem, tile, device)) tile.stages = 2;
        if (layout_of(problem, tile).shared_bytes <= device.shared_bytes) use(tile);
      }
}

/// Whatever its tiles.
std::string refusal_of_operands(const Problem& problem) {
  if (problem.dtype != IM2WIN_FLOAT16 && problem.dtype != IM2WIN_BFLOAT16)
    return text("takes float16 and bfloat16, not ", dtype_name(problem.dtype));
  if (problem.groups == 1) return "takes several groups";
  if (std::max(problem.c_per_group(), problem.k_per_group()) > kMostSet)
    return text("takes groups of up to ", kMostSet, " channels and filters");
  const Set set = set_of(problem);
  if (std::max(set.channels, set.filters) > kMostSet)
    return text("takes groups that are whole words of ", kWord, " channels and filters, ", kMostSet,
                " at most, by themselves or with others");
  const std::string reason = implicit_gemm::split_k::refusal(problem);
  if (!reason.empty()) return reason;
  return std::max(problem.stride_h, problem.stride_w) > kMostPixels ? kNoRoom : "";
}

bool have_words(const Problem& problem) {
  return are_words(problem.input) && are_words(problem.output);
}

/// Whether so many microseconds, infinitely many of what is refused, are fewer than im2win_fused's: more than estimated,
/// as that knows nothing of strides, nor of groups that make no 64 channels, nor of planes.
bool is_faster(const Problem& problem, double time) {
  constexpr double kMerged = 1.15, kStrided = 1.5, kPlanes = 1.6, kOddPlanes = 2, kOdd = 2.5;
  if (!std::isfinite(time)) return false;
  const bool has_steps = problem.stride_h > 1 || problem.stride_w > 1;
  const Set set = set_of(problem);
  const bool is_odd = kMostSlab % set.channels != 0 ||
                      problem.groups % (kMostSlab / set.channels * set.groups) != 0;
  const bool has_odd_planes = problem.h * problem.w % kWord != 0;
  const double longer = is_odd                 ? kOdd
                        : !have_words(problem) ? (has_odd_planes ? kOddPlanes : kPlanes)
                        : has_steps            ? kStrided
                                               : kMerged;
  return time < longer * fused::microseconds(problem);
}

}  // namespace

bool are_words(const Tensor& tensor) {
  if (tensor.stride[1] != 1 || tensor.size[1] % kWord != 0) return false;
  for (const int dimension : {0, 2, 3})
    if (tensor.size[dimension] > 1 && tensor.stride[dimension] % kWord != 0) return false;
  return true;
}

Set set_of(const Problem& problem) {
  const int64_t c = problem.c_per_group(), k = problem.k_per_group();
  const int64_t groups = kWord / std::min(std::gcd(c, int64_t{kWord}), std::gcd(k, int64_t{kWord}));
  return {static_cast<int>(groups), static_cast<int>(groups * c), static_cast<int>(groups * k)};
}

Layout layout_of(const Problem& problem, const Tile& tile) {
  const Set set = set_of(problem);
  Layout layout{};
  const int64_t rows = span(tile.box_rows(), problem.stride_h, problem.r, problem.dilation_h);
  const int64_t columns = span(tile.columns, problem.stride_w, problem.s, problem.dilation_w);
  const int64_t taps = problem.r * problem.s / tile.tap_rows;
  layout.shared_bytes = kTooManyBytes;
  if (std::max({rows, columns, taps}) > kMostPixels) return layout;
  layout.phase_columns = static_cast<int>(ceil_div(columns, problem.stride_w));
  layout.rows = static_cast<int>(rows);
  layout.columns = static_cast<int>(layout.phase_columns * problem.stride_w);
  layout.pixel_pitch = static_cast<int>(odd(tile.sets * set.channels / kWord) * kWordBytes);
  layout.steps = static_cast<int>(ceil_div(taps * (set.channels / kWord), 2));
  layout.filter_pitch = static_cast<int>(odd(tile.tap_rows * layout.steps * 2) * kWordBytes);
  // A step more, which is read ahead.
  layout.filters_begin =
      kFixedBytes + static_cast<int>(round_up(8 * (layout.steps + 1), kWordBytes));
  const int64_t filter_bytes = int64_t{tile.sets} * set.filters * layout.filter_pitch;
  const int64_t box_bytes = rows * layout.row_pitch();
  const int64_t all = layout.filters_begin + filter_bytes + tile.stages * box_bytes;
  if (all > kTooManyBytes) return layout;
  layout.boxes_begin = layout.filters_begin + static_cast<int>(filter_bytes);
  layout.box_bytes = static_cast<int>(box_bytes);
  layout.shared_bytes = static_cast<int>(all);
  return layout;
}

std::string refusal(const Problem& problem) {
  const std::string reason = refusal_of_operands(problem);
  if (!reason.empty()) return reason;
  return choose_tile(problem, kH200) ? "" : kNoRoom;
}

int boxes_of(const Problem& problem, const Tile& tile) {
  return static_cast<int>(problem.n * ceil_div(problem.p, tile.box_rows()) *
                          ceil_div(problem.q, tile.columns));
}

int slabs_of(const Problem& problem, const Tile& tile) {
  return static_cast<int>(ceil_div(problem.groups, int64_t{tile.sets} * set_of(problem).groups));
}

int boxes_at_once(const Problem& problem, const Tile& tile, const DeviceLimits& device) {
  const int boxes = std::max(boxes_of(problem, tile), 1);
  const int places = device.multiprocessors * resident(layout_of(problem, tile), device);
  return static_cast<int>(even(boxes, std::clamp(places / slabs_of(problem, tile), 1, boxes)));
}

// Fitted to 2591 times of 23 layers of words on an H200: half of them are within 6 %, and tiles chosen so took 4 % longer
// than the best; what is loaded element by element, to 71 times of 24 layers in NCHW, which are off by 5 % in the root
// mean square. Filters that are loaded so are waited for, whatever there is beside.
double microseconds(const Problem& problem, const Tile& tile, const DeviceLimits& device) {
  constexpr double kMatrices = 0.00089, kCopy = 0.00018, kStore = 0.00099, kFilter = 0.0006;
  constexpr double kLoad = 0.00087, kScatter = 0.00075, kLoadedFilter = 0.04;
  constexpr double kAlone = 0.65, kAloneLoaded = 1.44;  // boxes' worth of work that nothing hides
  constexpr double kDown = 0.0225;                      // a pixel of a thread's columns
  constexpr double kLoadedWord = 0.0735;                // a thread's
  const bool copies = are_words(problem.input);
  const Set set = set_of(problem);
  const Layout layout = layout_of(problem, tile);
  const double words = double(tile.sets) * set.channels / kWord,
               filter_words = double(tile.sets) * set.filters / kWord;
  const double box_words = layout.rows * layout.columns * words;
  const double box = kMatrices * matrices_of(problem, tile, layout) +
                     (copies ? kCopy : kLoad) * box_words +
                     (are_words(problem.output) ? kStore : kScatter) * tile.strips * kStripRows *
                         tile.columns * filter_words;
  const double waits = copies ? kDown * std::ceil(layout.columns * words / kThreads) * layout.rows
                              : kLoadedWord * std::ceil(box_words / kThreads);
  const int at_once = boxes_at_once(problem, tile, device);
  const double blocks = double(slabs_of(problem, tile)) * at_once;
  const double together =
      std::min(std::ceil(blocks / device.multiprocessors), double(resident(layout, device)));
  const double rounds = std::ceil(blocks / device.multiprocessors / together);
  const double all_filter_words = filter_words * kWord * layout.steps * tile.tap_rows * 2;
  const double filters = filter_copy(problem, nullptr) > 1
                             ? together * kFilter * all_filter_words
                             : kLoadedFilter * std::ceil(all_filter_words * kWord / kThreads);
  const auto boxes = double(ceil_div(boxes_of(problem, tile), at_once));
  const double alone = copies ? kAlone : kAloneLoaded;
  const double work = filters + rounds * boxes * ((together + alone) * box + waits);
  return kStart + std::max(work, memory_microseconds(problem));
}

double microseconds(const Problem& problem) {
  constexpr double kRefused = std::numeric_limits<double>::infinity();
  if (!refusal_of_operands(problem).empty()) return kRefused;
  const std::optional<Tile> tile = choose_tile(problem, kH200);
  return tile ? microseconds(problem, *tile, kH200) : kRefused;
}

std::optional<Tile> choose_tile(const Problem& problem, const DeviceLimits& device) {
  std::optional<Tile> best;
  double least = INFINITY;
  for_each_tile(problem, device, [&](const Tile& tile) {
    const double time = microseconds(problem, tile, device);
    if (time < least) best = tile, least = time;
  });
  return best;
}

int filter_copy(const Problem& problem, const void* filter) {
  const Tensor& f = problem.filter;
  const auto address = static_cast<int64_t>(reinterpret_cast<uintptr_t>(filter));
  if (f.size[1] > 1 && f.stride[1] != 1) return 1;
  const auto are_multiples_of = [&](int64_t copy) {
    for (const int dimension : {0, 2, 3})
      if (f.size[dimension] > 1 && f.stride[dimension] % copy != 0) return false;
    return problem.c_per_group() % copy == 0 && address % (copy * kElementBytes) == 0;
  };
  return are_multiples_of(kWord) ? kWord : are_multiples_of(kWord / 2) ? kWord / 2 : 1;
}

bool is_faster(const Problem& problem) { return is_faster(problem, microseconds(problem)); }

bool is_faster_than_depthwise(const Problem& problem) {
  constexpr int64_t kFewChannels = 16, kManyPixels = 1 << 16;
  const auto is_step = [](int64_t stride) { return stride == 1 || stride == 2; };
  return problem.groups == problem.c && problem.k == problem.c && problem.c <= kFewChannels &&
         problem.r == 3 && problem.s == 3 && is_step(problem.stride_h) &&
         is_step(problem.stride_w) && problem.dilation_h == 1 && problem.dilation_w == 1 &&
         problem.n * problem.h * problem.w >= kManyPixels && have_words(problem) &&
         problem.alpha == 1 && !problem.has_residual &&
         (problem.activation == IM2WIN_IDENTITY || problem.activation == IM2WIN_RELU) &&
         refusal(problem).empty();
}

double least_microseconds(const Problem& problem) {
  const double time = microseconds(problem);
  return is_faster(problem, time) ? time : fused::microseconds(problem);
}

}  // namespace im2win::cuda::grouped
