#include "descriptors.hpp"

#include <cstring>

#include "status.hpp"

namespace im2win {
namespace {

// The sizes in version 0.1. Structs only grow, so no caller has a smaller one.
constexpr size_t kFirstDescBytes = sizeof(im2win_conv2d_desc);
constexpr size_t kFirstOptionsBytes = sizeof(im2win_plan_options);

void check_size(const char* name, size_t bytes, size_t first, size_t current) {
  require(bytes >= first && bytes <= current, name, " is ", bytes, ": expected ", current,
          ", as set by the init function of the header that this library was built with");
}

template <class Struct>
Struct read(const Struct& source, const Struct& defaults, const char* name, size_t first) {
  check_size(name, source.struct_size, first, sizeof(Struct));
  Struct copy = defaults;
  std::memcpy(&copy, &source, source.struct_size);
  return copy;
}

template <class Struct>
void write(Struct* target, Struct defaults, const char* name, size_t bytes, size_t first) {
  check_size(name, bytes, first, sizeof(Struct));
  defaults.struct_size = static_cast<uint32_t>(bytes);
  std::memcpy(target, &defaults, bytes);
}

}  // namespace

im2win_conv2d_desc default_desc() {
  im2win_conv2d_desc desc{};
  desc.struct_size = sizeof desc;
  desc.dtype = IM2WIN_FLOAT32;
  desc.stride_h = desc.stride_w = 1;
  desc.dilation_h = desc.dilation_w = 1;
  desc.groups = 1;
  desc.bias_stride = 1;
  desc.alpha = desc.beta = 1;
  return desc;
}

im2win_plan_options default_options() {
  im2win_plan_options options{};
  options.struct_size = sizeof options;
  options.device = IM2WIN_CPU;
  options.workspace_limit_bytes = UINT64_MAX;
  return options;
}

im2win_conv2d_desc read_desc(const im2win_conv2d_desc* desc) {
  require(desc != nullptr, "desc is NULL");
  return read(*desc, default_desc(), "desc->struct_size", kFirstDescBytes);
}

im2win_plan_options read_options(const im2win_plan_options* options) {
  if (options == nullptr) return default_options();
  return read(*options, default_options(), "options->struct_size", kFirstOptionsBytes);
}

void write_default_desc(im2win_conv2d_desc* desc, size_t bytes) {
  require(desc != nullptr, "desc is NULL");
  write(desc, default_desc(), "desc_bytes", bytes, kFirstDescBytes);
}

void write_default_options(im2win_plan_options* options, size_t bytes) {
  require(options != nullptr, "options is NULL");
  write(options, default_options(), "options_bytes", bytes, kFirstOptionsBytes);
}

}  // namespace im2win
