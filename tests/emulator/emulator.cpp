#include "emulator.hpp"

#include <setjmp.h>
#include <ucontext.h>

#include <cstdio>
#include <cstdlib>
#include <map>
#include <memory>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "cuda/device.hpp"
#include "cuda/tensor_map.hpp"

alignas(1024) char dynamic_shared_memory[emulator::kSharedBytes];

namespace emulator {

Index thread_index, block_index, block_size, grid_size;

namespace {

constexpr size_t kStackBytes = 256 * 1024;
constexpr int kWarp = 32, kBarriers = 16;

/// A fiber begins with a context of its own, and goes on by a jump: to swap contexts takes a system call each time, for
/// the signal mask.
struct Fiber {
  ucontext_t context;
  jmp_buf rest;
  bool has_begun = false;
  std::unique_ptr<char[]> stack = std::make_unique<char[]>(kStackBytes);
  unsigned thread = 0;
  bool done = false;
  const char* waits_for = "";
  int64_t number = 0;
};

struct Barrier {
  int arrived = 0;
  uint64_t generation = 0;
};

/// Two sets of values, so that a warp may be one exchange ahead of a lane that still reads.
struct Exchange {
  uint64_t values[2][kWarp] = {};
  Barrier barrier;
};

struct Block {
  std::vector<Fiber> fibers;
  std::vector<Fiber*> waiting;  // those that have not ended
  std::vector<Exchange> warps;
  Barrier barriers[kBarriers];
  bool has_no = false;       // of a vote
  std::vector<char> shared;  // while another block runs
};

struct Cluster {
  std::vector<Block> blocks;
  Barrier barrier;
  Block* block = nullptr;  // that runs
  const std::function<void()>* body = nullptr;
  Fiber* current = nullptr;
  jmp_buf scheduler;
  bool progress = false;
  std::set<unsigned> waited;  // the blocks of the launch that have, for the kernel before
};

Cluster cluster;
std::vector<Range> readable;
int multiprocessor_count = 3;

void run_fiber() {
  (*cluster.body)();
  cluster.current->done = true;
  cluster.progress = true;
  _longjmp(cluster.scheduler, 1);
}

/// Until the fiber gives way or has ended.
void go_on(Fiber& fiber) {
  if (_setjmp(cluster.scheduler) != 0) return;
  if (fiber.has_begun) _longjmp(fiber.rest, 1);
  fiber.has_begun = true;
  setcontext(&fiber.context);
}

}  // namespace

void may_read(std::initializer_list<Range> ranges) { readable = ranges; }

void require_readable(const void* p, size_t bytes) {
  const auto* begin = static_cast<const char*>(p);
  for (const Range& range : readable)
    if (begin >= range.begin && begin + bytes <= range.end) return;
  if (!readable.empty()) fail("a kernel reads what is no tensor's");
}

namespace {

void give_way() {
  if (_setjmp(cluster.current->rest) == 0) _longjmp(cluster.scheduler, 1);
}

/// The generation that the arrival belongs to.
uint64_t arrive(Barrier& barrier, int threads) {
  const uint64_t generation = barrier.generation;
  if (++barrier.arrived == threads) {
    barrier.arrived = 0;
    ++barrier.generation;
  }
  cluster.progress = true;
  return generation;
}

void arrive_and_wait(const char* what, int64_t number, Barrier& barrier, int threads) {
  const uint64_t generation = arrive(barrier, threads);
  wait_until(what, number, [&] { return barrier.generation != generation; });
}

[[noreturn]] void fail_with_waiting() {
  std::map<std::string, std::vector<unsigned>> threads;
  for (const Block& block : cluster.blocks)
    for (const Fiber* fiber : block.waiting)
      threads[fiber->waits_for + (" " + std::to_string(fiber->number))].push_back(fiber->thread);
  for (auto& [what, who] : threads) {
    std::sort(who.begin(), who.end());
    std::fprintf(stderr, "%zu threads from %u to %u wait for %s\n", who.size(), who.front(),
                 who.back(), what.c_str());
  }
  fail("deadlock: every thread of a cluster waits");
}

void start(Block& block) {
  block.warps.assign(block.fibers.size() / kWarp, {});
  std::fill(std::begin(block.barriers), std::end(block.barriers), Barrier{});
  block.shared.assign(kSharedBytes, char(0xff));
  for (Fiber& fiber : block.fibers) {
    fiber.done = fiber.has_begun = false;
    getcontext(&fiber.context);
    fiber.context.uc_stack = {fiber.stack.get(), 0, kStackBytes};
    fiber.context.uc_link = nullptr;
    makecontext(&fiber.context, run_fiber, 0);
    block.waiting.push_back(&fiber);
  }
}

/// Each thread until it waits.
void go_around(Block& block, std::mt19937& random) {
  cluster.block = &block;
  std::memcpy(dynamic_shared_memory, block.shared.data(), kSharedBytes);
  std::shuffle(block.waiting.begin(), block.waiting.end(), random);
  for (Fiber* fiber : block.waiting) {
    cluster.current = fiber;
    thread_index = {fiber->thread, 0, 0};
    go_on(*fiber);
  }
  std::erase_if(block.waiting, [](const Fiber* fiber) { return fiber->done; });
  std::memcpy(block.shared.data(), dynamic_shared_memory, kSharedBytes);
}

void run_cluster(unsigned first_block, std::mt19937& random) {
  const auto is_done = [](const Block& block) { return block.waiting.empty(); };
  cluster.barrier = {};
  for (Block& block : cluster.blocks) start(block);
  while (!std::all_of(cluster.blocks.begin(), cluster.blocks.end(), is_done)) {
    cluster.progress = false;
    for (unsigned i = 0; i < cluster.blocks.size(); ++i) {
      block_index = {first_block + i, 0, 0};
      go_around(cluster.blocks[i], random);
    }
    if (!cluster.progress) fail_with_waiting();
  }
}

}  // namespace

void launch(int64_t blocks, int cluster_blocks, int threads, const std::function<void()>& body) {
  std::mt19937 random(2023);
  cluster.body = &body;
  cluster.waited.clear();
  cluster.blocks.resize(static_cast<size_t>(cluster_blocks));
  for (Block& block : cluster.blocks) {
    block.fibers.resize(static_cast<size_t>(threads));
    for (unsigned i = 0; i < block.fibers.size(); ++i) block.fibers[i].thread = i;
  }
  block_size = {static_cast<unsigned>(threads), 1, 1};
  grid_size = {static_cast<unsigned>(blocks), 1, 1};
  for (unsigned i = 0; i < grid_size.x; i += static_cast<unsigned>(cluster_blocks))
    run_cluster(i, random);
}

void wait_for_kernel_before() { cluster.waited.insert(block_index.x); }

bool all_blocks_waited() { return cluster.waited.size() == grid_size.x; }

void set_multiprocessors(int count) { multiprocessor_count = count; }

char* shared_memory_of(int block) {
  Block& other = cluster.blocks[static_cast<size_t>(block)];
  return &other == cluster.block ? dynamic_shared_memory : other.shared.data();
}

void with_shared_memory_of(int block, const std::function<void()>& use) {
  Block& other = cluster.blocks[static_cast<size_t>(block)];
  if (&other == cluster.block) return use();
  std::swap_ranges(other.shared.begin(), other.shared.end(), dynamic_shared_memory);
  use();
  std::swap_ranges(other.shared.begin(), other.shared.end(), dynamic_shared_memory);
}

bool all_in_block(bool value) {
  const auto meet = [] { barrier(0, static_cast<int>(block_size.x)); };
  bool& has_no = cluster.block->has_no;
  has_no = has_no || !value;
  meet();
  const bool all = !has_no;
  meet();
  has_no = false;
  meet();
  return all;
}

void meet_in_cluster() {
  Barrier& barrier = cluster.barrier;
  const uint64_t generation = barrier.generation;
  ++barrier.arrived;
  cluster.progress = true;
  wait_until("cluster", 0, [&] {
    if (barrier.generation != generation) return true;
    int threads = 0;
    for (const Block& block : cluster.blocks)
      threads += static_cast<int>(std::count_if(block.waiting.begin(), block.waiting.end(),
                                                [](const Fiber* fiber) { return !fiber->done; }));
    if (barrier.arrived < threads) return false;
    barrier.arrived = 0;
    ++barrier.generation;
    return true;
  });
}

void fail(const char* what) {
  std::fprintf(stderr, "block %u: %s\n", block_index.x, what);
  std::exit(1);
}

void wait_until(const char* what, int64_t number, const std::function<bool()>& condition) {
  const Index own = thread_index;
  cluster.current->waits_for = what;
  cluster.current->number = number;
  while (!condition()) {
    give_way();
    thread_index = own;
  }
  cluster.progress = true;
}

void barrier(int id, int threads) {
  arrive_and_wait("barrier", id, cluster.block->barriers[id], threads);
}

void barrier_arrive(int id, int threads) { arrive(cluster.block->barriers[id], threads); }

const uint64_t* exchange(uint64_t value) {
  Exchange& warp = cluster.block->warps[thread_index.x / kWarp];
  uint64_t* values = warp.values[warp.barrier.generation % 2];
  values[thread_index.x % kWarp] = value;
  arrive_and_wait("warp", thread_index.x / kWarp, warp.barrier, kWarp);
  return values;
}

}  // namespace emulator

// What the library asks of the device and the CUDA runtime.

namespace im2win::cuda {

CurrentDevice::CurrentDevice(int32_t) {}
CurrentDevice::~CurrentDevice() {}
int multiprocessors(int32_t) { return emulator::multiprocessor_count; }
int compute_capability(int32_t) { return 90; }
int shared_bytes_of_block(int32_t) { return emulator::kSharedBytes; }

CUtensorMap tensor_map(CUtensorMapDataType type, int64_t element_bytes, const void* data,
                       const Tensor& tensor, const Box& box) {
  emulator::TensorMap map{};
  static_assert(sizeof map <= sizeof(CUtensorMap));
  map.data = static_cast<char*>(const_cast<void*>(data));
  map.element_bytes = element_bytes;
  map.swizzled = box.swizzled;
  map.rounded = type == CU_TENSOR_MAP_DATA_TYPE_TFLOAT32;
  for (int i = 0; i < 4; ++i) {
    map.size[i] = tensor.size[box.order[i]];
    map.stride_bytes[i] = i == 0 ? element_bytes : tensor.stride[box.order[i]] * element_bytes;
    map.box[i] = box.sides[i];
    if (i > 0 && map.size[i] > 1 && (map.stride_bytes[i] <= 0 || map.stride_bytes[i] % 16 != 0))
      emulator::fail("a tensor map of no whole words");
    if (map.size[i] < 1 || map.box[i] < 1 || map.box[i] > 256)
      emulator::fail("a tensor map of impossible sizes");
  }
  if (map.box[0] * element_bytes % 16 != 0) emulator::fail("a tensor map of no whole rows");
  if (reinterpret_cast<uintptr_t>(data) % 16 != 0) emulator::fail("a misaligned tensor map");
  CUtensorMap result{};
  std::memcpy(&result, &map, sizeof map);
  return result;
}

}  // namespace im2win::cuda

cudaError_t cudaFuncSetAttribute(const void*, cudaFuncAttribute, int) { return cudaSuccess; }
cudaError_t cudaGetLastError() { return cudaSuccess; }
const char* cudaGetErrorName(cudaError_t) { return ""; }
const char* cudaGetErrorString(cudaError_t) { return ""; }
