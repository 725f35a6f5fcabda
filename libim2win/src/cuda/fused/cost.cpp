#include "cuda/fused/cost.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "cuda/fused/raw_lines.hpp"
#include "cuda/fused/shared.hpp"

namespace im2win::cuda::fused {

// They fit the times of about 900 tiles of the paper's and ResNet-50's layers on an H200, those of split operands
// of 190, and of 130 that are held, at batches of 8 to 128; those of 290 of TF32 in NCHW (of many tiles, of 700) and
// 2600 in boxes what tiles of a layer take beside each other, as those of 16 bits, of 750 in boxes, 420 of transposed
// lines (and 710 for the tables of runs), of 335 of words of pixels, and 424 of TF32's windows from lines; of 1100 in
// boxes whose rows end amid sectors, and of 4000 what makes small layers take as long as they do; and, on an H100, of rows
// of pixels.
struct CostModel::Rates {
  double norm;             // see cycles()
  double batch, slab_end;  // cycles of a warpgroup that multiplies, beside those of products
  double low_sums_batch = 0, low_sums_slab_end = 0;  // with sums of low products (KernelShape)
  double filters = 0;                                // cycles a byte
  double filter_read = 0;                            // of a product; see shared_cycles()
  // Of a slab and of each of its units: from the input as it is, from boxes of lines, from lines; of a line.
  double slab = 0, unit = 0;
  double position = 0;      // and of its positions, rows of a box, however wide
  double part_sectors = 0;  // of a row of windows or filters: see row_cycles()
  // And more, where rows of strided boxes go past the input's channels, as those of 24 of 32 do.
  double past_channels = 0;
  double boxed_slab = 0, boxed_unit = 0;
  double group = 0, placed_unit = 0;  // of a tap group, and of each unit whose offset it changes
  double lined_slab = 0, lined_unit = 0, line = 0;
  // Of a unit of lines, for each lane that meets another in a bank of shared memory.
  double conflict = 0;
  // Of words that are read to be transposed, and of the units that they become.
  double transposed_word = 0, transposed_unit = 0;
  // Of a run: its table, if that is its own, and finding anew where units of a tap group go.
  double run_table = 0, run_unit = 0;
  // Until a slab has come that has room, and a stage of filters: others come meanwhile.
  double latency = 0, filter_latency = 0;
  double few_threads = 1;  // times as long with half of the staging threads
  // Of writing a tile, its columns, if they go out by words or one by one, and pieces of memory; or of boxes.
  double tile = 0, column = 25, odd_column = 25, piece = 300;
  double word_column = 25;  // of filters that are neighbours
  double plane_tile = 0;    // or of whole planes
  double stored_tile = 0, stored_column = 0;
  // How much of the writing nothing multiplies during, unless warpgroups take turns; above 1, what it waits for besides.
  double alone = 0;
  double last_column = 0;  // and of 128 filters of a column of the last tile, which nothing hides
  // Of adding a cluster's sums, for each doubling of its blocks, and for each column of sums to be sent to the others.
  double cluster = 3300, cluster_bit = 150, cluster_column = 36;
  // Before all that, as tables are made, and instructions gone through for the first time take ten cycles each: more
  // than where rows of pixels are boxes.
  double start = 0;
  double busy = 0;  // and of all that have a block: others begin with the next call meanwhile
};

const CostModel::Rates& CostModel::rates(const Tile& tile, bool copied) const {
  static constexpr Rates kSplit = {.norm = 2.39,
                                   .batch = 1000,
                                   .slab_end = 760,
                                   .low_sums_batch = 570,
                                   .low_sums_slab_end = 1090,
                                   .slab = 3750,
                                   .unit = 7.1,
                                   .boxed_slab = 1640,
                                   .boxed_unit = 2.55,
                                   .lined_slab = 4880,
                                   .lined_unit = 1.4,
                                   .line = 41,
                                   .conflict = 0.3,
                                   .few_threads = 1.63,
                                   .tile = 430,
                                   .column = 28.5,
                                   .odd_column = 45,
                                   .piece = 177,
                                   .word_column = 39};
  // Of single pixels: a warpgroup that multiplies is hindered by those who stage, whatever a batch takes it.
  static constexpr Rates kHeld = {.norm = 2.39,
                                  .batch = 0,
                                  .slab_end = 0,
                                  .boxed_slab = 1830,
                                  .boxed_unit = 1.93,
                                  .tile = 4910,
                                  .column = 4.1,
                                  .odd_column = 20.6,
                                  .piece = 177,
                                  .word_column = 76};
  static constexpr Rates kCopied = {.norm = 8,
                                    .batch = 450,
                                    .slab_end = 30,
                                    .filters = 1.0 / 22,
                                    .slab = 450,
                                    .unit = 1.5,
                                    .few_threads = 1.3,
                                    .start = 10900};
  static constexpr Rates kBoxed = {.norm = 2.64,
                                   .batch = 0,
                                   .slab_end = 194,
                                   .filters = 1.0 / 95,
                                   .filter_read = 32,
                                   .unit = 0.171,
                                   .position = 1.41,
                                   .part_sectors = 4.5,
                                   .past_channels = 1,
                                   .latency = 996,
                                   .filter_latency = 1172,
                                   .word_column = 43.3,
                                   .stored_tile = 110,
                                   .stored_column = 6.3,
                                   .alone = 0.95,
                                   .cluster = 1370,
                                   .cluster_bit = 0,
                                   .cluster_column = 39,
                                   .start = 2300,
                                   .busy = 3450};
  static constexpr Rates kBoxedTf32 = {.norm = 6.07,
                                       .batch = 58,
                                       .slab_end = 199,
                                       .filters = 1.0 / 44,
                                       .filter_read = 32,
                                       .position = 2.36,
                                       .part_sectors = 5.5,
                                       .past_channels = 2.62,
                                       .latency = 2168,
                                       .filter_latency = 1466,
                                       .word_column = 25.6,
                                       .stored_column = 10.2,
                                       .alone = 2.43,
                                       .cluster = 1560,
                                       .cluster_bit = 0,
                                       .cluster_column = 53.5,
                                       .start = 1770,
                                       .busy = 3100};
  static constexpr Rates kPixelRows = {.norm = 1.5,
                                       .batch = 0,
                                       .slab_end = 250,
                                       .slab = 120,
                                       .unit = 0.5,
                                       .tile = 2600,
                                       .stored_tile = 300,
                                       .stored_column = 18.5,
                                       .last_column = 9,
                                       .cluster = 4900};
  static constexpr Rates kPixelWords = {.norm = 2.2,
                                        .batch = 0,
                                        .slab_end = 580,
                                        .slab = 320,
                                        .unit = 0.36,
                                        .latency = 2400,
                                        .tile = 30,
                                        .column = 10.2,
                                        .odd_column = 13,
                                        .piece = 560,
                                        .last_column = 22.5,
                                        .cluster = 1620,
                                        .start = 730};
  // TF32's windows from lines.
  static constexpr Rates kLines = {.norm = 2.03,
                                   .batch = 319,
                                   .slab_end = 0,
                                   .unit = 0.555,
                                   .line = 0.92,
                                   .conflict = 130,
                                   .latency = 300,
                                   .tile = 650,
                                   .column = 11.5,
                                   .odd_column = 21.4,
                                   .alone = 1.05,
                                   .last_column = 19,
                                   .start = 2040};
  static constexpr double kTables = 8000;
  static constexpr Rates kGathered = {.norm = 2.5,
                                      .batch = 560,
                                      .slab_end = 0,
                                      .slab = 1420,
                                      .unit = 4.9,
                                      .boxed_slab = 1700,
                                      .boxed_unit = 1.35,
                                      .lined_slab = 2500,
                                      .lined_unit = 1.36,
                                      .line = 24,
                                      .few_threads = 2.2,
                                      .tile = 1130,
                                      .column = 20,
                                      .odd_column = 20,
                                      .piece = 120,
                                      .start = kTables};
  static constexpr Rates kGatheredTf32 = {.norm = 2.47,
                                          .batch = 122,
                                          .slab_end = 532,
                                          .filters = 1.0 / 55,
                                          .slab = 1420,
                                          .unit = 4.9,
                                          .boxed_slab = 535,
                                          .boxed_unit = 3.35,
                                          .lined_slab = 4370,
                                          .lined_unit = 2.8,
                                          .line = 45,
                                          .few_threads = 2.04,
                                          .tile = 1994,
                                          .column = 8.2,
                                          .odd_column = 18.5,
                                          .piece = 42,
                                          .alone = 1,
                                          .start = kTables};
  // Where units are moved by a table of their offsets.
  constexpr auto placed = [](Rates rates, double slab, double unit, double few_threads) {
    rates.boxed_slab = slab;
    rates.boxed_unit = unit;
    rates.group = 1800;
    rates.placed_unit = 1;
    rates.few_threads = few_threads;
    return rates;
  };
  static constexpr Rates kPlacedSplit = placed(kSplit, 1200, 2.3, 1.4);
  static constexpr Rates kPlacedTf32 = placed(kGatheredTf32, 0, 1.35, 1.12);
  // Of many tiles: what writes, twice the bytes of 16 bits, waits for memory many times as long as it takes to get there.
  static constexpr Rates kManyPlacedTf32 = {.norm = 4.6,
                                            .batch = 10,
                                            .slab_end = 0,
                                            .filters = 1.0 / 200,
                                            .boxed_slab = 760,
                                            .boxed_unit = 0.865,
                                            .group = 500,
                                            .placed_unit = 0.4,
                                            .latency = 3840,
                                            .filter_latency = 1650,
                                            .few_threads = 1.17,
                                            .tile = 765,
                                            .column = 0,
                                            .odd_column = 4.7,
                                            .piece = 59,
                                            .alone = 9.2,
                                            .start = kTables};
  // Of single pixels.
  static constexpr Rates kManyPlacedTf32Pixels = {.norm = 3.35,
                                                  .batch = 24,
                                                  .slab_end = 600,
                                                  .filters = 1.0 / 400,
                                                  .boxed_slab = 674,
                                                  .boxed_unit = 1,
                                                  .group = 2,
                                                  .placed_unit = 1.87,
                                                  .latency = 1856,
                                                  .filter_latency = 1236,
                                                  .few_threads = 1.33,
                                                  .tile = 690,
                                                  .column = 3.1,
                                                  .odd_column = 7.6,
                                                  .piece = 76,
                                                  .alone = 5.1,
                                                  .start = kTables};
  static constexpr Rates kTransposed = {.norm = 1.73,
                                        .batch = 83,
                                        .slab_end = 14,
                                        .filters = 1.0 / 97,
                                        .transposed_word = 0.387,
                                        .transposed_unit = 0.59,
                                        .run_table = 900,
                                        .run_unit = 0.1,
                                        .latency = 1090,
                                        .filter_latency = 902,
                                        .tile = 2240,
                                        .column = 7.9,
                                        .odd_column = 20.9,
                                        .piece = 302,
                                        .plane_tile = 4020,
                                        .last_column = 11,
                                        .start = kTables};
  const bool is_tf32 = operands_ == Operands::kTf32;
  if (tile.from_lines) return kLines;
  if (tile.raw.transposed()) return kTransposed;
  if (tile.pixel_word > 0) return kPixelWords;
  if (tile.pixel_rows) return kPixelRows;
  if (tile.boxed()) return is_tf32 ? kBoxedTf32 : kBoxed;
  if (tile.held) return kHeld;
  if (has_unit_offsets(tile, operands_)) {
    if (!is_tf32) return kPlacedSplit;
    if (!has_many_tiles()) return kPlacedTf32;
    return problem_.r == 1 && problem_.s == 1 ? kManyPlacedTf32Pixels : kManyPlacedTf32;
  }
  if (split_) return kSplit;
  if (copied) return kCopied;
  // What was fitted is of bulk copies; the portable kernel keeps what it had.
  return is_tf32 && chip_.bulk_copies ? kGatheredTf32 : kGathered;
}

bool CostModel::has_many_tiles() const {
  constexpr int64_t kFilters = 64, kFewChannels = 32;
  constexpr double kColumns = 300;  // of such filters, about a tile of 128
  const auto filters = double(problem_.groups * ceil_div(problem_.k_per_group(), kFilters));
  return problem_.c_per_group() >= kFewChannels &&
         double(problem_.output_pixels()) * filters > kColumns * chip_.multiprocessors;
}

double CostModel::cycles(const Tile& tile, const KernelShape& shape) const {
  constexpr double kMeeting = 200;  // of blocks that share windows, before all else
  const Rates& rates = this->rates(tile, has_units_ || copies(tile));
  // A block has this part of a tile's slabs, at most.
  const double share = std::ceil(double(tile.slabs()) / tile.cluster_blocks()) / tile.slabs();
  const double slabs = share * tile.slabs();
  const double batches = share * double(batch_count(tile, traits_));
  const double steps = share * static_cast<double>(tile.total_steps());
  const double warpgroups = shape.multiplying_warpgroups;
  const int sets = shape.sets();
  const double product = (shape.pixel_major ? shape.filters : tile.product_columns) / 2.0;
  const double own_products = sets * steps * product * (split_ ? 3 : 1);
  const double products = own_products * (shape.takes_turns ? 1 : warpgroups);
  const bool low_sums = split_ && shape.has_low_sums();
  const double batch = low_sums ? rates.low_sums_batch : rates.batch;
  const double slab_end = low_sums ? rates.low_sums_slab_end : rates.slab_end;
  const double writing = sets * write_cycles(tile, shape) / tile.cluster_blocks();
  const double reading =
      tile.from_lines ? rates.conflict * sets * batches * line_conflicts(tile) : 0;
  const double own = own_products + batch * batches + slab_end * slabs + reading + writing +
                     cluster_cycles(tile, rates);
  const double blocks = tile_count(problem_, tile, shape) * tile.cluster_blocks();
  const double waves = std::max(1.0, std::ceil(blocks / chip_.multiprocessors));
  const double turns = shape.takes_turns ? std::ceil(waves / warpgroups) / waves : 1;
  const double filter_bytes = steps * 2 * shape.filters * kUnitBytes;
  const double filters = tile.resident ? 0 : filter_bytes * rates.filters;
  const double slab = slab_cycles(tile, shape);
  const double latency = slabs * rates.latency / (tile.slab_stages - 1);
  const double filter_latency =
      tile.resident ? 0 : batches * rates.filter_latency / std::max(tile.filter_stages - 1, 1);
  const double shared = shared_cycles(tile, shape, steps, slabs);
  // All multiprocessors ask the L2 cache, or as many as have something to do.
  const double asking = std::min(blocks / chip_.multiprocessors, 1.0);
  const double rows = asking * row_cycles(tile, shape, slabs, batches);
  // What is under way at the same time hinders each other, the more the closer they are.
  const auto power = [&](double x) { return std::pow(x, rates.norm); };
  const double cycles =
      std::pow(power(products) + power(turns * own) + power(slabs * slab) + power(latency) +
                   power(filters) + power(filter_latency) + power(shared) + power(rows),
               1 / rates.norm);
  const double alone = shape.takes_turns ? 0 : rates.alone * writing;
  const double last = rates.last_column * tile.product_columns * shape.filters / 128;
  const double start = rates.start + rates.busy * asking + (tile.shares_windows ? kMeeting : 0);
  return start + waves * (cycles + alone) + slab + last + pack_cycles(tile);
}

double CostModel::shared_cycles(const Tile& tile, const KernelShape& shape, double steps,
                                double slabs) const {
  constexpr double kWritten = 128;  // bytes a cycle
  const double read = rates(tile, has_units_ || copies(tile)).filter_read;
  if (read == 0) return 0;
  const int products = shape.sets() * (shape.takes_turns ? 1 : shape.multiplying_warpgroups);
  const double windows = slabs * tile.positions * tile.units;
  const double filters = tile.resident ? 0 : steps * 2 * shape.filters;
  return products * steps * read + (windows + filters) * kUnitBytes / kWritten;
}

double CostModel::row_cycles(const Tile& tile, const KernelShape& shape, double slabs,
                             double batches) const {
  const double row = rates(tile, has_units_ || copies(tile)).part_sectors;
  if (row == 0) return 0;
  const int64_t bytes = moved_bytes(operands_);
  const bool has_filters = tile.resident == 0 && has_filter_boxes(problem_, operands_, tile);
  const double windows = has_whole_sectors(problem_.input, bytes) ? 0 : slabs * tile.positions;
  const double filters =
      has_filters && !has_whole_sectors(problem_.filter, bytes) ? batches * shape.filters : 0;
  return row * (windows / tile.launched_together() + filters);
}

double CostModel::pack_cycles(const Tile& tile) const {
  constexpr double kPackKernel = 3500, kMergedElement = 0.01;
  if (has_filter_boxes(problem_, operands_, tile)) return 0;
  // Most of what is packed of merged groups are zeros.
  const double merged =
      has_merged_groups(problem_) ? double(problem_.k) * double(problem_.window_elements()) : 0;
  return kPackKernel + kMergedElement * merged;
}

double CostModel::cluster_cycles(const Tile& tile, const Rates& rates) {
  if (tile.cluster_bits == 0) return 0;
  // 512 bytes a warpgroup, mostly 14 a cycle.
  const double sent = 1 - 1.0 / tile.cluster_blocks();
  return rates.cluster + rates.cluster_bit * tile.cluster_bits +
         rates.cluster_column * sent * tile.product_columns;
}

double CostModel::write_cycles(const Tile& tile, const KernelShape& shape) const {
  const Rates& rates = this->rates(tile, has_units_ || copies(tile));
  if (tile.stored) return rates.stored_tile + rates.stored_column * shape.columns;
  if (tile.whole_planes) return rates.plane_tile;
  const bool is_odd = row_word(problem_, tile) == 1;
  const double column = is_odd ? rates.odd_column : rates.column;
  if (tile.from_lines) {
    const auto filters = double(problem_.k_per_group());
    return rates.tile + column * filters / std::ceil(filters / shape.filters);
  }
  if (problem_.output.stride[1] == 1) return rates.word_column * shape.columns;
  // Neighbours in memory that a warp writes at once: memory takes longer for parts of its sectors, which
  // are where these begin and end.
  const bool whole_rows = tile.run > 0 || (tile.images == 1 && tile.columns == problem_.q);
  const int neighbours = std::min(whole_rows ? 64 : tile.columns, is_odd ? 32 : 64);
  return rates.tile + column * shape.columns + rates.piece * shape.block_columns() / neighbours;
}

double CostModel::slab_cycles(const Tile& tile, const KernelShape& shape) const {
  constexpr int64_t kBankBytes = 128, kBankWord = 4;  // of all banks, and of one
  const Rates& rates = this->rates(tile, copies(tile));
  const double words = double(tile.raw_lines()) * tile.raw.pitch / traits_.unit_elements;
  if (tile.from_lines)
    return rates.slab + rates.unit * words + rates.line * double(tile.raw_lines());
  const double all_units =
      double(tile.pixel_word > 0 ? tile.product_columns : tile.positions) * tile.units;
  const double times = shape.staging_warpgroups < 2 ? rates.few_threads : 1;
  if (tile.raw.transposed()) {
    const double word = rates.transposed_word + rates.transposed_unit * tile.raw.pixel_positions;
    return word * words * times + (tile.run > 0 ? run_cycles(tile, shape, words) : 0);
  }
  // Copies of 8 and 4 bytes take 1.5 and 2.5 times as long as one of a whole unit.
  const double copies = tile.pixel_word > 0  ? pixel_copies(tile)
                        : this->copies(tile) ? 0.5 + 0.5 * kUnitBytes / copied_bytes_
                                             : 1;
  const double units = all_units * times * copies;
  if (tile.boxed() || tile.raw.stages == 0) {
    const double more = problem_.stride_w > 1 ? rates.past_channels * last_chunks(tile) : 0;
    return rates.slab + (1 + more) * (rates.unit * units + rates.position * tile.positions);
  }
  if (tile.raw.boxed) {
    const bool stays = tile.raw.has_zeros_around && tile.run == 0;
    const double group = rates.group + (stays ? 0 : rates.placed_unit * units);
    return rates.boxed_slab + rates.boxed_unit * units + group / tile.chunks;
  }
  const int64_t apart = raw_column_elements(problem_) * problem_.stride_w * moved_bytes(operands_);
  const double meetings = std::max(double(std::gcd(apart, kBankBytes)) / kBankWord, 1.0);
  const double unit = rates.lined_unit + rates.conflict * (meetings - 1);
  return rates.lined_slab + unit * units + rates.line * double(tile.raw_lines());
}

double CostModel::line_conflicts(const Tile& tile) const {
  const int steps = problem_.stride_w % 2 == 0 ? 2 : 1;
  return (steps << tile.raw.phase_bits) - 1;
}

double CostModel::pixel_copies(const Tile& tile) const {
  constexpr double kOfWords = 2.6, kOneByOne = 7.5;  // of pixels that are apart
  if (problem_.stride_w > 1) return tile.pixel_word > 1 ? kOfWords : kOneByOne;
  // Words of 8 bytes are part of what a slab takes, and shorter ones take more.
  return kWordPixels / 2 - tile.pixel_word;
}

double CostModel::last_chunks(const Tile& tile) const {
  const int64_t chunk = int64_t{tile.units} * tile.unit_channels;
  return problem_.c_per_group() % chunk == 0 ? 0 : 1.0 / tile.chunks;
}

double CostModel::run_cycles(const Tile& tile, const KernelShape& shape, double words) const {
  const Rates& rates = this->rates(tile, false);
  const bool shares_table =
      has_table_of_rows(tile) || has_table_of_runs(tile, problem_.w, problem_.stride_h);
  const double table = shares_table ? 0 : rates.run_table / tile.slabs();
  const double moves = rates.run_unit * words * tile.raw.pixel_positions / tile.chunks;
  return (table + moves) * (shape.staging_warpgroups < 2 ? 2 : 1);
}

}  // namespace im2win::cuda::fused
