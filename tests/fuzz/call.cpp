#include "call.hpp"

#include <algorithm>
#include <cstring>
#include <iterator>
#include <limits>

namespace fuzz {
namespace {

constexpr int64_t kMax = std::numeric_limits<int64_t>::max();
constexpr int64_t kEdges[] = {15, 16, 17, 31, 32, 33, 63, 64, 65, 129};
constexpr int64_t kHostile[] = {0,
                                -1,
                                int64_t{1} << 24,
                                (int64_t{1} << 31) - 1,
                                int64_t{1} << 31,
                                int64_t{1} << 33,
                                int64_t{1} << 40,
                                int64_t{1} << 55,
                                int64_t{1} << 60,
                                int64_t{1} << 62,
                                kMax / 3,
                                kMax - 1,
                                kMax,
                                -kMax,
                                -kMax - 1};

bool is_small(int64_t value) { return value >= 1 && value <= 256; }

/// Strides of a tensor whose axes lie in some order, some of them backwards or with gaps; where it is
/// only read, one may be a broadcast.
void make_strides(Bytes& bytes, const int64_t (&sizes)[4], bool is_read, int64_t (&strides)[4]) {
  int order[4] = {0, 1, 2, 3};
  for (uint8_t permutation = bytes.byte() % 24; permutation > 0; --permutation)
    std::next_permutation(std::begin(order), std::end(order));
  const uint8_t backwards = bytes.byte();
  const uint8_t gaps = bytes.byte();
  uint64_t reach = 1;  // unsigned: it may wrap round, and the library is to notice
  for (int axis : order) {
    const bool is_broadcast = is_read && (backwards >> (4 + axis) & 1) != 0 && gaps > 128;
    const uint64_t stride = is_broadcast ? 0 : reach + (gaps >> (2 * axis) & 3);
    strides[axis] = static_cast<int64_t>((backwards >> axis & 1) != 0 ? 0 - stride : stride);
    if (!is_broadcast) reach = stride * static_cast<uint64_t>(std::max<int64_t>(sizes[axis], 1));
  }
  if (bytes.byte() > 250) strides[bytes.byte() % 4] = bytes.size(-4);
}

}  // namespace

uint64_t Bytes::word() {
  uint64_t value = 0;
  for (int i = 0; i < 8; ++i) value = value << 8 | byte();
  return value;
}

int64_t Bytes::size(int64_t least) {
  const uint8_t kind = byte();
  if (kind < 216) return least + kind % 9;
  if (kind < 240) return kEdges[kind % std::size(kEdges)];
  if (kind < 255) return kHostile[kind - 240];
  return static_cast<int64_t>(word());
}

int32_t Bytes::choice(int32_t count) {
  const uint8_t kind = byte();
  return kind < 252 ? kind % count : static_cast<int32_t>(word());
}

double Bytes::scale() {
  const uint8_t kind = byte();
  if (kind < 128) return 1;
  if (kind < 250) return (kind - 190) / 8.0;
  double value = 0;
  const uint64_t bits = word();
  std::memcpy(&value, &bits, sizeof value);
  return value;
}

Call::Call(Bytes& bytes) {
  im2win_conv2d_desc_init(&desc, sizeof desc);
  im2win_plan_options_init(&options, sizeof options);
  read_sizes(bytes);
  read_options(bytes);
  read_epilogue(bytes);
  read_layouts(bytes);
  constexpr const char* kIsas[] = {"", "baseline", "avx2", "avx512", "mmx"};
  isa = kIsas[bytes.byte() % 16 == 15 ? 4 : bytes.byte() % 4];
  const uint8_t kind = bytes.byte();
  abuse = kind < 128 ? Abuse::kNone : static_cast<Abuse>(kind % kAbuses);
  victim = bytes.byte() % 6;
  shift = bytes.byte() % 8;
  const uint8_t flags = bytes.byte();
  is_in_place = (flags & 1) != 0;
  is_special = (flags & 6) == 6;
  data_seed = bytes.byte();
}

void Call::read_sizes(Bytes& bytes) {
  // A choice may be any number, the largest, too.
  desc.dtype = static_cast<int32_t>(1U + static_cast<uint32_t>(bytes.choice(4)));
  desc.n = bytes.size(0);
  for (int64_t* size : {&desc.c, &desc.h, &desc.w, &desc.k, &desc.r, &desc.s})
    *size = bytes.size(1);
  const uint8_t window = bytes.byte();
  if ((window & 1) != 0)
    for (int64_t* size : {&desc.stride_h, &desc.stride_w}) *size = bytes.size(1);
  if ((window & 2) != 0)
    for (int64_t* size :
         {&desc.padding_top, &desc.padding_bottom, &desc.padding_left, &desc.padding_right})
      *size = bytes.size(0);
  if ((window & 4) != 0)
    for (int64_t* size : {&desc.dilation_h, &desc.dilation_w}) *size = bytes.size(1);
  const uint8_t grouping = bytes.byte();
  if (grouping % 4 == 1) desc.groups = bytes.size(1);
  if (grouping % 4 == 2 && is_small(desc.c)) desc.k *= is_small(desc.k) ? desc.c : 1;
  if (grouping % 4 == 2) desc.groups = desc.c;
  if (grouping % 4 == 3 && is_small(desc.c) && is_small(desc.k)) {
    desc.groups = 1 + bytes.byte() % 4;
    desc.c *= desc.groups;
    desc.k *= desc.groups;
  }
}

void Call::read_layouts(Bytes& bytes) {
  const uint8_t layouts = bytes.byte();
  int32_t* const fields[] = {&desc.input_layout, &desc.filter_layout, &desc.output_layout,
                             &desc.residual_layout};
  int64_t p = 1;
  int64_t q = 1;
  im2win_conv2d_output_size(&desc, &p, &q);
  const int64_t output[4] = {desc.n, desc.k, p, q};
  const int64_t input[4] = {desc.n, desc.c, desc.h, desc.w};
  const int64_t filter[4] = {desc.k, desc.groups > 0 ? desc.c / desc.groups : 1, desc.r, desc.s};
  for (int i = 0; i < 4; ++i) *fields[i] = (layouts >> (2 * i) & 3) % 3;
  make_strides(bytes, input, true, desc.input_strides);
  make_strides(bytes, filter, true, desc.filter_strides);
  make_strides(bytes, output, false, desc.output_strides);
  make_strides(bytes, output, true, desc.residual_strides);
  if (bytes.byte() > 250) *fields[bytes.byte() % 4] = bytes.choice(3);
}

void Call::read_epilogue(Bytes& bytes) {
  const uint8_t kind = bytes.byte();
  if ((kind & 1) != 0) desc.bias_dtype = (kind & 2) != 0 ? desc.dtype : bytes.choice(5);
  if ((kind & 4) != 0) desc.bias_stride = bytes.size(-4);
  if ((kind & 8) != 0) desc.has_residual = bytes.choice(2);
  if ((kind & 16) != 0) desc.activation = bytes.choice(10);
  if ((kind & 32) != 0)
    for (double* value :
         {&desc.alpha, &desc.beta, desc.activation_params, desc.activation_params + 1})
      *value = bytes.scale();
  if ((kind & 192) == 192) {
    desc.math = bytes.choice(3);
    desc.operation = bytes.byte() > 250;
    desc.reserved = bytes.byte() > 250;
    if (bytes.byte() > 250) desc.struct_size = static_cast<uint32_t>(bytes.word());
  }
}

void Call::read_options(Bytes& bytes) {
  const uint8_t kind = bytes.byte();
  constexpr const char* kNames[] = {"direct", "im2win", "depthwise", "", "mec"};
  if ((kind & 3) != 0) {
    std::strcpy(algorithm, kNames[bytes.byte() % 5]);
    if (algorithm[0] == '\0')
      for (char& letter : algorithm) letter = static_cast<char>(bytes.byte());
    algorithm[sizeof algorithm - 1] = '\0';
    options.algorithm = algorithm;
  }
  if ((kind & 4) != 0) options.threads = static_cast<int32_t>(bytes.size(0));
  if ((kind & 8) != 0)
    options.workspace_limit_bytes = static_cast<uint64_t>(bytes.size(0)) << (bytes.byte() % 24);
  if ((kind & 16) != 0) options.packed_filter = bytes.choice(2);
  if ((kind & 224) == 224) {
    options.device = static_cast<int32_t>(bytes.size(-1));
    if (bytes.byte() > 250) options.struct_size = static_cast<uint32_t>(bytes.word());
  }
}

}  // namespace fuzz
