"""The kernels of `pointwise`: windows of single pixels, of neighbouring channels.

Every way in and out of shared memory: boxes and words of all sizes, runs and pairs; filters of all
shapes and in several splits; one tile a block and many. Integer data, so that results are exact.
"""

from functools import partial
from itertools import product

import numpy as np
import pytest

import channels_last
from numerics import convolution, integers
from problems import Problem
from targets import Target


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


cases = partial(channels_last.cases, "pointwise")


@pytest.mark.parametrize(("target", "problem", "dtype", "layout"), cases(FEW + MANY))
def test_integers_exactly(target: Target, problem: Problem, dtype: str, layout: str) -> None:
    channels_last.assert_integers_exactly(target, problem, dtype, layout)


@pytest.mark.parametrize(("target", "problem", "dtype", "layout"), cases(FEW[::5]))
@pytest.mark.parametrize("shift", [2, 4, 8])
def test_any_alignment(
    target: Target, problem: Problem, dtype: str, layout: str, shift: int
) -> None:
    channels_last.assert_any_alignment(target, problem, dtype, layout, shift)


@pytest.mark.parametrize(("target", "problem", "dtype", "layout"), cases(FEW[::3] + MANY[::4]))
def test_epilogues(target: Target, problem: Problem, dtype: str, layout: str) -> None:
    channels_last.assert_epilogues(target, problem, dtype, layout)


@pytest.mark.parametrize("value", [np.nan, np.inf])
@pytest.mark.parametrize(("target", "problem", "dtype", "layout"), cases(FEW[18:40:7]))
def test_what_is_not_finite_stays_where_it_is(
    target: Target, problem: Problem, dtype: str, layout: str, value: float
) -> None:
    x, weight = integers(problem.input_shape, dtype), integers(problem.weight_shape, dtype)
    x[1, problem.c - 1, 0, 0] = weight[0, 0, 0, 0] = value
    with np.errstate(invalid="ignore"):
        exact = convolution(x, weight, problem)
    y = channels_last.run(target, problem, x, weight, layout)
    np.testing.assert_array_equal(y.astype(np.float64), exact)
