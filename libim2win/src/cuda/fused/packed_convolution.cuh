// What im2win_fused and im2win_stem have in common on the host: two kernels, of which the first packs the
// filter.
#pragma once

#include <cuda_runtime.h>

#include <algorithm>
#include <cstdint>
#include <iterator>

#include "backend.hpp"
#include "cuda/device.hpp"
#include "cuda/error.hpp"
#include "cuda/fused/kernels.hpp"
#include "cuda/fused/pack_arguments.cuh"
#include "cuda/launch.cuh"

namespace im2win::cuda::fused {

template <class Element>
ExactFilter<Element> exact_filter(const void* data, const int64_t (&stride)[4]) {
  ExactFilter<Element> exact{static_cast<const Element*>(data)};
  std::copy(std::begin(stride), std::end(stride), exact.stride);
  return exact;
}

template <class Element>
class PackedConvolution : public Convolution {
 public:
  int64_t packed_filter_bytes() const override { return pack_arguments_.packed.bytes; }

  void pack_filter(const void* filter, void* packed, void* stream) const override {
    pack(pack_arguments_, filter, packed, stream);
  }

  void run(const Buffers& buffers, void* stream) const override {
    const PackedFilter& packed = pack_arguments_.packed;
    const char* filter = static_cast<const char*>(buffers.filter);
    launch(buffers, exact_filter<Element>(filter + packed.exact, packed.exact_stride), stream,
           false);
  }

  int64_t packing_bytes() const override { return pack_arguments_.packed.exact; }

  /// Inputs come while the filter is packed: the kernel that packs it has waited for what came before. The filter
  /// itself need not be kept.
  void pack_and_run(const Buffers& buffers, void* packed, void* stream) const override {
    PackArguments a = pack_arguments_;
    a.keep_nothing();
    pack(a, buffers.filter, packed, stream);
    launch(with_filter(buffers, packed), exact_filter<Element>(buffers.filter, a.stride), stream,
           true);
  }

 protected:
  /// `starts_early`: the kernels wait by themselves for the one before them.
  PackedConvolution(const PackKernels<Element>& pack, const PackArguments& pack_arguments,
                    const void* kernel, bool starts_early, int32_t device)
      : pack_(pack_arguments.rehearses ? pack.rehearsing : pack.at_once),
        pack_arguments_(pack_arguments),
        pack_shared_bytes_(pack_shared_bytes(device)),
        starts_early_(starts_early) {
    const CurrentDevice current(device);
    allow_shared_memory(kernel, shared_bytes_of_block(device));
    allow_shared_memory(reinterpret_cast<const void*>(pack_), shared_bytes_of_block(device));
  }

  /// Of both kernels.
  Start start() const { return starts_early_ ? Start::kEarly : Start::kInOrder; }

 private:
  /// The kernel that convolves, with the packed filter: perhaps right after that which packs it.
  virtual void launch(const Buffers& buffers, const ExactFilter<Element>& exact, void* stream,
                      bool follows_packing) const = 0;

  void pack(PackArguments a, const void* filter, void* packed, void* stream) const {
    if (reinterpret_cast<uintptr_t>(filter) % kUnitBytes != 0) a.words = a.lines = false;
    launch_shared("fused_pack_kernel", pack_, a.blocks, kPackThreads,
                  static_cast<size_t>(pack_shared_bytes_), stream, start(), a,
                  static_cast<const Element*>(filter), static_cast<char*>(packed));
  }

  /// Of a block that packs. So much that a multiprocessor has no more of them than where they are shared out evenly:
  /// few would crowd on the first that the kernel before leaves, and load element by element in turns.
  int64_t pack_shared_bytes(int32_t device) const {
    const int64_t elements = int64_t{kPackFilters} * pack_arguments_.pitch;
    const int64_t bytes = sizeof(PackShared<Element>) + elements * sizeof(Element);
    const int64_t each = ceil_div(pack_arguments_.blocks, int64_t{multiprocessors(device)});
    if (!pack_arguments_.loads_elements() || each >= kPackBlocks) return bytes;
    return std::max(bytes, shared_bytes_of_block(device) / (each + 1) + 1);
  }

  PackKernel<Element> pack_;
  PackArguments pack_arguments_;
  int64_t pack_shared_bytes_;
  bool starts_early_;
};

}  // namespace im2win::cuda::fused
