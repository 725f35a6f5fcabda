// What im2win_fused and im2win_stem have in common on the host: two kernels, of which the first packs the
// filter.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

#include "backend.hpp"
#include "cuda/device.hpp"
#include "cuda/error.hpp"
#include "cuda/fused/kernels.hpp"
#include "cuda/fused/pack.cuh"
#include "cuda/launch.cuh"

namespace im2win::cuda::fused {

template <class Element>
class PackedConvolution : public Convolution {
 public:
  int64_t packed_filter_bytes() const override { return pack_arguments_.packed.bytes; }

  void pack_filter(const void* filter, void* packed, void* stream) const override {
    PackArguments a = pack_arguments_;
    if (reinterpret_cast<uintptr_t>(filter) % kUnitBytes != 0) a.words = a.lines = false;
    launch_shared("fused_pack_kernel", pack_, a.blocks, kPackThreads,
                  static_cast<size_t>(pack_shared_bytes()), stream, start(), a,
                  static_cast<const Element*>(filter), static_cast<char*>(packed));
  }

  void run(const Buffers& buffers, void* stream) const override { launch(buffers, stream, false); }

  /// Inputs come while the filter is packed: the kernel that packs it has waited for what came before.
  void pack_and_run(const Buffers& buffers, void* packed, void* stream) const override {
    pack_filter(buffers.filter, packed, stream);
    launch(with_filter(buffers, packed), stream, true);
  }

 protected:
  /// `starts_early`: the kernels wait by themselves for the one before them.
  PackedConvolution(PackKernel<Element> pack, const PackArguments& pack_arguments,
                    const void* kernel, bool starts_early, int32_t device)
      : pack_(pack), pack_arguments_(pack_arguments), starts_early_(starts_early) {
    const CurrentDevice current(device);
    allow_shared_memory(kernel, shared_bytes_of_block(device));
    allow_shared_memory(reinterpret_cast<const void*>(pack_), kMaxPackSharedBytes);
  }

  /// Of both kernels.
  Start start() const { return starts_early_ ? Start::kEarly : Start::kInOrder; }

 private:
  /// The kernel that convolves, with the packed filter: perhaps right after that which packs it.
  virtual void launch(const Buffers& buffers, void* stream, bool follows_packing) const = 0;

  int pack_shared_bytes() const {
    return static_cast<int>(sizeof(PackShared<Element>)) +
           kPackFilters * pack_arguments_.pitch * static_cast<int>(sizeof(Element));
  }

  PackKernel<Element> pack_;
  PackArguments pack_arguments_;
  bool starts_early_;
};

}  // namespace im2win::cuda::fused
