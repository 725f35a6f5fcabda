#include "backend.hpp"

#include <array>
#include <cstring>

#include "cpu/depthwise.hpp"
#include "cpu/direct.hpp"
#include "cpu/im2win.hpp"
#include "cpu/isa.hpp"
#include "cpu/mec.hpp"
#include "cpu/parallel.hpp"
#include "cpu/transform.hpp"
#include "cpu/winograd.hpp"
#include "status.hpp"

#if defined(IM2WIN_X86)
#include <cpuid.h>
#endif

namespace im2win {
namespace {

/// For what is there to be compared with, by name.
bool never(const Problem&) { return false; }

constexpr Algorithm kAlgorithms[] = {
    {"depthwise", cpu::refuse_depthwise, cpu::configure_depthwise, cpu::is_depthwise_worthwhile},
    {"winograd", cpu::refuse_winograd, cpu::configure_winograd, cpu::is_winograd_worthwhile},
    {"im2win", cpu::refuse_im2win, cpu::configure_im2win, cpu::is_im2win_worthwhile},
    {"mec", cpu::refuse_mec, cpu::configure_mec, never},
    {"direct", cpu::refuse_direct, cpu::configure_direct},
};

std::string processor_name() {
#if defined(IM2WIN_X86)
  std::array<unsigned, 12> brand{};  // 48 characters, padded with blanks and zeros
  for (unsigned i = 0; i < 3; ++i) {
    unsigned* word = &brand[size_t{4} * i];
    if (!__get_cpuid(0x80000002U + i, word, word + 1, word + 2, word + 3)) return "x86-64 CPU";
  }
  char name[sizeof brand + 1] = {};
  std::memcpy(name, brand.data(), sizeof brand);
  std::string trimmed = name;
  trimmed.erase(trimmed.find_last_not_of(' ') + 1);
  return trimmed;
#else
  return "CPU";
#endif
}

void require_device(int32_t) {}

std::string describe(int32_t) {
  const int32_t threads = cpu::default_threads();
  return text(processor_name(), ", ", cpu::isa_name(cpu::choose_isa()), ", ", threads,
              threads == 1 ? " thread" : " threads");
}

/// Host pointers cannot be told from others without touching a GPU's driver, which the CPU backend
/// never does.
void require_accessible(int32_t, const char*, const void*) {}

void run(int32_t, const Convolution& convolution, const Buffers& buffers, void* packed,
         void* stream) {
  if (packed == nullptr) return convolution.run(buffers, stream);
  convolution.pack_and_run(buffers, packed, stream);
}

void pack_filter(int32_t, const Convolution& convolution, const void* filter, void* packed,
                 void* stream) {
  convolution.pack_filter(filter, packed, stream);
}

void transform(const Problem& problem, int32_t, const void* input, void* output, void*) {
  cpu::transform(problem, input, output, cpu::default_threads());
}

}  // namespace

const Backend& cpu_backend() {
  static const Backend backend = {kAlgorithms, require_device, describe, require_accessible,
                                  run,         pack_filter,    transform};
  return backend;
}

}  // namespace im2win
