// The kernels of Algorithm 3 with one technique left out each: a translation unit of their own, so
// that they compile beside the whole one.

#include "cuda/im2win/kernel.cuh"

namespace im2win::cuda {

Im2winKernel ablated_im2win_kernel(int index, Im2winVariant variant) {
  switch (variant) {
    case Im2winVariant::kNoPrefetch: return im2win_kernels<Im2winVariant::kNoPrefetch>(index);
    case Im2winVariant::kNoVector: return im2win_kernels<Im2winVariant::kNoVector>(index);
    case Im2winVariant::kNoMicrokernel:  // one tile for all
      return im2win_kernel<BlockTile<0, Im2winVariant::kNoMicrokernel>>;
    case Im2winVariant::kFull: break;
  }
  fail(IM2WIN_INTERNAL_ERROR, "im2win whole is no ablation");
}

}  // namespace im2win::cuda
