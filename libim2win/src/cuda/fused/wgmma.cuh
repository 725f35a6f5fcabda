// The products of im2win_fused on compute capability 9.0: wgmma, both operands in shared memory.
#pragma once

#include <cstdint>

#include "cuda/fused/descriptor.cuh"
#include "cuda/fused/tile.hpp"

namespace im2win::cuda::fused {

/// d = a * b, or with `accumulate` d += a * b: a is 64 filters, b kColumns positions, by the K of a
/// step; or a is 64 positions, b filters. A thread holds the sums of rows lane / 4 + {0, 8} of its warp's 16,
/// and of columns lane % 4 * 2 + {0, 1} of each 8, as d[4 * eight + 2 * row + column]. Rows of b are along K,
/// or with kPixelRows along positions.
template <Operands kOperands, int kColumns, bool kPixelRows = false>
struct Wgmma;

/// Likewise, but a is in registers: a thread has a[2 * unit + row], of rows lane / 4 + {0, 8} of its warp's 16, element
/// lane % 4 of either unit of a step.
template <Operands kOperands, int kColumns>
struct WgmmaOfRegisters;

// Registers are named one by one, in fours.
#define IM2WIN_NAMES_4(a, b, c, d) "%" #a ",%" #b ",%" #c ",%" #d
#define IM2WIN_REGISTERS_4(i) "+f"(d[i]), "+f"(d[i + 1]), "+f"(d[i + 2]), "+f"(d[i + 3])

#define IM2WIN_NAMES_24                                                               \
  IM2WIN_NAMES_4(0, 1, 2, 3)                                                          \
  "," IM2WIN_NAMES_4(4, 5, 6, 7) "," IM2WIN_NAMES_4(8, 9, 10, 11) "," IM2WIN_NAMES_4( \
      12, 13, 14, 15) "," IM2WIN_NAMES_4(16, 17, 18, 19) "," IM2WIN_NAMES_4(20, 21, 22, 23)
#define IM2WIN_REGISTERS_24                                                                    \
  IM2WIN_REGISTERS_4(0), IM2WIN_REGISTERS_4(4), IM2WIN_REGISTERS_4(8), IM2WIN_REGISTERS_4(12), \
      IM2WIN_REGISTERS_4(16), IM2WIN_REGISTERS_4(20)
#define IM2WIN_NAMES_28 IM2WIN_NAMES_24 "," IM2WIN_NAMES_4(24, 25, 26, 27)
#define IM2WIN_NAMES_32 IM2WIN_NAMES_28 "," IM2WIN_NAMES_4(28, 29, 30, 31)
#define IM2WIN_NAMES_36 IM2WIN_NAMES_32 "," IM2WIN_NAMES_4(32, 33, 34, 35)
#define IM2WIN_NAMES_40 IM2WIN_NAMES_36 "," IM2WIN_NAMES_4(36, 37, 38, 39)
#define IM2WIN_NAMES_44 IM2WIN_NAMES_40 "," IM2WIN_NAMES_4(40, 41, 42, 43)
#define IM2WIN_NAMES_48 IM2WIN_NAMES_44 "," IM2WIN_NAMES_4(44, 45, 46, 47)
#define IM2WIN_NAMES_52 IM2WIN_NAMES_48 "," IM2WIN_NAMES_4(48, 49, 50, 51)
#define IM2WIN_NAMES_56 IM2WIN_NAMES_52 "," IM2WIN_NAMES_4(52, 53, 54, 55)
#define IM2WIN_NAMES_60 IM2WIN_NAMES_56 "," IM2WIN_NAMES_4(56, 57, 58, 59)
#define IM2WIN_NAMES_64 IM2WIN_NAMES_60 "," IM2WIN_NAMES_4(60, 61, 62, 63)
#define IM2WIN_NAMES_68 IM2WIN_NAMES_64 "," IM2WIN_NAMES_4(64, 65, 66, 67)
#define IM2WIN_NAMES_72 IM2WIN_NAMES_68 "," IM2WIN_NAMES_4(68, 69, 70, 71)
#define IM2WIN_NAMES_76 IM2WIN_NAMES_72 "," IM2WIN_NAMES_4(72, 73, 74, 75)
#define IM2WIN_NAMES_80 IM2WIN_NAMES_76 "," IM2WIN_NAMES_4(76, 77, 78, 79)
#define IM2WIN_NAMES_84 IM2WIN_NAMES_80 "," IM2WIN_NAMES_4(80, 81, 82, 83)
#define IM2WIN_NAMES_88 IM2WIN_NAMES_84 "," IM2WIN_NAMES_4(84, 85, 86, 87)
#define IM2WIN_NAMES_92 IM2WIN_NAMES_88 "," IM2WIN_NAMES_4(88, 89, 90, 91)
#define IM2WIN_NAMES_96 IM2WIN_NAMES_92 "," IM2WIN_NAMES_4(92, 93, 94, 95)
#define IM2WIN_NAMES_100 IM2WIN_NAMES_96 "," IM2WIN_NAMES_4(96, 97, 98, 99)
#define IM2WIN_NAMES_104 IM2WIN_NAMES_100 "," IM2WIN_NAMES_4(100, 101, 102, 103)
#define IM2WIN_NAMES_108 IM2WIN_NAMES_104 "," IM2WIN_NAMES_4(104, 105, 106, 107)
#define IM2WIN_NAMES_112 IM2WIN_NAMES_108 "," IM2WIN_NAMES_4(108, 109, 110, 111)
#define IM2WIN_NAMES_116 IM2WIN_NAMES_112 "," IM2WIN_NAMES_4(112, 113, 114, 115)
#define IM2WIN_NAMES_120 IM2WIN_NAMES_116 "," IM2WIN_NAMES_4(116, 117, 118, 119)
#define IM2WIN_NAMES_124 IM2WIN_NAMES_120 "," IM2WIN_NAMES_4(120, 121, 122, 123)
#define IM2WIN_NAMES_128 IM2WIN_NAMES_124 "," IM2WIN_NAMES_4(124, 125, 126, 127)
#define IM2WIN_REGISTERS_28 IM2WIN_REGISTERS_24, IM2WIN_REGISTERS_4(24)
#define IM2WIN_REGISTERS_32 IM2WIN_REGISTERS_28, IM2WIN_REGISTERS_4(28)
#define IM2WIN_REGISTERS_36 IM2WIN_REGISTERS_32, IM2WIN_REGISTERS_4(32)
#define IM2WIN_REGISTERS_40 IM2WIN_REGISTERS_36, IM2WIN_REGISTERS_4(36)
#define IM2WIN_REGISTERS_44 IM2WIN_REGISTERS_40, IM2WIN_REGISTERS_4(40)
#define IM2WIN_REGISTERS_48 IM2WIN_REGISTERS_44, IM2WIN_REGISTERS_4(44)
#define IM2WIN_REGISTERS_52 IM2WIN_REGISTERS_48, IM2WIN_REGISTERS_4(48)
#define IM2WIN_REGISTERS_56 IM2WIN_REGISTERS_52, IM2WIN_REGISTERS_4(52)
#define IM2WIN_REGISTERS_60 IM2WIN_REGISTERS_56, IM2WIN_REGISTERS_4(56)
#define IM2WIN_REGISTERS_64 IM2WIN_REGISTERS_60, IM2WIN_REGISTERS_4(60)
#define IM2WIN_REGISTERS_68 IM2WIN_REGISTERS_64, IM2WIN_REGISTERS_4(64)
#define IM2WIN_REGISTERS_72 IM2WIN_REGISTERS_68, IM2WIN_REGISTERS_4(68)
#define IM2WIN_REGISTERS_76 IM2WIN_REGISTERS_72, IM2WIN_REGISTERS_4(72)
#define IM2WIN_REGISTERS_80 IM2WIN_REGISTERS_76, IM2WIN_REGISTERS_4(76)
#define IM2WIN_REGISTERS_84 IM2WIN_REGISTERS_80, IM2WIN_REGISTERS_4(80)
#define IM2WIN_REGISTERS_88 IM2WIN_REGISTERS_84, IM2WIN_REGISTERS_4(84)
#define IM2WIN_REGISTERS_92 IM2WIN_REGISTERS_88, IM2WIN_REGISTERS_4(88)
#define IM2WIN_REGISTERS_96 IM2WIN_REGISTERS_92, IM2WIN_REGISTERS_4(92)
#define IM2WIN_REGISTERS_100 IM2WIN_REGISTERS_96, IM2WIN_REGISTERS_4(96)
#define IM2WIN_REGISTERS_104 IM2WIN_REGISTERS_100, IM2WIN_REGISTERS_4(100)
#define IM2WIN_REGISTERS_108 IM2WIN_REGISTERS_104, IM2WIN_REGISTERS_4(104)
#define IM2WIN_REGISTERS_112 IM2WIN_REGISTERS_108, IM2WIN_REGISTERS_4(108)
#define IM2WIN_REGISTERS_116 IM2WIN_REGISTERS_112, IM2WIN_REGISTERS_4(112)
#define IM2WIN_REGISTERS_120 IM2WIN_REGISTERS_116, IM2WIN_REGISTERS_4(116)
#define IM2WIN_REGISTERS_124 IM2WIN_REGISTERS_120, IM2WIN_REGISTERS_4(120)
#define IM2WIN_REGISTERS_128 IM2WIN_REGISTERS_124, IM2WIN_REGISTERS_4(124)

#define IM2WIN_WGMMA(operands, columns, pixel_rows, instruction, names, a_name, b_name,            \
                     accumulate_name, tail, ...)                                                   \
  template <>                                                                                      \
  struct Wgmma<operands, columns, pixel_rows> {                                                    \
    __device__ __forceinline__ static void multiply(float (&d)[columns / 2], const Descriptor& a,  \
                                                    const Descriptor& b, bool accumulate) {        \
      asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, " accumulate_name                             \
                   ", 0;\n"                                                                        \
                   "wgmma.mma_async.sync.aligned." instruction " {" names "}, " a_name ", " b_name \
                   ", p, " tail ";\n}\n"                                                           \
                   : __VA_ARGS__                                                                   \
                   : "l"(a.bits()), "l"(b.bits()), "r"(static_cast<int>(accumulate)));             \
    }                                                                                              \
  };

// The last operands: the signs of a and b, and for 16-bit types whether they are transposed.
#define IM2WIN_WGMMA_HALVES(columns, sums, pixel_rows, tail, a, b, accumulate)                \
  IM2WIN_WGMMA(Operands::kHalf, columns, pixel_rows, "m64n" #columns "k16.f32.f16.f16",       \
               IM2WIN_NAMES_##sums, a, b, accumulate, tail, IM2WIN_REGISTERS_##sums)          \
  IM2WIN_WGMMA(Operands::kBFloat16, columns, pixel_rows, "m64n" #columns "k16.f32.bf16.bf16", \
               IM2WIN_NAMES_##sums, a, b, accumulate, tail, IM2WIN_REGISTERS_##sums)
#define IM2WIN_WGMMA_COLUMNS(columns, sums, a, b, accumulate)                       \
  IM2WIN_WGMMA_HALVES(columns, sums, false, "1, 1, 0, 0", a, b, accumulate)         \
  IM2WIN_WGMMA(Operands::kTf32, columns, false, "m64n" #columns "k8.f32.tf32.tf32", \
               IM2WIN_NAMES_##sums, a, b, accumulate, "1, 1", IM2WIN_REGISTERS_##sums)
#define IM2WIN_WGMMA_PIXELS(columns, sums, a, b, accumulate) \
  IM2WIN_WGMMA_HALVES(columns, sums, true, "1, 1, 0, 1", a, b, accumulate)

IM2WIN_WGMMA_COLUMNS(48, 24, "%24", "%25", "%26")
IM2WIN_WGMMA_COLUMNS(56, 28, "%28", "%29", "%30")
IM2WIN_WGMMA_COLUMNS(64, 32, "%32", "%33", "%34")
IM2WIN_WGMMA_COLUMNS(72, 36, "%36", "%37", "%38")
IM2WIN_WGMMA_COLUMNS(80, 40, "%40", "%41", "%42")
IM2WIN_WGMMA_COLUMNS(88, 44, "%44", "%45", "%46")
IM2WIN_WGMMA_COLUMNS(96, 48, "%48", "%49", "%50")
IM2WIN_WGMMA_COLUMNS(104, 52, "%52", "%53", "%54")
IM2WIN_WGMMA_COLUMNS(112, 56, "%56", "%57", "%58")
IM2WIN_WGMMA_COLUMNS(120, 60, "%60", "%61", "%62")
IM2WIN_WGMMA_COLUMNS(128, 64, "%64", "%65", "%66")
IM2WIN_WGMMA_COLUMNS(136, 68, "%68", "%69", "%70")
IM2WIN_WGMMA_COLUMNS(144, 72, "%72", "%73", "%74")
IM2WIN_WGMMA_COLUMNS(152, 76, "%76", "%77", "%78")
IM2WIN_WGMMA_COLUMNS(160, 80, "%80", "%81", "%82")
IM2WIN_WGMMA_COLUMNS(168, 84, "%84", "%85", "%86")
IM2WIN_WGMMA_COLUMNS(176, 88, "%88", "%89", "%90")
IM2WIN_WGMMA_COLUMNS(184, 92, "%92", "%93", "%94")
IM2WIN_WGMMA_COLUMNS(192, 96, "%96", "%97", "%98")
IM2WIN_WGMMA_COLUMNS(200, 100, "%100", "%101", "%102")
IM2WIN_WGMMA_COLUMNS(208, 104, "%104", "%105", "%106")
IM2WIN_WGMMA_COLUMNS(216, 108, "%108", "%109", "%110")
IM2WIN_WGMMA_COLUMNS(224, 112, "%112", "%113", "%114")
IM2WIN_WGMMA_COLUMNS(232, 116, "%116", "%117", "%118")
IM2WIN_WGMMA_COLUMNS(240, 120, "%120", "%121", "%122")
IM2WIN_WGMMA_PIXELS(128, 64, "%64", "%65", "%66")
IM2WIN_WGMMA_PIXELS(136, 68, "%68", "%69", "%70")
IM2WIN_WGMMA_PIXELS(144, 72, "%72", "%73", "%74")
IM2WIN_WGMMA_PIXELS(152, 76, "%76", "%77", "%78")
IM2WIN_WGMMA_PIXELS(160, 80, "%80", "%81", "%82")
IM2WIN_WGMMA_PIXELS(168, 84, "%84", "%85", "%86")
IM2WIN_WGMMA_PIXELS(176, 88, "%88", "%89", "%90")
IM2WIN_WGMMA_PIXELS(184, 92, "%92", "%93", "%94")
IM2WIN_WGMMA_PIXELS(192, 96, "%96", "%97", "%98")
IM2WIN_WGMMA_PIXELS(200, 100, "%100", "%101", "%102")
IM2WIN_WGMMA_PIXELS(256, 128, "%128", "%129", "%130")

#define IM2WIN_WGMMA_OF_REGISTERS(columns, sums, a0, a1, a2, a3, b_name, accumulate_name)         \
  template <>                                                                                     \
  struct WgmmaOfRegisters<Operands::kTf32, columns> {                                             \
    __device__ __forceinline__ static void multiply(float (&d)[columns / 2], const float (&a)[4], \
                                                    const Descriptor& b, bool accumulate) {       \
      asm volatile(                                                                               \
          "{\n.reg .pred p;\nsetp.ne.b32 p, " accumulate_name                                     \
          ", 0;\n"                                                                                \
          "wgmma.mma_async.sync.aligned.m64n" #columns "k8.f32.tf32.tf32 {" IM2WIN_NAMES_##sums   \
          "}, {" a0 "," a1 "," a2 "," a3 "}, " b_name ", p, 1, 1;\n}\n"                           \
          : IM2WIN_REGISTERS_##sums                                                               \
          : "r"(__float_as_uint(a[0])), "r"(__float_as_uint(a[1])), "r"(__float_as_uint(a[2])),   \
            "r"(__float_as_uint(a[3])), "l"(b.bits()), "r"(static_cast<int>(accumulate)));        \
    }                                                                                             \
  };

IM2WIN_WGMMA_OF_REGISTERS(64, 32, "%32", "%33", "%34", "%35", "%36", "%37")
IM2WIN_WGMMA_OF_REGISTERS(128, 64, "%64", "%65", "%66", "%67", "%68", "%69")
IM2WIN_WGMMA_OF_REGISTERS(256, 128, "%128", "%129", "%130", "%131", "%132", "%133")

#undef IM2WIN_WGMMA_OF_REGISTERS
#undef IM2WIN_WGMMA_COLUMNS
#undef IM2WIN_WGMMA_PIXELS
#undef IM2WIN_WGMMA_HALVES
#undef IM2WIN_WGMMA
#undef IM2WIN_NAMES_4
#undef IM2WIN_REGISTERS_4
#undef IM2WIN_NAMES_24
#undef IM2WIN_REGISTERS_24
#undef IM2WIN_NAMES_28
#undef IM2WIN_REGISTERS_28
#undef IM2WIN_NAMES_32
#undef IM2WIN_REGISTERS_32
#undef IM2WIN_NAMES_36
#undef IM2WIN_REGISTERS_36
#undef IM2WIN_NAMES_40
#undef IM2WIN_REGISTERS_40
#undef IM2WIN_NAMES_44
#undef IM2WIN_REGISTERS_44
#undef IM2WIN_NAMES_48
#undef IM2WIN_REGISTERS_48
#undef IM2WIN_NAMES_52
#undef IM2WIN_REGISTERS_52
#undef IM2WIN_NAMES_56
#undef IM2WIN_REGISTERS_56
#undef IM2WIN_NAMES_60
#undef IM2WIN_REGISTERS_60
#undef IM2WIN_NAMES_64
#undef IM2WIN_REGISTERS_64
#undef IM2WIN_NAMES_68
#undef IM2WIN_REGISTERS_68
#undef IM2WIN_NAMES_72
#undef IM2WIN_REGISTERS_72
#undef IM2WIN_NAMES_76
#undef IM2WIN_REGISTERS_76
#undef IM2WIN_NAMES_80
#undef IM2WIN_REGISTERS_80
#undef IM2WIN_NAMES_84
#undef IM2WIN_REGISTERS_84
#undef IM2WIN_NAMES_88
#undef IM2WIN_REGISTERS_88
#undef IM2WIN_NAMES_92
#undef IM2WIN_REGISTERS_92
#undef IM2WIN_NAMES_96
#undef IM2WIN_REGISTERS_96
#undef IM2WIN_NAMES_100
#undef IM2WIN_REGISTERS_100
#undef IM2WIN_NAMES_104
#undef IM2WIN_REGISTERS_104
#undef IM2WIN_NAMES_108
#undef IM2WIN_REGISTERS_108
#undef IM2WIN_NAMES_112
#undef IM2WIN_REGISTERS_112
#undef IM2WIN_NAMES_116
#undef IM2WIN_REGISTERS_116
#undef IM2WIN_NAMES_120
#undef IM2WIN_REGISTERS_120
#undef IM2WIN_NAMES_124
#undef IM2WIN_REGISTERS_124
#undef IM2WIN_NAMES_128
#undef IM2WIN_REGISTERS_128

/// float32 as two float16: each product is one of these.
template <int kColumns>
struct Wgmma<Operands::kSplit, kColumns> : Wgmma<Operands::kHalf, kColumns> {};

}  // namespace im2win::cuda::fused
