// A block's input and weights, from memory, in whatever dtype and by whatever strides, to shared memory as
// float32.
#pragma once

#include <climits>
#include <cstdint>

#include "cuda/fma_strips/arguments.cuh"
#include "cuda/numeric.cuh"

namespace im2win::cuda::fma_strips {

/// Channels of a pixel that are read as one.
template <class Element, int kVector>
struct alignas(kVector * sizeof(Element)) Channels {
  Element of[kVector];
};

/// Channels have a plane each in shared memory, with a position for each pixel that the block's windows have. Where
/// the pixel of a position is in an image's plane is the same for all channels: it is tabulated once.
template <class Element, int kVector, int kFilters>
class Staging {
 public:
  __device__ __forceinline__ Staging(const Arguments<Element>& a, const Place& place, float* shared)
      : a_(a), place_(place), shared_(shared), thread_(static_cast<int>(threadIdx.x)) {}

  /// For stage() after a barrier. What a column is, a thread finds once for some rows.
  __device__ __forceinline__ void tabulate() const {
    const Tile& tile = a_.tile;
    int lanes = 32;
    while (lanes < tile.row_pitch && lanes < kThreads) lanes *= 2;
    for (int in_row = thread_ % lanes; in_row < tile.row_pitch; in_row += lanes) {
      const int32_t x = column(in_row);
      const int32_t in_plane = x * static_cast<int32_t>(a_.exact.input_stride[3]);
      for (int row = thread_ / lanes; row < tile.input_rows; row += kThreads / lanes) {
        const int32_t y = place_.first_y + row;
        const bool is_pixel = x >= 0 && y >= 0 && y < a_.h;
        offsets()[row * tile.row_pitch + in_row] =
            is_pixel ? y * static_cast<int32_t>(a_.exact.input_stride[2]) + in_plane : kNone;
      }
    }
    const int rest = tile.positions() + thread_;
    if (rest < tile.plane_pitch) offsets()[rest] = kNone;
  }

  /// So many channels of the group, from that one on.
  __device__ __forceinline__ void stage(int first_channel, int channels) const {
    // The first weights are on their way while inputs are.
    const int weights = channels * static_cast<int>(a_.window.divisor);
    Weights first = {};
    if (thread_ < weights) first = load_weights(first_channel, thread_);
    const Element* const image = a_.exact.input + place_.n * a_.exact.input_stride[0] +
                                 (place_.first_channel + first_channel) * a_.exact.input_stride[1];
    if constexpr (kVector > 1)
      stage_vectors(image, channels / kVector);
    else
      stage_planes(image, channels);
    if (thread_ < weights) store_weights(thread_, first);
    for (int i = thread_ + kThreads; i < weights; i += kThreads)
      store_weights(i, load_weights(first_channel, i));
  }

 private:
  static constexpr int kVectorsAtOnce = 4;  // loads: each would wait for the last
  static constexpr int32_t kNone = INT_MIN;

  __device__ __forceinline__ int32_t* offsets() const {
    return reinterpret_cast<int32_t*>(shared_ + a_.offsets_begin);
  }

  /// Of the image, for a place in a row; negative in padding, and where rows are filled up.
  __device__ __forceinline__ int32_t column(int in_row) const {
    const auto [phase, in_phase] = a_.phase_pitch.divide(in_row);
    const auto [pad, in_group] = a_.padded_word_group.divide(in_phase);
    const int32_t x = place_.first_x + (pad * kWord * kWordsAPad + in_group) * a_.stride_w + phase;
    return in_group < kWord * kWordsAPad && phase < a_.tile.phases && x < a_.w ? x : -1;
  }

  /// A warp brings some channels of as many positions as it has lanes, and those of two such sets at a time.
  __device__ __forceinline__ void stage_planes(const Element* image, int channels) const {
    constexpr int kLanes = 32, kWarps = kThreads / kLanes, kSets = 2;
    const int lane = thread_ % kLanes, sets = a_.tile.plane_pitch / kLanes;
    for (int first_c = 0; first_c < channels; first_c += kChannelsAtOnce) {
      const Element* planes[kChannelsAtOnce];
#pragma unroll
      for (int c = 0; c < kChannelsAtOnce; ++c)
        planes[c] = image + min(first_c + c, channels - 1) * a_.exact.input_stride[1];
      float* const to = shared_ + first_c * a_.tile.plane_pitch + lane;
      for (int set = thread_ / kLanes; set < sets; set += kSets * kWarps) {
        Element x[kSets][kChannelsAtOnce];
#pragma unroll
        for (int i = 0; i < kSets; ++i) {
          const int position = (set + i * kWarps) * kLanes + lane;
          const int32_t from = set + i * kWarps < sets ? offsets()[position] : kNone;
#pragma unroll
          for (int c = 0; c < kChannelsAtOnce; ++c) {
            x[i][c] = Element(0.0F);
            if (from != kNone) x[i][c] = planes[c][from];
          }
        }
#pragma unroll
        for (int i = 0; i < kSets; ++i) {
          if (set + i * kWarps >= sets) break;
#pragma unroll
          for (int c = 0; c < kChannelsAtOnce; ++c)
            if (first_c + c < channels)
              to[c * a_.tile.plane_pitch + (set + i * kWarps) * kLanes] =
                  to_compute<float>(x[i][c]);
        }
      }
    }
  }

  /// Neighbouring threads take a pixel's vectors, which there are one or two of.
  __device__ __forceinline__ void stage_vectors(const Element* image, int vectors) const {
    using Vector = Channels<Element, kVector>;
    const int pitch = a_.tile.plane_pitch, shift = vectors - 1, vector = thread_ & shift;
    const int lanes = kThreads >> shift;
    const Element* const from = image + vector * kVector;
    float* const planes = shared_ + vector * kVector * pitch;
    for (int first = thread_ >> shift; first < pitch; first += kVectorsAtOnce * lanes) {
      Vector x[kVectorsAtOnce];
#pragma unroll
      for (int i = 0; i < kVectorsAtOnce; ++i) {
        const int position = first + i * lanes;
        const int32_t offset = position < pitch ? offsets()[position] : kNone;
        x[i] = {};
        if (offset != kNone) x[i] = *reinterpret_cast<const Vector*>(from + offset);
      }
#pragma unroll
      for (int i = 0; i < kVectorsAtOnce; ++i) {
        if (first + i * lanes >= pitch) break;
        float* to = planes + first + i * lanes;
#pragma unroll
        for (int c = 0; c < kVector; ++c, to += pitch) *to = to_compute<float>(x[i].of[c]);
      }
    }
  }

  /// A weight of each filter.
  struct Weights {
    Element of[kFilters];
  };

  /// Tap `i` of so many channels, channel by channel.
  __device__ __forceinline__ Weights load_weights(int first_channel, int i) const {
    const int64_t(&stride)[4] = a_.exact.filter_stride;
    const auto [c, tap] = a_.window.divide(i);
    const auto [r, s] = a_.window_columns.divide(tap);
    const Element* from = a_.exact.filter + place_.first_filter * stride[0] +
                          (first_channel + c) * stride[1] + r * stride[2] + s * stride[3];
    Weights weights = {};
#pragma unroll
    for (int k = 0; k < kFilters; ++k)
      if (k < place_.filters) weights.of[k] = from[k * stride[0]];
    return weights;
  }

  /// To phases, words of taps, channels and rows of taps, filters, and taps of the word.
  __device__ __forceinline__ void store_weights(int i, const Weights& weights) const {
    const auto [row, s] = a_.window_columns.divide(i);
    const auto [in_phase, phase] = a_.phases.divide(s);
    float* const to = shared_ + a_.weights_begin +
                      (phase * a_.tile.tap_words + in_phase / kWord) * a_.word_floats +
                      row * kFilters * kWord + in_phase % kWord;
#pragma unroll
    for (int k = 0; k < kFilters; ++k) to[k * kWord] = to_compute<float>(weights.of[k]);
  }

  const Arguments<Element>& a_;
  const Place& place_;
  float* shared_;
  int thread_;
};

}  // namespace im2win::cuda::fma_strips
