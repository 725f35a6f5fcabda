"""Descriptors and options at the limits of what is legal: no size is too large to plan for."""

from typing import Any

import numpy as np
import pytest

import capi
from capi import CPU
from im2win._library import ffi, last_error, lib
from problems import Problem

FAR: dict[str, Any] = {"h": 1, "w": 1, "r": 3, "s": 3}  # windows that reach far into the padding
FAR |= {f"padding_{side}": 2**35 for side in ("top", "bottom", "left", "right")}
FAR |= {f"dilation_{axis}": 2**35 for axis in "hw"}

LEGAL: list[dict[str, Any]] = [
    {"k": 2**45, "r": 1, "s": 1},  # a filter that would fit, if it were not padded to vectors
    {"k": 2**45, "n": 0},
    {"h": 2**30, "w": 2**15, "c": 1, "k": 1, "n": 0, "groups": 1},
    {"n": 2**45, "c": 1, "k": 1},
    {"h": 2**45, "c": 1, "n": 1, "k": 1},
    {"w": 2**45, "c": 1, "n": 1, "k": 1, "padding_left": 1},
    {"w": 2**45, "c": 1, "n": 1, "k": 1, "input_layout": lib.IM2WIN_NHWC},
    {"stride_h": 2**63 - 1, "stride_w": 2**63 - 1},
    {"r": 1, "s": 1, "dilation_h": 2**63 - 1, "dilation_w": 2**63 - 1},
    {"k": 1, "bias_dtype": lib.IM2WIN_FLOAT32, "bias_stride": -(2**63)},
    {"padding_left": 2**40, "stride_w": 2**40 + 1, "groups": 3, "k": 3},
    {"padding_top": 2**45, "stride_h": 2**49, "groups": 3, "k": 3},
    FAR,
    {**FAR, "groups": 3, "k": 3},
]
SIZES = Problem(n=2)


@pytest.mark.parametrize("algorithm", [None, "direct", "im2win", "depthwise"])
@pytest.mark.parametrize("threads", [1, 1024])
@pytest.mark.parametrize("fields", LEGAL, ids=str)
def test_legal_problems_are_planned_or_refused(
    fields: dict[str, Any], threads: int, algorithm: str | None
) -> None:
    desc = capi.descriptor(SIZES, **fields)
    plan = ffi.new("im2win_plan **")
    status = lib.im2win_plan_create(desc, capi.plan_options(CPU, algorithm, threads), plan)
    if algorithm in ("im2win", "depthwise"):
        assert status in (lib.IM2WIN_SUCCESS, lib.IM2WIN_UNSUPPORTED), last_error()
        assert (status == lib.IM2WIN_SUCCESS) == capi.accepts(desc, CPU, str(algorithm))
    else:
        assert status == lib.IM2WIN_SUCCESS, last_error()
    lib.im2win_plan_destroy(plan[0])


@pytest.mark.parametrize("groups", [1, 3])
def test_little_workspace_for_mere_padding(groups: int) -> None:
    """The whole input is three numbers; a panel of what its one window spans would be 2^38."""
    plan = capi.create_plan(capi.descriptor(SIZES, **FAR, groups=groups, k=3))
    assert capi.workspace_bytes(plan) < 2**20


@pytest.mark.parametrize("fields", [{"h": 2**45}, {"w": 2**45, "k": 1}, {"c": 1, "n": 2**40}])
def test_overlap_of_tensors_as_large_as_an_address_space(fields: dict[str, Any]) -> None:
    fields = {"n": 1, "c": 1, "k": 1, **fields}
    plan = capi.create_plan(capi.descriptor(SIZES, **fields), CPU, "direct")
    low, high = capi.address(2**12), capi.address(2**46)
    for a, b in [(low, high), (high, low)]:
        status = lib.im2win_conv2d(plan, a, a, ffi.NULL, ffi.NULL, b, ffi.NULL, 0, ffi.NULL)
        assert status == lib.IM2WIN_INVALID_ARGUMENT
        assert "overlaps" in last_error()


@pytest.mark.parametrize("threads", [-1, 1025, 2**31 - 1])
def test_more_threads_than_a_process_could_start(threads: int) -> None:
    """OpenMP would end the process."""
    plan = ffi.new("im2win_plan **")
    options = capi.plan_options(CPU, threads=threads)
    status = lib.im2win_plan_create(capi.descriptor(SIZES), options, plan)
    assert status == lib.IM2WIN_INVALID_ARGUMENT
    assert f"threads is {threads}: expected 1 to 1024" in last_error()


@pytest.mark.parametrize("role", ["input", "filter", "bias"])
def test_residual_in_place_excuses_no_other_tensor(role: str) -> None:
    """Element for element the output may be its residual, and nothing else at that address."""
    sizes = Problem(c=1, h=1, w=1, k=1, r=1, s=1)
    fields = {"has_residual": 1, "bias_dtype": lib.IM2WIN_FLOAT32}
    plan = capi.create_plan(capi.descriptor(sizes, **fields), CPU, "direct")
    numbers = np.ones(4, np.float32)
    at = {name: numbers[i:].ctypes.data for i, name in enumerate(("input", "filter", "bias"))}
    output = capi.address(numbers[3:].ctypes.data)
    at[role] = numbers[3:].ctypes.data
    pointers = [capi.address(at[name]) for name in ("input", "filter", "bias")]
    status = lib.im2win_conv2d(plan, *pointers, output, output, ffi.NULL, 0, ffi.NULL)
    assert status == lib.IM2WIN_INVALID_ARGUMENT
    assert f"overlaps {role}" in last_error()
    assert (numbers == 1).all()
