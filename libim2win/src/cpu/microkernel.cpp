#include "cpu/microkernel.hpp"

#include <cstdlib>
#include <cstring>
#include <string>

#include "status.hpp"

namespace im2win::cpu {
namespace {

struct Choice {
  const MicrokernelSet* set;
  bool is_runnable;
};

}  // namespace

const MicrokernelSet& choose_microkernels() {
#if defined(IM2WIN_X86)
  const Choice best_first[] = {
      {&avx512_microkernels, __builtin_cpu_supports("avx512f") != 0},
      {&avx2_microkernels, __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")},
      {&baseline_microkernels, true},
  };
#else
  const Choice best_first[] = {{&baseline_microkernels, true}};
#endif
  const char* cap = std::getenv("IM2WIN_CPU_ISA");
  bool is_below_cap = cap == nullptr || *cap == '\0';
  std::string known;
  for (const Choice& choice : best_first) {
    known += text(known.empty() ? "" : ", ", choice.set->isa);
    is_below_cap = is_below_cap || std::strcmp(cap, choice.set->isa) == 0;
    if (is_below_cap && choice.is_runnable) return *choice.set;
  }
  fail(IM2WIN_INVALID_ARGUMENT, "the environment variable IM2WIN_CPU_ISA is \"", cap,
       "\": expected one of ", known);
}

}  // namespace im2win::cpu
