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

// Registers are named one by one, in tens, and in what is left.
#define IM2WIN_NAMES(tens)                                                                      \
  "%" #tens "0,%" #tens "1,%" #tens "2,%" #tens "3,%" #tens "4,%" #tens "5,%" #tens "6,%" #tens \
  "7,%" #tens "8,%" #tens "9"
#define IM2WIN_REGISTERS(tens)                                                                \
  "+f"(d[10 * tens]), "+f"(d[10 * tens + 1]), "+f"(d[10 * tens + 2]), "+f"(d[10 * tens + 3]), \
      "+f"(d[10 * tens + 4]), "+f"(d[10 * tens + 5]), "+f"(d[10 * tens + 6]),                 \
      "+f"(d[10 * tens + 7]), "+f"(d[10 * tens + 8]), "+f"(d[10 * tens + 9])

#define IM2WIN_NAMES_28 IM2WIN_NAMES() "," IM2WIN_NAMES(1) ",%20,%21,%22,%23,%24,%25,%26,%27"
#define IM2WIN_NAMES_40 IM2WIN_NAMES() "," IM2WIN_NAMES(1) "," IM2WIN_NAMES(2) "," IM2WIN_NAMES(3)
#define IM2WIN_NAMES_48 IM2WIN_NAMES_40 ",%40,%41,%42,%43,%44,%45,%46,%47"
#define IM2WIN_NAMES_52 IM2WIN_NAMES_40 "," IM2WIN_NAMES(4) ",%50,%51"
#define IM2WIN_NAMES_56 IM2WIN_NAMES_40 "," IM2WIN_NAMES(4) ",%50,%51,%52,%53,%54,%55"
#define IM2WIN_NAMES_60 IM2WIN_NAMES_40 "," IM2WIN_NAMES(4) "," IM2WIN_NAMES(5)
#define IM2WIN_NAMES_72 IM2WIN_NAMES_60 "," IM2WIN_NAMES(6) ",%70,%71"
#define IM2WIN_NAMES_80 IM2WIN_NAMES_60 "," IM2WIN_NAMES(6) "," IM2WIN_NAMES(7)
#define IM2WIN_NAMES_84 IM2WIN_NAMES_80 ",%80,%81,%82,%83"
#define IM2WIN_NAMES_100 IM2WIN_NAMES_80 "," IM2WIN_NAMES(8) "," IM2WIN_NAMES(9)
#define IM2WIN_NAMES_120 IM2WIN_NAMES_100 "," IM2WIN_NAMES(10) "," IM2WIN_NAMES(11)
#define IM2WIN_NAMES_64 IM2WIN_NAMES_60 ",%60,%61,%62,%63"
#define IM2WIN_NAMES_128 IM2WIN_NAMES_120 ",%120,%121,%122,%123,%124,%125,%126,%127"
#define IM2WIN_REGISTERS_28                                                                     \
  IM2WIN_REGISTERS(0), IM2WIN_REGISTERS(1), "+f"(d[20]), "+f"(d[21]), "+f"(d[22]), "+f"(d[23]), \
      "+f"(d[24]), "+f"(d[25]), "+f"(d[26]), "+f"(d[27])
#define IM2WIN_REGISTERS_40 \
  IM2WIN_REGISTERS(0), IM2WIN_REGISTERS(1), IM2WIN_REGISTERS(2), IM2WIN_REGISTERS(3)
#define IM2WIN_REGISTERS_48                                                             \
  IM2WIN_REGISTERS_40, "+f"(d[40]), "+f"(d[41]), "+f"(d[42]), "+f"(d[43]), "+f"(d[44]), \
      "+f"(d[45]), "+f"(d[46]), "+f"(d[47])
#define IM2WIN_REGISTERS_52 IM2WIN_REGISTERS_40, IM2WIN_REGISTERS(4), "+f"(d[50]), "+f"(d[51])
#define IM2WIN_REGISTERS_56                                                                     \
  IM2WIN_REGISTERS_40, IM2WIN_REGISTERS(4), "+f"(d[50]), "+f"(d[51]), "+f"(d[52]), "+f"(d[53]), \
      "+f"(d[54]), "+f"(d[55])
#define IM2WIN_REGISTERS_60 IM2WIN_REGISTERS_40, IM2WIN_REGISTERS(4), IM2WIN_REGISTERS(5)
#define IM2WIN_REGISTERS_72 IM2WIN_REGISTERS_60, IM2WIN_REGISTERS(6), "+f"(d[70]), "+f"(d[71])
#define IM2WIN_REGISTERS_80 IM2WIN_REGISTERS_60, IM2WIN_REGISTERS(6), IM2WIN_REGISTERS(7)
#define IM2WIN_REGISTERS_84 IM2WIN_REGISTERS_80, "+f"(d[80]), "+f"(d[81]), "+f"(d[82]), "+f"(d[83])
#define IM2WIN_REGISTERS_100 IM2WIN_REGISTERS_80, IM2WIN_REGISTERS(8), IM2WIN_REGISTERS(9)
#define IM2WIN_REGISTERS_120 IM2WIN_REGISTERS_100, IM2WIN_REGISTERS(10), IM2WIN_REGISTERS(11)
#define IM2WIN_REGISTERS_64 IM2WIN_REGISTERS_60, "+f"(d[60]), "+f"(d[61]), "+f"(d[62]), "+f"(d[63])
#define IM2WIN_REGISTERS_128                                                                  \
  IM2WIN_REGISTERS_120, "+f"(d[120]), "+f"(d[121]), "+f"(d[122]), "+f"(d[123]), "+f"(d[124]), \
      "+f"(d[125]), "+f"(d[126]), "+f"(d[127])

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

IM2WIN_WGMMA_COLUMNS(56, 28, "%28", "%29", "%30")
IM2WIN_WGMMA_COLUMNS(80, 40, "%40", "%41", "%42")
IM2WIN_WGMMA_COLUMNS(96, 48, "%48", "%49", "%50")
IM2WIN_WGMMA_COLUMNS(104, 52, "%52", "%53", "%54")
IM2WIN_WGMMA_COLUMNS(112, 56, "%56", "%57", "%58")
IM2WIN_WGMMA_COLUMNS(120, 60, "%60", "%61", "%62")
IM2WIN_WGMMA_COLUMNS(144, 72, "%72", "%73", "%74")
IM2WIN_WGMMA_COLUMNS(160, 80, "%80", "%81", "%82")
IM2WIN_WGMMA_COLUMNS(168, 84, "%84", "%85", "%86")
IM2WIN_WGMMA_COLUMNS(200, 100, "%100", "%101", "%102")
IM2WIN_WGMMA_COLUMNS(240, 120, "%120", "%121", "%122")
IM2WIN_WGMMA_HALVES(128, 64, true, "1, 1, 0, 1", "%64", "%65", "%66")
IM2WIN_WGMMA_HALVES(256, 128, true, "1, 1, 0, 1", "%128", "%129", "%130")

#undef IM2WIN_WGMMA_COLUMNS
#undef IM2WIN_WGMMA_HALVES
#undef IM2WIN_WGMMA
#undef IM2WIN_REGISTERS_128
#undef IM2WIN_REGISTERS_120
#undef IM2WIN_REGISTERS_100
#undef IM2WIN_REGISTERS_84
#undef IM2WIN_REGISTERS_80
#undef IM2WIN_REGISTERS_72
#undef IM2WIN_REGISTERS_64
#undef IM2WIN_REGISTERS_60
#undef IM2WIN_REGISTERS_56
#undef IM2WIN_REGISTERS_52
#undef IM2WIN_REGISTERS_48
#undef IM2WIN_REGISTERS_40
#undef IM2WIN_REGISTERS_28
#undef IM2WIN_REGISTERS
#undef IM2WIN_NAMES_128
#undef IM2WIN_NAMES_120
#undef IM2WIN_NAMES_100
#undef IM2WIN_NAMES_84
#undef IM2WIN_NAMES_80
#undef IM2WIN_NAMES_64
#undef IM2WIN_NAMES_72
#undef IM2WIN_NAMES_60
#undef IM2WIN_NAMES_56
#undef IM2WIN_NAMES_52
#undef IM2WIN_NAMES_48
#undef IM2WIN_NAMES_40
#undef IM2WIN_NAMES_28
#undef IM2WIN_NAMES

/// float32 as two float16: each product is one of these.
template <int kColumns>
struct Wgmma<Operands::kSplit, kColumns> : Wgmma<Operands::kHalf, kColumns> {};

}  // namespace im2win::cuda::fused
