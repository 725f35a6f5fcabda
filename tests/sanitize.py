"""Every kernel of a CUDA algorithm on small problems at the edges of its tiles, for
compute-sanitizer.

    compute-sanitizer --tool racecheck python tests/sanitize.py im2win_fused float16
    python tests/sanitize.py --list    # what there is to run, a line each

Every tensor and workspace is an allocation of its own, of just its bytes, that nobody but the
library writes to: memcheck sees a byte touched outside, initcheck one read before it was written.
Dense NCHW and NHWC tensors take turns at being aligned as their elements and no better.
"""

import ctypes
import sys
from collections.abc import Iterator
from itertools import product
from typing import Any, NamedTuple

import numpy as np

import capi
import im2win
from im2win import reference
from im2win._library import check, ffi, lib
from numerics import DTYPES, Array, accumulator, assert_close, normal, tolerance
from problems import Problem, same
from targets import CUDA

WINDOW = ("stride", "padding", "dilation", "groups")  # as im2win.reference calls them
# For each kind of numbers, the dtype and the math mode.
KINDS = {**{dtype: (dtype, "fp32") for dtype in DTYPES}, "tf32": ("float32", "tf32")}

# Between them they take every compiled tile of im2win, im2win_fused and im2win_fused_mma on an
# H200, and every way of staging: boxes and runs, rows and strips, with raw lines and without, one
# slab and several, filters that stay and that come by turns, one image a tile and more.
DENSE = [
    Problem(n=2, c=17, h=27, w=4, k=8, r=5, stride=(2, 2)),
    Problem(n=2, c=6, h=6, w=40, k=21, r=5, s=2, groups=3),
    Problem(n=9, c=21, h=22, w=56, k=3, r=3, s=1, groups=3),
    Problem(n=5, c=1, h=29, w=50, k=130, r=1, s=2),
    Problem(n=3, c=16, h=1, w=1, k=63, s=2, stride=(2, 2), padding=same(2)),
    Problem(c=33, w=42, k=1, stride=(2, 2), padding=same(1)),
    Problem(n=5, c=12, h=31, w=43, k=3, r=1, padding=same(1), groups=3),
    Problem(n=9, c=4, h=36, w=44, k=129, r=1, s=1, padding=same(2)),
    Problem(n=3, c=9, h=3, w=39, k=1, r=1, stride=(2, 2), padding=same(1), dilation=(2, 2)),
    Problem(n=5, c=40, h=11, w=60, k=1, s=2, stride=(2, 2), padding=same(1)),
    Problem(n=3, c=3, h=40, w=31, k=390, r=1, s=1, stride=(2, 2), padding=same(1), groups=3),
    Problem(n=5, c=21, h=14, w=50, k=387, r=1, s=1, padding=same(2), groups=3),
    Problem(n=9, c=1, h=35, w=48, k=97, r=1, padding=same(1)),
    Problem(n=5, c=40, h=40, w=39, k=7, r=1, s=2, padding=same(2), dilation=(2, 2)),
    Problem(n=9, c=120, h=40, w=36, k=27, r=1, stride=(2, 2), groups=3),
    Problem(n=9, c=3, h=37, w=25, k=130, s=2, padding=same(1)),
    Problem(c=16, h=8, w=16, k=128),
    # Padding past 2^29 makes the transform count in 64 bits.
    Problem(c=2, h=3, w=5, k=4, r=1, s=2, stride=(2**29, 1), padding=((2**29, 0), (1, 0))),
]
DEPTHWISE = [
    *(
        Problem(n=n, c=c, h=h, w=w, k=c, r=r, s=r, stride=stride, padding=same(r // 2), groups=c)
        for r, stride in product((3, 5), ((1, 1), (2, 2)))
        for n, c, h, w in ((2, 40, 17, 23), (3, 16, 7, 7), (1, 7, 15, 33))
    ),
    Problem(n=2, c=5, h=9, w=11, k=15, r=2, s=3, dilation=(1, 2), groups=5),
]


class Case(NamedTuple):
    problem: Problem
    layout: int
    shift: int  # bytes that tensors begin after where an allocation does
    epilogue: bool


def cases(algorithm: str, dtype: str) -> Iterator[Case]:
    size = DTYPES[dtype].itemsize
    problems = DEPTHWISE if algorithm == "depthwise" else DENSE
    epilogues = (False, True) if algorithm == "depthwise" else (None,)
    for (i, problem), epilogue in product(enumerate(problems), epilogues):
        for layout in (lib.IM2WIN_NCHW, lib.IM2WIN_NHWC):
            turn = (i + layout) % 2
            yield Case(problem, layout, turn * size, bool(turn) if epilogue is None else epilogue)


class Memory:
    """Device memory of just so many bytes, after `shift` others."""

    def __init__(self, size: int, shift: int = 0) -> None:
        self._driver = ctypes.CDLL("libcuda.so.1")
        self._base = ctypes.c_uint64()
        base, bytes_ = ctypes.byref(self._base), ctypes.c_size_t(max(size + shift, 1))
        assert self._driver.cuMemAlloc_v2(base, bytes_) == 0
        self.size, self.address = size, self._base.value + shift

    def copy(self, host: Array, to_host: bool = False) -> None:
        ends = capi.address(self.address), capi.address(host.ctypes.data)
        target, source = reversed(ends) if to_host else ends
        check(lib.im2win_cuda_copy(CUDA, target, source, self.size, ffi.NULL))
        check(lib.im2win_cuda_synchronize(CUDA, ffi.NULL))

    def free(self) -> None:
        assert self._driver.cuMemFree_v2(self._base) == 0


def run(case: Case, algorithm: str, kind: str) -> bool:
    """Whether the algorithm took the problem; asserts that it is right."""
    problem, (dtype, math) = case.problem, KINDS[kind]
    fields: dict[str, Any] = {"math": capi.MATHS[math]}
    for role in ("input", "output", "residual"):
        fields[f"{role}_layout"] = case.layout
    if case.epilogue:
        fields |= {"has_residual": 1, "bias_dtype": capi.DTYPE_CODES[dtype]}
        fields["activation"] = lib.IM2WIN_SILU
    desc = capi.descriptor(problem, dtype, **fields)
    if not capi.accepts(desc, CUDA, algorithm):
        return False
    given: dict[str, Array] = {
        "input": normal(problem.input_shape, dtype),
        "weight": normal(problem.weight_shape, dtype),
    }
    if case.epilogue:
        given["bias"] = normal((problem.k,), dtype)
        given["residual"] = normal(problem.output_shape, dtype)
    y = convolve(case, capi.create_plan(desc, CUDA, algorithm), given)
    window = (problem.stride, problem.padding, problem.dilation, problem.groups)
    options: dict[str, Any] = dict(zip(WINDOW, window, strict=True)) | given
    expected = reference.conv2d(**options, activation="silu" if case.epilogue else None)
    magnitude, sums = reference.magnitude(**options), accumulator(algorithm, dtype)
    allowed = tolerance(expected, magnitude, dtype, sums, problem.taps, math)
    assert_close(y, expected, 1.5 * allowed)  # for the activation's slope and error
    return True


def convolve(case: Case, plan: Any, given: dict[str, Array]) -> Array:
    order = (0, 2, 3, 1) if case.layout == lib.IM2WIN_NHWC else (0, 1, 2, 3)
    y = np.empty([case.problem.output_shape[axis] for axis in order], given["input"].dtype)
    memory = {}
    for role, array in given.items():
        is_image = role in ("input", "residual")
        dense = np.ascontiguousarray(array.transpose(order) if is_image else array)
        memory[role] = Memory(dense.nbytes, case.shift)
        memory[role].copy(dense)
    memory["output"] = Memory(y.nbytes, case.shift)
    memory["workspace"] = Memory(capi.workspace_bytes(plan))
    roles = ("input", "weight", "bias", "residual", "output", "workspace")
    pointers = [capi.address(memory[r].address if r in memory else 0) for r in roles]
    check(lib.im2win_conv2d(plan, *pointers, memory["workspace"].size, ffi.NULL))
    memory["output"].copy(y, to_host=True)
    for each in memory.values():
        each.free()
    nchw: Array = y.transpose(np.argsort(order))
    return nchw


def pairs() -> Iterator[tuple[str, str]]:
    """Algorithms and the kinds of numbers that they take."""
    for algorithm, kind in product(im2win.algorithms("cuda"), KINDS):
        problem = DEPTHWISE[0] if algorithm == "depthwise" else DENSE[0]
        dtype, math = KINDS[kind]
        desc = capi.descriptor(problem, dtype, math=capi.MATHS[math])
        if capi.accepts(desc, CUDA, algorithm) and (kind != "tf32" or "fused" in algorithm):
            yield algorithm, kind


def main(arguments: list[str]) -> None:
    if arguments == ["--list"]:
        print("\n".join(" ".join(pair) for pair in pairs()))
        return
    algorithm, kind = arguments
    check(lib.im2win_cuda_synchronize(CUDA, ffi.NULL))  # makes the device's context current
    tried = [run(case, algorithm, kind) for case in cases(algorithm, KINDS[kind][0])]
    print(f"{algorithm} {kind}: {sum(tried)} of {len(tried)} problems taken, all right")


if __name__ == "__main__":
    main(sys.argv[1:])
