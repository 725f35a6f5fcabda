"""Every kernel of a CUDA algorithm on small problems at the edges of its tiles, for
compute-sanitizer.

    compute-sanitizer --tool racecheck python tests/sanitize.py im2win_fused float16
    python tests/sanitize.py --list    # what there is to run, a line each

Every tensor and workspace is an allocation of its own, of just its bytes, that nobody but the
library writes to: memcheck sees a byte touched outside, initcheck one read before it was written.
Dense NCHW and NHWC tensors take turns at being aligned as their elements and no better; those of
depthwise are both, as its kernels are chosen by that and by the epilogue.
"""

import ctypes
import sys
from collections.abc import Iterator
from enum import Enum
from functools import lru_cache
from itertools import product, starmap
from typing import Any, NamedTuple

import numpy as np

import capi
import im2win
from im2win import reference
from im2win._library import check, ffi, lib
from numerics import DTYPES, Array, accumulator, assert_close, normal, tolerance
from problems import Problem
from targets import CUDA
from tile_edges import DENSE, DEPTHWISE

WINDOW = ("stride", "padding", "dilation", "groups")  # as im2win.reference calls them
# For each kind of numbers, the dtype and the math mode.
KINDS = {**{dtype: (dtype, "fp32") for dtype in DTYPES}, "tf32": ("float32", "tf32")}

LAYOUTS = (lib.IM2WIN_NCHW, lib.IM2WIN_NHWC)
# Have kernels for it, beside im2win_fused.
TF32 = ("im2win_stem", "implicit_gemm_tiled", "pointwise_mma")
TRANSFORM = "transform"  # im2win_transform, beside the algorithms


class Epilogue(Enum):
    NONE = ()
    ACTIVATION = ("bias",)  # and what else the sum is given
    RESIDUAL = ("bias", "residual")


class Case(NamedTuple):
    problem: Problem
    layout: int
    shift: int  # bytes that tensors begin after where an allocation does
    epilogue: Epilogue


def cases(algorithm: str, dtype: str) -> Iterator[Case]:
    size = DTYPES[dtype].itemsize
    if algorithm == "depthwise":
        yield from starmap(Case, product(DEPTHWISE, LAYOUTS, (0, size), Epilogue))
        return
    for (i, problem), layout in product(enumerate(DENSE), LAYOUTS):
        turn = (i + layout) % 2
        more = Epilogue.ACTIVATION if i // 2 % 2 else Epilogue.RESIDUAL
        yield Case(problem, layout, turn * size, more if turn else Epilogue.NONE)


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


def descriptor(case: Case, kind: str) -> Any:
    dtype, math = KINDS[kind]
    fields: dict[str, Any] = {"math": capi.MATHS[math]}
    for role in ("input", "filter", "output", "residual"):
        fields[f"{role}_layout"] = case.layout
    if case.epilogue is not Epilogue.NONE:
        fields |= {"bias_dtype": capi.DTYPE_CODES[dtype], "activation": lib.IM2WIN_SILU}
        fields["has_residual"] = int(case.epilogue is Epilogue.RESIDUAL)
    return capi.descriptor(case.problem, dtype, **fields)


def run(case: Case, algorithm: str, kind: str) -> bool:
    """Whether the algorithm took the problem; asserts that it is right."""
    problem, (dtype, math) = case.problem, KINDS[kind]
    desc = descriptor(case, kind)
    if not capi.accepts(desc, CUDA, algorithm):
        return False
    given, expected, magnitude = values(problem, dtype, case.epilogue)
    y = convolve(case, capi.create_plan(desc, CUDA, algorithm), given)
    sums = accumulator(algorithm, dtype)
    allowed = tolerance(expected, magnitude, dtype, sums, problem.taps, math)
    assert_close(y, expected, 1.5 * allowed)  # for the activation's slope and error
    return True


class Values(NamedTuple):
    given: dict[str, Array]
    expected: Array
    magnitude: Array


@lru_cache(maxsize=2 * len(DENSE))  # those of a dtype: pairs() lists its algorithms together
def values(problem: Problem, dtype: str, epilogue: Epilogue) -> Values:
    shapes = {"bias": (problem.k,), "residual": problem.output_shape}
    given: dict[str, Array] = {
        "input": normal(problem.input_shape, dtype),
        "weight": normal(problem.weight_shape, dtype),
        **{role: normal(shapes[role], dtype) for role in epilogue.value},
    }
    window = (problem.stride, problem.padding, problem.dilation, problem.groups)
    options: dict[str, Any] = dict(zip(WINDOW, window, strict=True)) | given
    activation = None if epilogue is Epilogue.NONE else "silu"
    expected = reference.conv2d(**options, activation=activation)
    return Values(given, expected, reference.magnitude(**options))


def convolve(case: Case, plan: Any, given: dict[str, Array]) -> Array:
    order = (0, 2, 3, 1) if case.layout == lib.IM2WIN_NHWC else (0, 1, 2, 3)
    y = np.empty([case.problem.output_shape[axis] for axis in order], given["input"].dtype)
    memory = {}
    for role, array in given.items():
        dense = np.ascontiguousarray(array.transpose(order) if array.ndim == 4 else array)
        memory[role] = Memory(dense.nbytes, case.shift)
        memory[role].copy(dense)
    memory["output"] = Memory(y.nbytes, case.shift)
    memory["output"].copy(np.full_like(y, np.nan))  # initcheck does not see what leaves as boxes
    memory["workspace"] = Memory(capi.workspace_bytes(plan))
    roles = ("input", "weight", "bias", "residual", "output", "workspace")
    pointers = [capi.address(memory[r].address if r in memory else 0) for r in roles]
    check(lib.im2win_conv2d(plan, *pointers, memory["workspace"].size, ffi.NULL))
    memory["output"].copy(y, to_host=True)
    for each in memory.values():
        each.free()
    nchw: Array = y.transpose(np.argsort(order))
    return nchw


def transform(case: Case, kind: str) -> bool:
    """Asserts that the im2win tensor is the CPU's."""
    dtype, _ = KINDS[kind]
    desc, size = capi.descriptor(case.problem, dtype), ffi.new("size_t *")
    check(lib.im2win_transform_bytes(desc, size))
    x, needed = normal(case.problem.input_shape, dtype), size[0]
    y, expected = np.empty((2, needed), np.uint8)
    source, target = Memory(x.nbytes, case.shift), Memory(needed, case.shift)
    source.copy(x)
    here = x.ctypes.data, expected.ctypes.data
    for device, ends in ((CUDA, (source.address, target.address)), (capi.CPU, here)):
        check(lib.im2win_transform(desc, device, *map(capi.address, ends), needed, ffi.NULL))
    target.copy(y, to_host=True)
    for each in (source, target):
        each.free()
    assert np.array_equal(y, expected), case
    return True


def run_all(algorithm: str, kind: str) -> list[bool]:
    """Whether each problem was taken."""
    every = cases(algorithm, KINDS[kind][0])
    if algorithm == TRANSFORM:
        return [transform(case, kind) for case in every]
    return [run(case, algorithm, kind) for case in every]


def pairs() -> Iterator[tuple[str, str]]:
    """What there is to run, and the kinds of numbers that it takes."""
    for kind, algorithm in product(KINDS, im2win.algorithms("cuda")):
        descriptors = (descriptor(case, kind) for case in cases(algorithm, KINDS[kind][0]))
        has_kernels = kind != "tf32" or "fused" in algorithm or algorithm in TF32
        if has_kernels and any(capi.accepts(desc, CUDA, algorithm) for desc in descriptors):
            yield algorithm, kind
    for dtype in DTYPES:
        yield TRANSFORM, dtype


def main(arguments: list[str]) -> None:
    if arguments == ["--list"]:
        print("\n".join(" ".join(pair) for pair in pairs()))
        return
    algorithm, kind = arguments
    check(lib.im2win_cuda_synchronize(CUDA, ffi.NULL))  # makes the device's context current
    tried = run_all(algorithm, kind)
    print(f"{algorithm} {kind}: {sum(tried)} of {len(tried)} problems taken, all right")


if __name__ == "__main__":
    main(sys.argv[1:])
