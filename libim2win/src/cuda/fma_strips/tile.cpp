#include "cuda/fma_strips/tile.hpp"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <limits>
#include <optional>

#include "checked.hpp"
#include "status.hpp"

namespace im2win::cuda::fma_strips {
namespace {

constexpr int kLanes = 32;
constexpr int64_t kMostSpan = int64_t{1} << 30;  // of a plane, in elements
constexpr int kPlanarChannels = 8;               // of a chunk, where channels are not vectors
constexpr int kChunkVectors = 2;                 // otherwise

/// Of a quarter of a warp, which reads a word each: how often the most used bank is met.
int conflicts(const Tile& tile, int64_t stride_h) {
  int most = 1;
  const int step = strip_columns(tile.filters) / kWord;
  for (int quarter = 0; quarter < 4; ++quarter) {
    int met[8] = {};
    for (int lane = 8 * quarter; lane < 8 * quarter + 8; ++lane) {
      const int row = lane / tile.strips, strip = lane % tile.strips;
      const int64_t at =
          row * stride_h * tile.row_pitch + word_offset(static_cast<unsigned>(strip * step));
      most = std::max(most, ++met[at / kWord % 8]);
    }
  }
  return most;
}

/// Rows as short as possible among those of the fewest conflicts, as far as a few words do.
void pad_rows(Tile& tile, int64_t stride_h) {
  Tile best = tile;
  for (int words = 1; words < 4; ++words) {
    tile.row_pitch += kWord;
    if (conflicts(tile, stride_h) < conflicts(best, stride_h)) best = tile;
  }
  tile = best;
}

Tile make_tile(const Problem& problem, int filters, int strips, int rows, int splits, int chunk) {
  Tile tile{};
  tile.filters = filters;
  tile.strips = strips;
  tile.rows = rows;
  tile.splits = splits;
  tile.chunk = chunk;
  const int64_t phase_taps = ceil_div(problem.s, problem.stride_w);
  tile.phases = static_cast<int>(std::min(problem.stride_w, problem.s));
  tile.tap_words = static_cast<int>(ceil_div(phase_taps, kWord));
  tile.phase_pitch = word_offset(static_cast<unsigned>(tile.columns() / kWord + tile.tap_words));
  tile.row_pitch = tile.phases * tile.phase_pitch;
  pad_rows(tile, problem.stride_h);
  tile.input_rows =
      static_cast<int>((rows - 1) * problem.stride_h + (problem.r - 1) * problem.dilation_h + 1);
  tile.plane_pitch = static_cast<int>(round_up(tile.positions(), kLanes));
  constexpr int64_t kProducts = 128;
  const int64_t of_chunk = ceil_div(chunk, splits) * problem.r * problem.s;
  tile.flush = static_cast<int>(std::max<int64_t>(1, kProducts / of_chunk));
  return tile;
}

}  // namespace

int64_t Tile::sums_bytes() const {
  return int64_t{4} * filters * strip_columns(filters) * sums_pitch();
}
int64_t Tile::weights_bytes(const Problem& problem) const {
  return int64_t{4} * kWord * tap_words * phases * filters * chunk * problem.r;
}
int64_t Tile::shared_bytes(const Problem& problem) const {
  return sums_bytes() + weights_bytes(problem) + int64_t{4} * (chunk + 1) * plane_pitch;
}

Problem as_single_rows(Problem problem) {
  const auto are_rows = [&](const Tensor& tensor) {
    return tensor.stride[2] == tensor.stride[3] * problem.w;
  };
  if (problem.r * problem.s * problem.stride_h * problem.stride_w != 1 || problem.is_padded() ||
      problem.h * problem.w >= kMostSpan || !are_rows(problem.input) || !are_rows(problem.output) ||
      (problem.has_residual && !are_rows(problem.residual)))
    return problem;
  for (Tensor* tensor : {&problem.input, &problem.output, &problem.residual}) {
    tensor->size[3] *= tensor->size[2];
    tensor->size[2] = 1;
  }
  problem.w *= problem.h;
  problem.q *= problem.p;
  problem.h = problem.p = 1;
  return problem;
}

std::string refusal(const Problem& problem) {
  constexpr int64_t kMostSize = int64_t{1} << 20, kMostStep = 16, kMostColumns = 1 << 10,
                    kMostReach = 1 << 13, kMostBlocks = int64_t{1} << 31;
  if (problem.dilation_w > 1 && problem.s > 1)
    return text("takes dilations of 1 along the width, not ", problem.dilation_w);
  for (const int64_t size : {problem.h, problem.w, problem.p, problem.q, problem.padding_top,
                             problem.padding_left, problem.c_per_group(), problem.k_per_group()})
    if (size >= kMostSize) return "takes sizes below 2^20";
  if (problem.stride_h > kMostStep || problem.stride_w > kMostStep) return "takes strides up to 16";
  for (const Tensor* tensor : {&problem.input, &problem.output}) {
    const int64_t span = std::abs(tensor->stride[2]) * (tensor->size[2] - 1) +
                         std::abs(tensor->stride[3]) * (tensor->size[3] - 1);
    if (span >= kMostSpan) return "takes planes that span fewer than 2^30 elements";
  }
  constexpr const char* kTooLarge = "takes windows that fit shared memory, with rows of outputs";
  if (problem.s > kMostColumns || problem.r > kMostReach || problem.dilation_h > kMostReach ||
      (problem.r - 1) * problem.dilation_h > kMostReach)
    return kTooLarge;
  const Tile least = make_tile(problem, filters_of_thread(problem.k_per_group()), 1, 1, 1, 1);
  if (least.shared_bytes(problem) > kMostSharedBytes) return kTooLarge;
  return blocks_of(problem, least) < kMostBlocks ? "" : "takes fewer than 2^31 tiles";
}

int64_t blocks_of(const Problem& problem, const Tile& tile) {
  return problem.n * problem.groups * ceil_div(problem.k_per_group(), tile.filters) *
         ceil_div(problem.p, tile.rows) * ceil_div(problem.q, tile.columns());
}

/// A multiprocessor's blocks share its issue slots, as far as their warps are enough to hide what each waits for, and a
/// block waits for memory once a chunk.
double cost(const Problem& problem, const Tile& tile, int multiprocessors) {
  constexpr double kLatency = 1200, kStaging = 8, kTable = 32, kOutput = 20, kBlock = 250,
                   kSlots = 128, kHiddenWarps = 6, kSector = 8, kRow = 20;
  const double threads = double(round_up(tile.splits * tile.threads_of_split(), kLanes));
  const double warps = kBlocks * threads / kLanes;
  const double chunks = double(ceil_div(problem.c_per_group(), tile.chunk));
  const double outputs = tile.filters * strip_columns(tile.filters);
  const double rows = double(ceil_div(tile.chunk, tile.splits)) * double(problem.r);
  const double positions = tile.input_rows * (tile.row_pitch + kSector);
  const double channels = double(round_up(tile.chunk, kChannelsAtOnce));
  const double products =
      rows * (outputs * double(problem.s) + kRow * tile.phases * tile.tap_words) *
      (1 + 0.25 * (conflicts(tile, problem.stride_h) - 1)) * (warps + kHiddenWarps) / warps;
  const double issue = (threads * products + kStaging * channels * positions) / kSlots;
  const double end =
      (threads * (kOutput * outputs / tile.splits + kBlock) + kTable * positions) / kSlots;
  const double rounds = std::ceil(double(blocks_of(problem, tile)) / multiprocessors / kBlocks);
  return rounds * (chunks * std::max(kBlocks * issue, issue + kLatency) +
                   std::max(kBlocks * end, end + 2 * kLatency));
}

int vector_of(const Problem& problem) {
  constexpr int64_t kVectorBytes = 16;
  const int64_t(&stride)[4] = problem.input.stride;
  const int64_t vector = kVectorBytes / element_bytes(problem.dtype);
  const bool are_vectors = stride[1] == 1 && problem.c_per_group() % vector == 0 &&
                           stride[0] % vector == 0 && stride[2] % vector == 0 &&
                           stride[3] % vector == 0;
  return are_vectors ? static_cast<int>(vector) : 1;
}

std::optional<Tile> choose_tile(const Problem& problem, int vector, int multiprocessors) {
  const int filters = filters_of_thread(problem.k_per_group());
  const int64_t most_chunk = vector > 1 ? kChunkVectors * vector : kPlanarChannels;
  const auto whole = static_cast<int>(std::min<int64_t>(most_chunk, problem.c_per_group()));
  const auto row_strips =
      static_cast<int>(std::min<int64_t>(kThreads, ceil_div(problem.q, strip_columns(filters))));
  std::optional<Tile> best;
  double least = std::numeric_limits<double>::infinity();
  for (int chunk = whole; chunk >= std::min(vector, whole); chunk /= 2) {
    for (int splits = 1; splits <= chunk; splits *= 2) {
      for (int parts = 1; parts <= row_strips; parts *= 2) {
        const auto strips = static_cast<int>(ceil_div(row_strips, parts));
        const auto most =
            static_cast<int>(std::min<int64_t>(problem.p, kThreads / splits / strips));
        for (int rows = most; rows >= 1; rows /= 2) {
          const Tile tile = make_tile(problem, filters, strips, rows, splits, chunk);
          if (tile.shared_bytes(problem) > kMostSharedBytes) continue;
          const double estimate = cost(problem, tile, multiprocessors);
          if (estimate >= least) continue;
          least = estimate;
          best = tile;
        }
      }
    }
    if (chunk <= vector) break;
  }
  const Tile smallest = make_tile(problem, filters, 1, 1, 1, std::min(vector, whole));
  if (!best && smallest.shared_bytes(problem) <= kMostSharedBytes) best = smallest;
  return best;
}

}  // namespace im2win::cuda::fma_strips
