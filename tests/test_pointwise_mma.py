"""The kernels of `pointwise_mma`: windows of single pixels, of planes and of neighbouring channels.

Words of all sizes, within images and at their ends; steps and passes that are not full; filters in
parts; one tile a warp and many. Integer data, so that results are exact.
"""

from collections.abc import Callable, Iterable
from functools import partial
from itertools import product
from typing import Any

import numpy as np
import pytest

import capi
from channels_last import channels_of_more
from epilogues import assert_exact_epilogues
from numerics import DTYPES, Array, assert_convolved, convolution, integers, normal, strided
from problems import Problem
from targets import CUDA, TARGETS, Target, param

KINDS = {
    "float16": ("float16", "fp32"),
    "bfloat16": ("bfloat16", "fp32"),
    "tf32": ("float32", "tf32"),
    "float32": ("float32", "fp32"),
}


def pixels(n: int, c: int, h: int, w: int, k: int) -> Problem:
    return Problem(n, c, h, w, k, 1, 1)


FEW = [
    pixels(3, c, h, w, k)
    for (c, (h, w)), k in product(
        [(1, (9, 11)), (4, (8, 8)), (15, (1, 1)), (16, (6, 14)), (17, (16, 16)), (50, (5, 6))],
        [1, 8, 16, 17, 33, 64, 65, 130],
    )
]
# Of so many pixels that warps go through several tiles, and of so many filters and channels that
# blocks have several passes, or parts of them.
MANY = [
    pixels(n, c, h, w, k)
    for n, c, h, w, k in [
        (2, 3, 400, 500, 10),
        (9, 20, 120, 122, 24),
        (3, 36, 199, 201, 100),
        (2, 250, 90, 100, 90),
        (1, 512, 60, 64, 200),
    ]
]


def planes_of_more(a: Any) -> Any:
    """Some of the planes of a tensor that has eight more."""
    n, c, h, w = a.shape
    some = capi.poisoned((n, c + 8, h, w), a.dtype)[:, 8:]
    some[...] = a
    return some


LAYOUTS: dict[str, Callable[[Any], Any]] = {
    "planes": planes_of_more,
    "nhwc": partial(strided, layout="nhwc"),
    "slices": channels_of_more,
}


def cases(some: list[Problem], kinds: Iterable[str] = KINDS) -> list[Any]:
    """For "target", "problem", "kind" and "layout"; skipped where it is not built."""
    targets = [target for target in TARGETS if target.algorithm == "pointwise_mma"]
    targets = targets or [Target(CUDA, "pointwise_mma")]
    return [param(*each) for each in product(targets, some, kinds, LAYOUTS)]


def run(
    target: Target, problem: Problem, x: Array, weight: Array, kind: str, layout: str, **more: Any
) -> Any:
    """Into a poisoned output of the input's layout."""
    place = LAYOUTS[layout]
    out = place(capi.poisoned(problem.output_shape, x.dtype))
    math = capi.MATHS[KINDS[kind][1]]
    return target.run(problem, place(x), weight, **{"out": out, "math": math, **more})


@pytest.mark.parametrize("filters", ["nchw", "nhwc"])
@pytest.mark.parametrize(("target", "problem", "kind", "layout"), cases(FEW + MANY))
def test_integers_exactly(
    target: Target, problem: Problem, kind: str, layout: str, filters: str
) -> None:
    dtype = KINDS[kind][0]
    x = integers(problem.input_shape, dtype)
    weight = strided(integers(problem.weight_shape, dtype), layout=filters)
    y = run(target, problem, x, weight, kind, layout)
    np.testing.assert_array_equal(y, convolution(x, weight, problem).astype(DTYPES[dtype]))


@pytest.mark.parametrize(("target", "problem", "kind", "layout"), cases(FEW[::5]))
@pytest.mark.parametrize("shift", [2, 4, 8])
def test_any_alignment(
    target: Target, problem: Problem, kind: str, layout: str, shift: int
) -> None:
    dtype, math = KINDS[kind]
    shift = max(shift, DTYPES[dtype].itemsize)
    x, weight = normal(problem.input_shape, dtype), normal(problem.weight_shape, dtype)
    y = run(target, problem, x, weight, kind, layout, shift=shift)
    assert_convolved(y, x, weight, problem, target.algorithm, math)


@pytest.mark.parametrize(("target", "problem", "kind", "layout"), cases(FEW[::3] + MANY[:2]))
def test_epilogues(target: Target, problem: Problem, kind: str, layout: str) -> None:
    dtype = KINDS[kind][0]
    x, weight = integers(problem.input_shape, dtype), integers(problem.weight_shape, dtype)
    bias = integers((problem.k,), dtype, "bias")
    residual = LAYOUTS[layout](integers(problem.output_shape, dtype, "residual"))
    convolve = partial(run, target, problem, x, weight, kind, layout)
    assert_exact_epilogues(convolve, convolution(x, weight, problem), bias, residual)


@pytest.mark.parametrize("value", [np.nan, np.inf])
@pytest.mark.parametrize(("target", "problem", "kind", "layout"), cases(FEW[10:48:9]))
def test_what_is_not_finite_stays_where_it_is(
    target: Target, problem: Problem, kind: str, layout: str, value: float
) -> None:
    dtype = KINDS[kind][0]
    x, weight = integers(problem.input_shape, dtype), integers(problem.weight_shape, dtype)
    x[1, problem.c - 1, 0, 0] = weight[0, 0, 0, 0] = value
    with np.errstate(invalid="ignore"):
        exact = convolution(x, weight, problem)
    y = run(target, problem, x, weight, kind, layout)
    np.testing.assert_array_equal(y.astype(np.float64), exact)


@pytest.mark.parametrize(("target", "problem", "kind", "layout"), cases(FEW[::5], ["float32"]))
@pytest.mark.parametrize("exponents", [(-149, 0), (0, -149), (-120, 0), (-70, -70), (120, 10)])
def test_magnitudes_that_bfloat16_does_not_reach(
    target: Target, problem: Problem, kind: str, layout: str, exponents: tuple[int, int]
) -> None:
    """Of which float32's thirds, or products of these, would lose bits, or overflow on the way."""
    x, weight = (
        np.ldexp(integers(shape, "float32"), exponent)
        for shape, exponent in zip(
            (problem.input_shape, problem.weight_shape), exponents, strict=True
        )
    )
    with np.errstate(over="ignore"):
        exact = convolution(x, weight, problem).astype(np.float32)
    np.testing.assert_array_equal(run(target, problem, x, weight, kind, layout), exact)


@pytest.mark.parametrize(("target", "problem", "kind", "layout"), cases(FEW[::5], ["float32"]))
@pytest.mark.parametrize("faint", [("input",), ("weight",), ("input", "weight")])
def test_faint_elements_beside_others(
    target: Target, problem: Problem, kind: str, layout: str, faint: tuple[str, ...]
) -> None:
    """Sums of faint elements alone, and of others as well: each is as exact as float32's."""
    rng = np.random.default_rng(7)
    x, weight = normal(problem.input_shape, "float32"), normal(problem.weight_shape, "float32")
    for name, values in (("input", x), ("weight", weight)):
        if name in faint:
            values *= np.exp2(rng.choice([0, -60, -115, -125], values.shape)).astype(np.float32)
        values[rng.random(values.shape) < 0.5] = 0
    y = run(target, problem, x, weight, kind, layout)
    assert_convolved(y, x, weight, problem, target.algorithm)
