#include "emulator.hpp"

#include <ucontext.h>

#include <cstdio>
#include <cstdlib>
#include <map>
#include <memory>
#include <random>
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

struct Fiber {
  ucontext_t context;
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
  std::vector<Exchange> warps;
  Barrier barriers[kBarriers];
  const std::function<void()>* body = nullptr;
  Fiber* current = nullptr;
  ucontext_t scheduler;
  bool progress = false;
};

Block block;
std::vector<Range> readable;

void run_fiber() {
  (*block.body)();
  block.current->done = true;
  block.progress = true;
  swapcontext(&block.current->context, &block.scheduler);
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

void give_way() { swapcontext(&block.current->context, &block.scheduler); }

/// The generation that the arrival belongs to.
uint64_t arrive(Barrier& barrier, int threads) {
  const uint64_t generation = barrier.generation;
  if (++barrier.arrived == threads) {
    barrier.arrived = 0;
    ++barrier.generation;
  }
  block.progress = true;
  return generation;
}

void arrive_and_wait(const char* what, int64_t number, Barrier& barrier, int threads) {
  const uint64_t generation = arrive(barrier, threads);
  wait_until(what, number, [&] { return barrier.generation != generation; });
}

[[noreturn]] void fail_with_waiting(const std::vector<Fiber*>& waiting) {
  std::map<std::string, std::vector<unsigned>> threads;
  for (const Fiber* fiber : waiting)
    threads[fiber->waits_for + (" " + std::to_string(fiber->number))].push_back(fiber->thread);
  for (auto& [what, who] : threads) {
    std::sort(who.begin(), who.end());
    std::fprintf(stderr, "%zu threads from %u to %u wait for %s\n", who.size(), who.front(),
                 who.back(), what.c_str());
  }
  fail("deadlock: every thread of a block waits");
}

void run_block(std::mt19937& random) {
  std::vector<Fiber*> waiting;
  for (Fiber& fiber : block.fibers) {
    fiber.done = false;
    getcontext(&fiber.context);
    fiber.context.uc_stack = {fiber.stack.get(), 0, kStackBytes};
    fiber.context.uc_link = nullptr;
    makecontext(&fiber.context, run_fiber, 0);
    waiting.push_back(&fiber);
  }
  while (!waiting.empty()) {
    std::shuffle(waiting.begin(), waiting.end(), random);
    block.progress = false;
    for (Fiber* fiber : waiting) {
      block.current = fiber;
      thread_index = {fiber->thread, 0, 0};
      swapcontext(&block.scheduler, &fiber->context);
    }
    if (!block.progress) fail_with_waiting(waiting);
    std::erase_if(waiting, [](const Fiber* fiber) { return fiber->done; });
  }
}

}  // namespace

void launch(int64_t blocks, int threads, const std::function<void()>& body) {
  std::mt19937 random(2023);
  block.body = &body;
  block.fibers.resize(static_cast<size_t>(threads));
  for (unsigned i = 0; i < block.fibers.size(); ++i) block.fibers[i].thread = i;
  block_size = {static_cast<unsigned>(threads), 1, 1};
  grid_size = {static_cast<unsigned>(blocks), 1, 1};
  for (unsigned i = 0; i < grid_size.x; ++i) {
    block.warps.assign(static_cast<size_t>(threads / kWarp), {});
    std::fill(std::begin(block.barriers), std::end(block.barriers), Barrier{});
    std::memset(dynamic_shared_memory, 0xff, kSharedBytes);
    block_index = {i, 0, 0};
    run_block(random);
  }
}

void fail(const char* what) {
  std::fprintf(stderr, "block %u: %s\n", block_index.x, what);
  std::exit(1);
}

void wait_until(const char* what, int64_t number, const std::function<bool()>& condition) {
  const Index own = thread_index;
  block.current->waits_for = what;
  block.current->number = number;
  while (!condition()) {
    give_way();
    thread_index = own;
  }
  block.progress = true;
}

void barrier(int id, int threads) { arrive_and_wait("barrier", id, block.barriers[id], threads); }

void barrier_arrive(int id, int threads) { arrive(block.barriers[id], threads); }

const uint64_t* exchange(uint64_t value) {
  Exchange& warp = block.warps[thread_index.x / kWarp];
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
int multiprocessors(int32_t) { return 3; }
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
