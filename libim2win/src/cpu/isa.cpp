#include "cpu/isa.hpp"

#include <cstdlib>
#include <cstring>
#include <string>

#include "status.hpp"

namespace im2win::cpu {
namespace {

struct Choice {
  Isa isa;
  bool is_runnable;
};

}  // namespace

const char* isa_name(Isa isa) {
  switch (isa) {
    case Isa::kBaseline: return "baseline";
    case Isa::kAvx2: return "avx2";
    case Isa::kAvx512: return "avx512";
    case Isa::kAvx512Bf16: return "avx512_bf16";
  }
  return "";
}

Isa choose_isa() {
#if defined(IM2WIN_X86)
  const Choice best_first[] = {
      {Isa::kAvx512Bf16,
       __builtin_cpu_supports("avx512bf16") && __builtin_cpu_supports("avx512bw") &&
           __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl")},
      {Isa::kAvx512, __builtin_cpu_supports("avx512f") != 0},
      {Isa::kAvx2, __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")},
      {Isa::kBaseline, true},
  };
#else
  const Choice best_first[] = {{Isa::kBaseline, true}};
#endif
  const char* cap = std::getenv("IM2WIN_CPU_ISA");
  bool is_below_cap = cap == nullptr || *cap == '\0';
  std::string known;
  for (const Choice& choice : best_first) {
    known += text(known.empty() ? "" : ", ", isa_name(choice.isa));
    is_below_cap = is_below_cap || std::strcmp(cap, isa_name(choice.isa)) == 0;
    if (is_below_cap && choice.is_runnable) return choice.isa;
  }
  fail(IM2WIN_INVALID_ARGUMENT, "the environment variable IM2WIN_CPU_ISA is \"", cap,
       "\": expected one of ", known);
}

bool has_wide_units() {
#if defined(IM2WIN_X86)
  return choose_isa() >= Isa::kAvx512 && !__builtin_cpu_is("amdfam19h");
#else
  return false;
#endif
}

}  // namespace im2win::cpu
