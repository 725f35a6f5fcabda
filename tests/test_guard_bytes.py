"""Every buffer of a call between guard bytes, on either device: nothing is written outside it, in
any dtype and layout, whether aligned well or as an element alone. Around a tensor there is NaN in
every dtype: a result shows where that was used.
"""

from typing import Any

import numpy as np
import pytest

import capi
from im2win._library import check, ffi, lib
from im2win.reference import conv2d, magnitude
from numerics import (
    DTYPES,
    Array,
    accumulator,
    assert_close,
    assert_convolved,
    normal,
    tolerance,
)
from problems import MIXED, Problem
from targets import Target, all_targets

SHIFTS = {"element": None, "16 bytes": 16, "256 bytes": 0}


def in_order(array: Array, is_nhwc: bool) -> Array:
    """An equal array, channels first or last."""
    last = np.ascontiguousarray(array.transpose(0, 2, 3, 1)).transpose(0, 3, 1, 2)
    return last if is_nhwc else np.ascontiguousarray(array)


def convolve(
    target: Target, problem: Problem, dtype: str, is_nhwc: bool, shift: int, has_residual: bool
) -> None:
    """With bias and relu; asserts that the result is right, and nothing beside it written."""
    x = in_order(normal(problem.input_shape, dtype), is_nhwc)
    weight, bias = normal(problem.weight_shape, dtype), normal((problem.k,), dtype)
    residual = in_order(normal(problem.output_shape, dtype), is_nhwc) if has_residual else None
    out = in_order(capi.poisoned(problem.output_shape, DTYPES[dtype]), is_nhwc)
    given: Any = {"bias": bias, "residual": residual, "activation": lib.IM2WIN_RELU}
    try:
        y = target.run(problem, x, weight, out=out, shift=shift, **given)
    except pytest.skip.Exception:  # of these strides
        return
    window: Any = (problem.stride, problem.padding, problem.dilation, problem.groups)
    exact = conv2d(x, weight, bias, *window, residual=residual, activation="relu")
    scale = magnitude(x, weight, bias, *window, residual=residual)
    sums = accumulator(target.algorithm, dtype)
    assert_close(y, exact, tolerance(exact, scale, dtype, sums, problem.taps))


@pytest.mark.parametrize("shift", SHIFTS.values(), ids=SHIFTS.keys())
@pytest.mark.parametrize("is_nhwc", [False, True], ids=["nchw", "nhwc"])
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("target", all_targets())
def test_convolution(target: Target, dtype: str, is_nhwc: bool, shift: int | None) -> None:
    taken = [problem for problem in MIXED if target.takes(problem, dtype)]
    if not taken:
        pytest.skip(f"{target.algorithm} does not take {dtype}")
    offset = DTYPES[dtype].itemsize if shift is None else shift
    for problem in taken:
        for has_residual in (False, True):
            convolve(target, problem, dtype, is_nhwc, offset, has_residual)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("target", all_targets())
def test_packing(target: Target, dtype: str) -> None:
    for problem in (problem for problem in MIXED if target.takes(problem, dtype)):
        x, weight = normal(problem.input_shape, dtype), normal(problem.weight_shape, dtype)
        options = capi.plan_options(target.device, target.algorithm)
        options.packed_filter, plan, size = 1, ffi.new("im2win_plan **"), ffi.new("size_t *")
        check(lib.im2win_plan_create(capi.descriptor(problem, dtype), options, plan))
        owned = ffi.gc(plan[0], lib.im2win_plan_destroy)
        check(lib.im2win_plan_packed_filter_bytes(owned, size))
        if size[0] == 0:
            continue
        y = capi.poisoned(problem.output_shape, x.dtype)
        tensors = {"input": x, "filter": weight, "output": y}
        placed = {role: capi.Tensor(target.device, a, 16) for role, a in tensors.items()}
        packed = capi.Memory(target.device, np.full(size[0], capi.POISON, np.uint8))
        workspace = capi.new_workspace(owned, target.device)
        at = {role: capi.address(tensor.address) for role, tensor in placed.items()}
        filters, memory = (capi.address(each.address) for each in (packed, workspace))
        check(lib.im2win_pack_filter(owned, at["filter"], filters, size[0], ffi.NULL))
        needed, null = capi.workspace_bytes(owned), ffi.NULL
        memory = memory if needed else null
        check(
            lib.im2win_conv2d(
                owned, at["input"], filters, null, null, at["output"], memory, needed, null
            )
        )
        packed.read(), workspace.read()
        assert placed["filter"].read().tobytes() == weight.tobytes()
        assert_convolved(placed["output"].read(), x, weight, problem, target.algorithm)
