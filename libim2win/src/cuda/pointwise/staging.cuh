// Inputs and filters on their way to shared memory: both are rows of neighbouring channels, and come by chunks of
// these to swizzled rows of 32 to 128 bytes, as wgmma reads them.
#pragma once

#include <cuda/ptx>

#include <cstdint>

#include "cuda/fused/tile.hpp"
#include "cuda/pointwise/arguments.cuh"
#include "cuda/ptx.cuh"

namespace im2win::cuda::pointwise {

/// As boxes, by a thread. What is outside the tensor comes as zeros.
template <class T>
class BoxStaging {
 public:
  __device__ __forceinline__ explicit BoxStaging(const Arguments<typename T::Element>& a)
      : a_(a), share_(a, T::kShape.filters()) {}

  __device__ __forceinline__ void bring_filters() const {
    const int bytes = T::kShape.filters() * a_.tile.row_bytes();
    uint64_t* const full = &shared<T>().filters_full;
    announce(full, static_cast<uint32_t>(a_.tile.chunks * bytes));
    for (int chunk = 0; chunk < a_.tile.chunks; ++chunk)
      bring(dynamic_shared_memory + kFiltersBegin + chunk * bytes, a_.filter_boxes, chunk,
            share_.first_filter, full);
  }

  __device__ __forceinline__ void bring_inputs() const {
    auto& stages = shared<T>().stages;
    fused::Cursor at;
    for (int32_t tile = share_.first_tile; tile < a_.tiles; tile += share_.step)
      for (int chunk = 0; chunk < a_.tile.chunks; ++chunk, at.advance(a_.tile.stages)) {
        stages.wait_empty(at);
        announce(&stages.full[at.stage], kStageBytes);
        bring(dynamic_shared_memory + a_.tile.stages_begin + at.stage * kStageBytes, a_.input_boxes,
              chunk, tile * a_.tile.pixels, &stages.full[at.stage]);
      }
  }

 private:
  __device__ __forceinline__ static void announce(uint64_t* full, uint32_t bytes) {
    namespace ptx = ::cuda::ptx;
    ptx::mbarrier_arrive_expect_tx(ptx::sem_release, ptx::scope_cta, ptx::space_shared, full,
                                   bytes);
  }
  __device__ __forceinline__ static void bring(char* to, const CUtensorMap& boxes, int chunk,
                                               int32_t row, uint64_t* full) {
    namespace ptx = ::cuda::ptx;
    const int32_t at[] = {chunk * kStageChannels, row, 0, 0};
    ptx::cp_async_bulk_tensor(ptx::space_cluster, ptx::space_global, to, &boxes, at, full);
  }

  const Arguments<typename T::Element>& a_;
  Share share_;
};

/// By the copies of a warpgroup, words of kWord elements, where these are no whole words of 16 bytes.
template <class T, int kWord>
class WordStaging {
 public:
  using Element = typename T::Element;

  __device__ __forceinline__ explicit WordStaging(const Arguments<Element>& a)
      : a_(a), share_(a, T::kShape.filters()) {}

  __device__ __forceinline__ void bring_filters() const {
    const Rows filters = {a_.filter + share_.first_filter * a_.filter_stride, a_.filter_stride,
                          a_.filters - share_.first_filter};
    for (int chunk = 0; chunk < a_.tile.chunks; ++chunk)
      bring(
          dynamic_shared_memory + kFiltersBegin + chunk * T::kShape.filters() * a_.tile.row_bytes(),
          T::kShape.filters(), filters, chunk);
    arrive(&shared<T>().filters_full);
  }

  __device__ __forceinline__ void bring_inputs() const {
    auto& stages = shared<T>().stages;
    fused::Cursor at;
    for (int32_t tile = share_.first_tile; tile < a_.tiles; tile += share_.step) {
      const int32_t pixel = tile * a_.tile.pixels;
      const Rows pixels = {a_.input + pixel * a_.input_stride, a_.input_stride, a_.pixels - pixel};
      for (int chunk = 0; chunk < a_.tile.chunks; ++chunk, at.advance(a_.tile.stages)) {
        stages.wait_empty(at);
        bring(dynamic_shared_memory + a_.tile.stages_begin + at.stage * kStageBytes, a_.tile.pixels,
              pixels, chunk);
        arrive(&stages.full[at.stage]);
      }
    }
  }

 private:
  static constexpr int kBytes = kWord * static_cast<int>(sizeof(Element));
  static constexpr int kUnitElements = fused::kUnitBytes / static_cast<int>(sizeof(Element));

  __device__ __forceinline__ static void arrive(uint64_t* full) {
    if constexpr (kBytes >= 4) {
      ptx::arrive_after_copies(full);
    } else {
      ::cuda::ptx::mbarrier_arrive(full);
    }
  }

  /// Of neighbouring channels, that many rows.
  struct Rows {
    const Element* begin;
    int64_t stride;
    int count;
  };

  /// What products meet of a chunk of the rows' channels, `places` of them: zeros where there are none.
  __device__ __forceinline__ void bring(char* to, int places, const Rows& rows, int chunk) const {
    const int channels = a_.channels - chunk * kStageChannels;
    const int words = (min(channels, kStageChannels) + kStepChannels - 1) / kStepChannels *
                      (kStepChannels / kWord);
    const int thread = ptx::thread_in_block(), rows_on = 128 / words, words_on = 128 % words;
    const Element* const from = rows.begin + chunk * kStageChannels;
    int row = thread / words, word = thread % words;
#pragma unroll 8
    for (int i = thread; i < places * words; i += 128) {
      const int channel = word * kWord, unit = channel / kUnitElements;
      const bool exists = row < rows.count && channel < channels;
      copy(to + fused::swizzled_place(row, unit, a_.tile.row_units) * fused::kUnitBytes +
               channel % kUnitElements * static_cast<int>(sizeof(Element)),
           from + (exists ? row * rows.stride + channel : 0), exists);
      word += words_on;
      row += rows_on + (word >= words ? 1 : 0);
      word -= word >= words ? words : 0;
    }
  }

  __device__ __forceinline__ static void copy(char* to, const Element* from, bool exists) {
    if constexpr (kBytes >= 4) {
      ptx::copy_async_if<kBytes>(exists, ptx::shared_address(to), from);
    } else {
      *reinterpret_cast<uint16_t*>(to) =
          ptx::load_if(exists, reinterpret_cast<const uint16_t*>(from));
    }
  }

  const Arguments<Element>& a_;
  Share share_;
};

template <class T, int kWord>
__device__ __forceinline__ void bring_words(const Arguments<typename T::Element>& a) {
  const WordStaging<T, kWord> staging(a);
  staging.bring_filters();
  staging.bring_inputs();
}

/// By a warpgroup.
template <class T>
__device__ __forceinline__ void bring(const Arguments<typename T::Element>& a) {
  switch (a.copied) {
    case 0:
      if (threadIdx.x == 0) {
        const BoxStaging<T> staging(a);
        staging.bring_filters();
        staging.bring_inputs();
      }
      return;
    case 4: return bring_words<T, 4>(a);
    case 2: return bring_words<T, 2>(a);
    default: bring_words<T, 1>(a);
  }
}

}  // namespace im2win::cuda::pointwise
