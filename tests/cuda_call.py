"""A call of an algorithm on CUDA that may fail: its output is whole then, or untouched."""

from dataclasses import replace

import numpy as np

import capi
from im2win._library import check, ffi, lib
from numerics import Expected, normal
from problems import Problem, same
from targets import CUDA

DENSE = Problem(n=2, c=19, h=13, w=17, k=37, padding=same(1))
UNPADDED = replace(DENSE, padding=same(0))
STEM = replace(DENSE, c=3, w=67)
PIXELS = Problem(n=70, c=40, h=1, w=1, k=37, r=1, s=1)  # channels are neighbours in NCHW, too
WINDOWS = Problem(n=70, c=40, h=1, w=1, k=37, padding=same(1))
GROUPS = Problem(n=70, c=64, h=1, w=1, k=64, r=1, s=1, groups=4)
DEPTHWISE = Problem(n=2, c=16, h=13, w=17, k=16, padding=same(1), groups=16)


def problem_of(algorithm: str) -> Problem:
    """One that it takes in any dtype that it takes at all."""
    others = {
        "depthwise": DEPTHWISE,
        "grouped": GROUPS,
        "mec": UNPADDED,
        "im2win_stem": STEM,
        "pointwise": PIXELS,
        "pointwise_mma": PIXELS,
        "windows_mma": WINDOWS,
    }
    return others.get(algorithm, DENSE)


def dtype_of(algorithm: str) -> str:
    """One that it takes."""
    return "float16" if algorithm in ("grouped", "pointwise", "windows_mma") else "float32"


class CudaCall:
    """Its memory is its own, so that it needs none where there is none left."""

    def __init__(self, algorithm: str) -> None:
        problem, dtype = problem_of(algorithm), dtype_of(algorithm)
        x, weight = normal(problem.input_shape, dtype), normal(problem.weight_shape, dtype)
        poison = capi.poisoned(problem.output_shape, np.dtype(dtype))
        self._expected = Expected(x, weight, problem)
        self._algorithm, self._desc = algorithm, capi.descriptor(problem, dtype)
        self._plan = capi.create_plan(self._desc, CUDA, algorithm)
        self._workspace = capi.new_workspace(self._plan, CUDA)
        self._tensors = [capi.Tensor(CUDA, array) for array in (x, weight, poison, poison)]
        self._bytes = poison.nbytes

    def run(self) -> int:
        x, weight, y, _ = (capi.address(tensor.address) for tensor in self._tensors)
        size, null = capi.workspace_bytes(self._plan), ffi.NULL
        memory = capi.address(self._workspace.address) if size else null
        status: int = lib.im2win_conv2d(self._plan, x, weight, null, null, y, memory, size, null)
        return status

    def make_plan(self) -> int:
        options, plan = capi.plan_options(CUDA, self._algorithm), ffi.new("im2win_plan **")
        status: int = lib.im2win_plan_create(self._desc, options, plan)
        assert (plan[0] != ffi.NULL) == (status == lib.IM2WIN_SUCCESS)
        lib.im2win_plan_destroy(plan[0])
        return status

    def examine(self, status: int) -> None:
        """The output is whole, or untouched after a failure; it is poisoned again."""
        output, poison = self._tensors[2:]
        y = output.read()
        if status == lib.IM2WIN_SUCCESS or (y.view(np.uint8) != capi.POISON).any():
            self._expected.check(y, self._algorithm)
        target, source = capi.address(output.address), capi.address(poison.address)
        check(lib.im2win_cuda_copy(CUDA, target, source, self._bytes, ffi.NULL))
