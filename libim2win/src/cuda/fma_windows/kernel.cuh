// The kernel of im2win_fma for windows of few elements: the outer product of windows and filters, of which threads hold
// one in registers and go through the other in shared memory, where each is read once for all. Nothing but the tensors is
// in memory, and each of their elements moves about once. Code that is gone through once takes longer to come than to
// run: what can be is in loops.
#pragma once

#include "cuda/fma_windows/held_filters.cuh"
#include "cuda/fma_windows/held_windows.cuh"
#include "cuda/launch.cuh"

extern __shared__ __align__(16) char dynamic_shared_memory[];

namespace im2win::cuda::fma_windows {

/// From the taps inside the images alone.
template <class Element>
__device__ __forceinline__ void run_exactly(const Arguments<Element>& a, const Place& place) {
  const auto& outputs = a.exact.outputs;
  for (int tile = place.worker; tile < a.pixel_tiles; tile += a.workers) {
    const int first = tile * a.tile_pixels, count = min(a.tile_pixels, a.pixels - first);
    for (int i = static_cast<int>(threadIdx.x); i < count * place.filters; i += kThreads) {
      const int64_t filter = place.first_filter + i / count;
      const auto [n, p, q] = a.locate(first + i % count);
      outputs.write(outputs.filter(filter), outputs.pixel(n, p, q),
                    window_sum(a.exact, {n, filter, p, q}));
    }
  }
}

/// `Side`: HeldWindows or HeldFilters.
template <class T, template <class> class Side>
__global__ void __launch_bounds__(kThreads, blocks_of_multiprocessor(T::kDepth))
    im2win_fma_windows_kernel(const __grid_constant__ Arguments<typename T::Element> a) {
  const Place place(a, block_index());
  Side<T> side(a, place, *reinterpret_cast<typename Side<T>::Shared*>(dynamic_shared_memory));
  ptx::wait_for_kernel_before();
  const bool are_finite = __syncthreads_and(side.begin());
  if (a.is_padded && !are_finite) {
    run_exactly(a, place);  // padding's zeros would make NaN of such weights
  } else if (a.exact.outputs.only_adds_bias_and_clamps()) {
#pragma unroll 1
    for (int tile = place.worker; tile < a.pixel_tiles; tile += a.workers)
      side.template run<true>(tile);
  } else {
#pragma unroll 1
    for (int tile = place.worker; tile < a.pixel_tiles; tile += a.workers)
      side.template run<false>(tile);
  }
  // Not before: few blocks leave room on other multiprocessors, where all of the next kernel's would crowd.
  ptx::let_next_start();
}

}  // namespace im2win::cuda::fma_windows
