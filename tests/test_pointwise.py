"""The kernels of `pointwise`: windows of single pixels, of neighbouring channels.

Every way in and out of shared memory: boxes and words of all sizes, runs and pairs; filters of all
shapes and in several splits; one tile a block and many. Integer data, so that results are exact.
"""

from functools import partial
from itertools import product
from typing import Any

import numpy as np
import pytest

from epilogues import assert_exact_epilogues
from im2win._library import lib
from numerics import DTYPES, assert_convolved, convolution, integers, normal
from pixels import LAYOUTS, run
from problems import Problem
from targets import CUDA, TARGETS, Target, param


def pixels(n: int, c: int, h: int, w: int, k: int) -> Problem:
    return Problem(n, c, h, w, k, 1, 1)


FEW = [
    pixels(2, c, h, w, k)
    for (c, (h, w)), k in product(
        [(8, (9, 11)), (24, (1, 1)), (70, (8, 8)), (129, (5, 40)), (200, (13, 10))],
        [1, 3, 8, 44, 48, 64, 72, 95, 128, 130, 160, 192, 255, 256, 270, 320, 333],
    )
]
# Of so many pixels that stages have several products', and warpgroups several tiles.
MANY = [
    pixels(2, c, 200, 170, k)
    for c, k in [
        (2, 8),
        (8, 24),
        (16, 64),
        (18, 3),
        (24, 64),
        (32, 21),
        (40, 17),
        (64, 255),
        (96, 144),
    ]
]


POINTWISE = [target for target in TARGETS if target.algorithm == "pointwise"]


def cases(some: list[Problem]) -> list[Any]:
    targets = POINTWISE or [Target(CUDA, "pointwise")]
    return [param(*each) for each in product(targets, some, ("float16", "bfloat16"), LAYOUTS)]


@pytest.mark.parametrize(("target", "problem", "dtype", "layout"), cases(FEW + MANY))
def test_integers_exactly(target: Target, problem: Problem, dtype: str, layout: str) -> None:
    x, weight = integers(problem.input_shape, dtype), integers(problem.weight_shape, dtype)
    y = run(target, problem, x, weight, layout)
    np.testing.assert_array_equal(y, convolution(x, weight, problem).astype(DTYPES[dtype]))


@pytest.mark.parametrize(("target", "problem", "dtype", "layout"), cases(FEW[::5]))
@pytest.mark.parametrize("shift", [2, 4, 8])
def test_any_alignment(
    target: Target, problem: Problem, dtype: str, layout: str, shift: int
) -> None:
    x, weight = normal(problem.input_shape, dtype), normal(problem.weight_shape, dtype)
    y = run(target, problem, x, weight, layout, shift=shift)
    assert_convolved(y, x, weight, problem, "pointwise")


@pytest.mark.parametrize(("target", "problem", "dtype", "layout"), cases(FEW[::3] + MANY[::4]))
def test_epilogues(target: Target, problem: Problem, dtype: str, layout: str) -> None:
    """Exact ones: those that add a bias and clamp, and any."""
    x, weight = integers(problem.input_shape, dtype), integers(problem.weight_shape, dtype)
    bias = integers((problem.k,), dtype, "bias")
    residual = LAYOUTS[layout](integers(problem.output_shape, dtype, "residual"))
    convolve = partial(run, target, problem, x, weight, layout)
    sums = convolution(x, weight, problem)
    y = convolve(bias=bias, activation=lib.IM2WIN_RELU)
    before = sums + bias.astype(np.float64)[:, None, None]
    np.testing.assert_array_equal(y, np.maximum(before, 0).astype(y.dtype))
    assert_exact_epilogues(convolve, sums, bias, residual)


@pytest.mark.parametrize("value", [np.nan, np.inf])
@pytest.mark.parametrize(("target", "problem", "dtype", "layout"), cases(FEW[18:40:7]))
def test_what_is_not_finite_stays_where_it_is(
    target: Target, problem: Problem, dtype: str, layout: str, value: float
) -> None:
    x, weight = integers(problem.input_shape, dtype), integers(problem.weight_shape, dtype)
    x[1, problem.c - 1, 0, 0] = weight[0, 0, 0, 0] = value
    with np.errstate(invalid="ignore"):
        exact = convolution(x, weight, problem)
    y = run(target, problem, x, weight, layout)
    np.testing.assert_array_equal(y.astype(np.float64), exact)
