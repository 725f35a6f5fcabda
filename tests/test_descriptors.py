"""Descriptors and options that no problem has: refused by field and value."""

from typing import Any

import pytest

import capi
from capi import CPU
from im2win._library import ffi, last_error, lib
from problems import Problem

PROBLEM = Problem(n=2, c=4, k=6)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"dtype": 0}, "dtype is 0"),
        ({"dtype": 5}, "dtype is 5"),
        ({"math": -1}, "math is -1"),
        ({"math": 3}, "math is 3"),
        ({"activation": 10}, "activation is 10"),
        ({"input_layout": 3}, "input_layout is 3"),
        ({"filter_layout": -1}, "filter_layout is -1"),
        ({"output_layout": 99}, "output_layout is 99"),
        ({"has_residual": 1, "residual_layout": 7}, "residual_layout is 7"),
        ({"has_residual": 2}, "has_residual is 2"),
        ({"bias_dtype": 9}, "bias_dtype is 9"),
        ({"bias_dtype": 1}, "bias_dtype is float64"),
        ({"reserved": 1}, "reserved is 1"),
        ({"n": -1}, "n is -1"),
        ({"c": 0}, "c is 0"),
        ({"k": -(2**63)}, f"k is {-(2**63)}"),
        ({"struct_size": 0}, "struct_size is 0"),
        ({"struct_size": 8}, "struct_size is 8"),
        ({"struct_size": 2**32 - 1}, f"struct_size is {2**32 - 1}"),
        # sizes whose products pass 2^63
        ({"n": 2**31, "c": 2**31, "h": 2**31}, "input overflows"),
        ({"n": 2**62, "c": 1}, "input overflows"),
        ({"c": 2**40, "k": 2**40}, "filter overflows"),
        ({"n": 2**40, "k": 2**40, "c": 1}, "output overflows"),
        ({"h": 2**63 - 1, "w": 1, "s": 1}, "overflows"),
        ({"padding_top": 2**63 - 1}, "height overflows"),
        ({"padding_left": 2**62, "padding_right": 2**62}, "width overflows"),
        ({"dilation_w": 2**62}, "width overflows"),
        ({"bias_dtype": 2, "bias_stride": 2**62}, "bias overflows"),
        ({"input_layout": 2, "input_strides": (2**62,) * 4}, "input overflows"),
        ({"input_layout": 2, "input_strides": (-(2**63), 1, 1, 1)}, "input stride"),
        ({"output_layout": 2, "output_strides": (0, 20, 5, 1)}, "output_strides are 0, 20, 5, 1"),
        ({"output_layout": 2, "output_strides": (120, 20, 4, 1)}, "output_strides"),
    ],
    ids=str,
)
def test_wrong_descriptors(fields: dict[str, Any], message: str) -> None:
    desc = capi.descriptor(PROBLEM)
    for name, value in fields.items():
        setattr(desc, name, value)
    plan = ffi.new("im2win_plan **", ffi.cast("im2win_plan *", 1))
    assert lib.im2win_plan_create(desc, ffi.NULL, plan) == lib.IM2WIN_INVALID_ARGUMENT
    assert plan[0] == ffi.NULL
    assert message in last_error()
    size = ffi.new("int64_t[2]")
    status = lib.im2win_conv2d_output_size(desc, size, size + 1)
    assert status == lib.IM2WIN_INVALID_ARGUMENT
    assert message in last_error()


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"device": -2}, "device is -2"),
        ({"threads": -1}, "threads is -1"),
        ({"packed_filter": 2}, "packed_filter is 2"),
        ({"struct_size": 4}, "struct_size is 4"),
        ({"algorithm": capi.c_string("nonesuch")}, 'algorithm is "nonesuch"'),
    ],
    ids=str,
)
def test_wrong_options(fields: dict[str, Any], message: str) -> None:
    options = capi.plan_options(CPU)
    for name, value in fields.items():
        setattr(options, name, value)
    plan = ffi.new("im2win_plan **")
    status = lib.im2win_plan_create(capi.descriptor(PROBLEM), options, plan)
    assert status == lib.IM2WIN_INVALID_ARGUMENT
    assert plan[0] == ffi.NULL
    assert message in last_error()


def test_later_operations_are_unsupported() -> None:
    plan = ffi.new("im2win_plan **")
    desc = capi.descriptor(PROBLEM, operation=1)
    assert lib.im2win_plan_create(desc, ffi.NULL, plan) == lib.IM2WIN_UNSUPPORTED
    assert "operation is 1" in last_error()


@pytest.mark.parametrize("struct", ["conv2d_desc", "plan_options"])
def test_init_writes_the_size_that_it_is_told(struct: str) -> None:
    """A caller's struct may be of another version; nothing past its end is touched."""
    size = ffi.sizeof(f"im2win_{struct}")
    memory = ffi.new("char[]", b"~" * (size + 64))
    target = ffi.cast(f"im2win_{struct} *", memory)
    init = getattr(lib, f"im2win_{struct}_init")
    for wrong in (0, 4, size - 1, size + 1):
        assert init(target, wrong) == lib.IM2WIN_INVALID_ARGUMENT
        assert f"bytes is {wrong}" in last_error()
        assert bytes(ffi.buffer(memory, size + 64)) == b"~" * (size + 64)
    assert init(target, size) == lib.IM2WIN_SUCCESS
    assert target.struct_size == size
    assert bytes(ffi.buffer(memory, size + 64))[size:] == b"~" * 64


def test_defaults_are_those_of_the_header() -> None:
    desc = ffi.new("im2win_conv2d_desc *")
    assert lib.im2win_conv2d_desc_init(desc, ffi.sizeof("im2win_conv2d_desc")) == lib.IM2WIN_SUCCESS
    ones = ("stride_h", "stride_w", "dilation_h", "dilation_w", "groups", "alpha", "beta")
    assert all(getattr(desc, name) == 1 for name in ones)
    assert desc.dtype == lib.IM2WIN_FLOAT32
    zeros = ("operation", "math", "n", "c", "h", "w", "k", "r", "s", "padding_top", "has_residual")
    assert not any(getattr(desc, name) for name in zeros)
    options = capi.plan_options(CPU)
    assert options.device == lib.IM2WIN_CPU
    assert options.workspace_limit_bytes == 2**64 - 1
    assert options.algorithm == ffi.NULL
