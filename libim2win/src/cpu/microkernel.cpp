#include "cpu/microkernel.hpp"

#include "cpu/isa.hpp"

namespace im2win::cpu {

const MicrokernelSet& choose_microkernels() {
  [[maybe_unused]] const Isa isa = choose_isa();
#if defined(IM2WIN_X86)
  if (isa == Isa::kAvx512) return avx512_microkernels;
  if (isa == Isa::kAvx2) return avx2_microkernels;
#endif
  return baseline_microkernels;
}

}  // namespace im2win::cpu
