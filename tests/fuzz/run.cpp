#include "run.hpp"

#include <algorithm>
#include <optional>
#include <vector>

#include "expect.hpp"
#include "reference.hpp"

namespace fuzz {
namespace {

std::vector<uint8_t> copy(const Memory& memory) {
  return {memory.data(), memory.data() + memory.size()};
}

struct Shapes {
  Shape input, filter, bias, residual, output;

  Shapes(const im2win_conv2d_desc& d, const Sizes& sizes)
      : input({d.n, d.c, d.h, d.w}, d.input_layout, d.input_strides),
        filter({d.k, d.c / d.groups, d.r, d.s}, d.filter_layout, d.filter_strides),
        bias({1, 1, 1, d.k}, IM2WIN_STRIDED, {0, 0, 0, d.bias_stride}),
        residual(sizes.output, d.residual_layout, d.residual_strides),
        output(sizes.output, d.output_layout, d.output_strides) {}

  bool are_small(const im2win_conv2d_desc& d) const {
    return is_small(input) && is_small(filter) && is_small(output) &&
           (d.bias_dtype == IM2WIN_NONE || is_small(bias)) &&
           (d.has_residual == 0 || is_small(residual));
  }
};

class Run {
 public:
  Run(const Call& call, const im2win_plan* plan, const Sizes& sizes, const Shapes& shapes)
      : call_(call),
        plan_(plan),
        sizes_(sizes),
        input_(shapes.input, call.desc.dtype, call.shift),
        filter_(shapes.filter, call.desc.dtype, call.shift),
        output_(shapes.output, call.desc.dtype, call.shift),
        workspace_(static_cast<int64_t>(sizes.workspace), 0) {
    const im2win_conv2d_desc& d = call.desc;
    input_.fill(call.data_seed, call.is_special);
    filter_.fill(call.data_seed + 1, call.is_special);
    if (d.bias_dtype != IM2WIN_NONE)
      bias_.emplace(shapes.bias, d.bias_dtype, call.shift).fill(2, false);
    if (d.has_residual != 0) residual_.emplace(shapes.residual, d.dtype, call.shift).fill(3, false);
    const bool is_in_place = residual_ && call.is_in_place;
    if (is_in_place) output_.fill(3, false);
    pack();
    void* residual = residual_ ? residual_->pointer() : nullptr;
    pointers_ = {input_.pointer(),
                 packed_ ? packed_->data() : filter_.pointer(),
                 bias_ ? bias_->pointer() : nullptr,
                 is_in_place ? output_.pointer() : residual,
                 output_.pointer(),
                 sizes.workspace > 0 ? workspace_.data() : nullptr};
  }

  void operator()() {
    const auto before = copy(output_.memory());
    const auto input = copy(input_.memory());
    const auto filter = copy(filter_.memory());
    const im2win_status expected = spoil();
    const auto& p = pointers_;
    const im2win_status status =
        im2win_conv2d(plan_, p[0], p[1], p[2], p[3], p[4], p[5], workspace_bytes_, nullptr);
    expect_message(status);
    expect(copy(input_.memory()) == input, "no input is written");
    expect(copy(filter_.memory()) == filter, "no filter is written");
    expect(output_.are_gaps_untouched(), "nothing is written between outputs");
    expect(workspace_.is_head_untouched(), "nothing is written before the workspace");
    expect(status == (call_.desc.n == 0 ? IM2WIN_SUCCESS : expected), "the status says what is so");
    if (status != IM2WIN_SUCCESS)
      return expect(copy(output_.memory()) == before, "it failed whole");
    if (is_checkable(call_.desc))
      expect(is_right(call_.desc, {&input_, &filter_, bias_ ? &*bias_ : nullptr,
                                   residual_ ? &*residual_ : nullptr, &output_}),
             "every output is right");
  }

 private:
  void pack() {
    if (sizes_.packed == 0) return;
    const auto bytes = static_cast<int64_t>(sizes_.packed);
    Memory& packed = packed_.emplace(bytes, 0);
    expect(im2win_pack_filter(plan_, filter_.pointer(), packed.data(), sizes_.packed - 1,
                              nullptr) == IM2WIN_INVALID_ARGUMENT,
           "a packed filter needs all its bytes");
    expect(packed.is_untouched(), "and none is written else");
    expect(im2win_pack_filter(plan_, filter_.pointer(), packed.data(), sizes_.packed, nullptr) ==
               IM2WIN_SUCCESS,
           "filters are packed");
    if (call_.options.packed_filter == 0) packed_.reset();
  }

  /// Makes the call wrong, if there is what to make wrong; returns the status it is to have.
  im2win_status spoil() {
    workspace_bytes_ = sizes_.workspace;
    void*& victim = pointers_[static_cast<size_t>(call_.victim)];
    void*& unexpected = pointers_[2 + static_cast<size_t>(call_.victim) % 2];
    switch (call_.abuse) {
      case Abuse::kNone: break;
      case Abuse::kNull:
        if (victim == nullptr) break;
        victim = nullptr;
        return IM2WIN_INVALID_ARGUMENT;
      case Abuse::kMisaligned:
        if (victim == nullptr) break;
        victim = static_cast<char*>(victim) + 1;
        return IM2WIN_INVALID_ARGUMENT;
      case Abuse::kOverlap: pointers_[4] = pointers_[0]; return IM2WIN_INVALID_ARGUMENT;
      case Abuse::kShort:
        if (workspace_bytes_ == 0) break;
        --workspace_bytes_;
        return IM2WIN_WORKSPACE_TOO_SMALL;
      case Abuse::kUnexpected:
        if (unexpected != nullptr) break;
        unexpected = pointers_[0];
        return IM2WIN_INVALID_ARGUMENT;
    }
    return IM2WIN_SUCCESS;
  }

  const Call& call_;
  const im2win_plan* plan_;
  const Sizes& sizes_;
  Tensor input_, filter_, output_;
  std::optional<Tensor> bias_, residual_;
  std::optional<Memory> packed_;
  Memory workspace_;
  std::vector<void*> pointers_;  // in the order of im2win_conv2d's
  size_t workspace_bytes_ = 0;
};

}  // namespace

void run(const Call& call, const im2win_plan* plan, const Sizes& sizes) {
  const Shapes shapes(call.desc, sizes);
  if (shapes.are_small(call.desc)) Run(call, plan, sizes, shapes)();
}

void run_on_nothing(const Call& call, const im2win_plan* plan) {
  alignas(256) static uint8_t memory[256];
  void* bias = call.desc.bias_dtype != IM2WIN_NONE ? memory : nullptr;
  void* residual = call.desc.has_residual != 0 ? memory : nullptr;
  const im2win_status status =
      im2win_conv2d(plan, memory, memory, bias, residual, memory, memory, SIZE_MAX, nullptr);
  expect_message(status);
  expect(status == (call.desc.n == 0 ? IM2WIN_SUCCESS : IM2WIN_INVALID_ARGUMENT),
         "an output on its input is refused");
}

}  // namespace fuzz
