// Where an output's neighbours are filters, in float32: threads hold some, and go through windows in shared memory. Of these
// there are two sets, one of which comes while the other is multiplied.
#pragma once

#include <cuda_pipeline.h>

#include "cuda/fma_windows/rows.cuh"
#include "cuda/fma_windows/sums.cuh"

namespace im2win::cuda::fma_windows {

template <class T>
class HeldFilters {
  using Element = typename T::Element;
  static_assert(kMostFilters <= kMostPixels);

 public:
  struct Shared {
    alignas(16) float windows[2][kMostPixels][T::kPitch];  // at first, filters in the second set
    PixelPlace pixels[kMostPixels];
    int64_t outputs[2][kMostPixels];  // of pixels, in elements
  };

  __device__ __forceinline__ HeldFilters(const Arguments<Element>& a, const Place& place,
                                         Shared& shared)
      : a_(a),
        place_(place),
        shared_(shared),
        rows_(a, true),
        lanes_((place.filters + kHeld - 1) / kHeld),
        first_row_(static_cast<int>(threadIdx.x) / lanes_),
        first_filter_(static_cast<int>(threadIdx.x) % lanes_ * (a.has_words ? kHeld : 1)),
        filter_step_(a.has_words ? 1 : lanes_) {
    tabulate(place.worker, 0);
  }

  /// Brings the filters and the first windows; whether filters are finite.
  __device__ __forceinline__ bool begin() {
    __syncthreads();
    copy_windows(place_.worker, 0);
    const bool are_finite = rows_.stage_filters(place_, shared_.windows[1]);
    wait_for_windows();
    __syncthreads();
#pragma unroll
    for (int i = 0; i < kHeld; ++i) {
      const int filter = min(this->filter(i), place_.filters - 1);
      bias_[i] = a_.exact.outputs.bias(place_.first_filter + filter);
#pragma unroll
      for (int word = 0; word < T::kDepth; word += 4) {
        const float4 x = reinterpret_cast<const float4&>(shared_.windows[1][filter][word]);
        held_[word][i] = x.x, held_[word + 1][i] = x.y;
        held_[word + 2][i] = x.z, held_[word + 3][i] = x.w;
      }
    }
    return are_finite;
  }

  /// A tile's outputs. The windows of the worker's next come meanwhile.
  template <bool kPlain>
  __device__ __forceinline__ void run(int tile) {
    const int next = tile + a_.workers;
    tabulate(next, 1 - set_);
    __syncthreads();  // also until all have read what the other set had
    copy_windows(next, 1 - set_);
    multiply<kPlain>(tile);
    wait_for_windows();
    __syncthreads();
    set_ = 1 - set_;
  }

 private:
  __device__ __forceinline__ int filter(int i) const { return first_filter_ + i * filter_step_; }
  __device__ __forceinline__ int pixels_of(int tile) const {
    return tile < a_.pixel_tiles ? min(a_.tile_pixels, a_.pixels - tile * a_.tile_pixels) : 0;
  }

  __device__ __forceinline__ void tabulate(int tile, int set) {
    const int row = static_cast<int>(threadIdx.x);
    if (row >= pixels_of(tile)) return;
    const int pixel = tile * a_.tile_pixels + row;
    shared_.pixels[row] = a_.pixel_place(pixel);
    shared_.outputs[set][row] = a_.output(pixel);
  }

  __device__ __forceinline__ void copy_windows(int tile, int set) const {
    rows_.copy_windows(place_, shared_.pixels, pixels_of(tile), shared_.windows[set]);
  }

  __device__ __forceinline__ static void wait_for_windows() {
    __pipeline_commit();
    __pipeline_wait_prior(0);
  }

  template <bool kPlain>
  __device__ __forceinline__ void multiply(int tile) const {
    const auto& outputs = a_.exact.outputs;
    const int rows_at_once = kThreads / lanes_, rows = pixels_of(tile);
    if (first_row_ >= rows_at_once) return;
    int count = 0;
#pragma unroll
    for (int i = 0; i < kHeld; ++i) count += filter(i) < place_.filters;
    const int64_t stride = outputs.strides()[1];
    Element* const to = outputs.data() + (place_.first_filter + first_filter_) * stride;
#pragma unroll 1
    for (int row = first_row_; row < rows; row += rows_at_once) {
      float sums[kHeld];
      fma_windows::multiply<T>(held_, shared_.windows[set_][row], sums);
      finish<kPlain>(
          a_, bias_, count,
          [&](int i) {
            return Output{place_.first_filter + filter(i), tile * a_.tile_pixels + row};
          },
          sums);
      Element* const pixel = to + shared_.outputs[set_][row];
      if (a_.has_words) {
        store_word(pixel, sums);
        continue;
      }
#pragma unroll
      for (int i = 0; i < kHeld; ++i)
        if (i < count) pixel[i * filter_step_ * stride] = from_compute<Element>(sums[i]);
    }
  }

  const Arguments<Element>& a_;
  const Place& place_;
  Shared& shared_;
  TapRows<T> rows_;
  int lanes_;  // that have a pixel's filters
  int first_row_, first_filter_, filter_step_;
  int set_ = 0;  // that is multiplied
  float bias_[kHeld];
  Held<T> held_;
};

}  // namespace im2win::cuda::fma_windows
