// The instruction sets that kernels are compiled for, one file each, and the choice at run time.
#pragma once

namespace im2win::cpu {

/// Ordered: a machine that runs one of them runs all before it.
enum class Isa { kBaseline, kAvx2, kAvx512, kAvx512Bf16 };

/// The name that IM2WIN_CPU_ISA knows it by.
const char* isa_name(Isa isa);

/// The best of this machine; the environment variable IM2WIN_CPU_ISA (baseline, avx2, avx512, avx512_bf16)
/// caps it. INVALID_ARGUMENT for another value of it.
Isa choose_isa();

/// Whether products of vectors of 64 bytes are chosen, and formed as fast as those of 32, not at half their rate as on
/// AMD's Zen 4.
bool has_wide_units();

}  // namespace im2win::cpu
