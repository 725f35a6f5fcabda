"""A device in use to the last byte: what needs none of its memory works, what needs some says so
and leaves outputs alone, and all works once there is memory again. In an interpreter of its own,
where no kernel has been loaded.
"""

from typing import Any

import pytest

import im2win
from cuda_call import CudaCall
from im2win._library import ffi, last_error, lib
from numerics import assert_convolved, normal
from problems import Problem
from programs import run_python
from targets import CUDA


def fill() -> list[Any]:
    """All memory that the device has left, in parts that are freed when they are dropped."""
    blocks, size, pointer = [], 1 << 40, ffi.new("void **")
    while size:
        status = lib.im2win_cuda_alloc(CUDA, size, ffi.NULL, pointer)
        if status == lib.IM2WIN_SUCCESS:
            free = lambda memory: lib.im2win_cuda_free(CUDA, memory, ffi.NULL)  # noqa: E731
            blocks.append(ffi.gc(pointer[0], free))
        else:
            assert status == lib.IM2WIN_OUT_OF_MEMORY, last_error()
            assert f"no {size} bytes left" in last_error()
            size //= 2
    return blocks


def convolve_on_a_full_device() -> None:
    calls = [CudaCall(algorithm) for algorithm in im2win.algorithms("cuda")]
    problem = Problem(n=2, c=8, h=30, w=30, k=8)
    x, weight = normal(problem.input_shape, "float32"), normal(problem.weight_shape, "float32")
    on_device, filters = (im2win.DeviceArray.from_numpy(array) for array in (x, weight))
    blocks = fill()
    statuses = [call.run() for call in calls]
    for call, status in zip(calls, statuses, strict=True):
        assert status in (lib.IM2WIN_SUCCESS, lib.IM2WIN_OUT_OF_MEMORY)
        call.examine(status)
        assert call.make_plan() in (lib.IM2WIN_SUCCESS, lib.IM2WIN_OUT_OF_MEMORY)
    for _ in range(2):
        with pytest.raises(MemoryError):
            im2win.conv2d(on_device, filters)
    blocks.clear()
    for call in calls:
        assert call.run() == lib.IM2WIN_SUCCESS, last_error()
        call.examine(lib.IM2WIN_SUCCESS)
        assert call.make_plan() == lib.IM2WIN_SUCCESS
    assert_convolved(im2win.conv2d(on_device, filters).numpy(), x, weight, problem)
    print(len(statuses), sum(status != lib.IM2WIN_SUCCESS for status in statuses))


@pytest.mark.gpu
def test_convolve_on_a_full_device() -> None:
    printed = run_python("import test_full_device as t; t.convolve_on_a_full_device()")
    assert int(printed.split()[0]) == len(im2win.algorithms("cuda"))
