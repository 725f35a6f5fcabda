"""The kernels of `grouped`: groups of few channels.

Sets of 8 to 32 filters, of one group and of several; sets and slabs that are not full; taps that
share pixels and taps that do not; one box a block and many. Integer data, so that results are
exact.
"""

from dataclasses import replace
from functools import partial
from itertools import product
from typing import Any

import numpy as np
import pytest

import channels_last
from numerics import convolution, integers
from problems import Problem, same
from targets import Target


def groups(n: int, count: int, c: int, k: int, h: int, w: int, **more: Any) -> Problem:
    """Of so many groups, each of c channels and k filters."""
    options = {"padding": same(1), **more}
    return Problem(n, count * c, h, w, count * k, groups=count, **options)


FEW = [
    *(
        groups(2, count, c, k, *size)
        for (count, c, k), size in product(
            [
                (32, 4, 4),
                (9, 8, 8),
                (5, 16, 16),
                (3, 24, 24),
                (3, 32, 32),
                (4, 12, 12),
                (16, 1, 1),
                (3, 8, 24),
                (3, 32, 16),
                (5, 4, 4),
                (11, 2, 6),
            ],
            [(1, 1), (7, 7), (13, 30), (28, 17)],
        )
    ),
    groups(2, 6, 16, 16, 31, 29, stride=(2, 2)),
    groups(2, 6, 8, 8, 31, 29, stride=(1, 3)),
    groups(2, 4, 16, 32, 20, 21, dilation=(2, 2), padding=same(2)),
    groups(2, 4, 16, 8, 20, 21, r=5, s=2, padding=same(0)),
    groups(2, 4, 24, 8, 15, 40, r=1, s=1, padding=same(0)),
    groups(2, 12, 2, 4, 15, 23, r=3, s=4, stride=(3, 1), dilation=(1, 2)),
]
# Of more boxes than there are blocks.
MANY = [
    groups(40, 32, 4, 4, 56, 50),
    groups(40, 5, 8, 8, 57, 60),
    groups(70, 11, 16, 16, 29, 31),
    groups(40, 3, 24, 24, 40, 30, stride=(2, 2)),
    groups(60, 5, 32, 32, 28, 28),
]
cases = partial(channels_last.cases, "grouped", layouts=channels_last.LAYOUTS)


@pytest.mark.parametrize(("target", "problem", "dtype", "layout"), cases(FEW + MANY))
def test_integers_exactly(target: Target, problem: Problem, dtype: str, layout: str) -> None:
    channels_last.assert_integers_exactly(target, problem, dtype, layout)


@pytest.mark.parametrize(("target", "problem", "dtype", "layout"), cases(FEW[::5]))
@pytest.mark.parametrize("shift", [2, 4, 8])
def test_any_alignment(
    target: Target, problem: Problem, dtype: str, layout: str, shift: int
) -> None:
    channels_last.assert_any_alignment(target, problem, dtype, layout, shift)


@pytest.mark.parametrize(("target", "problem", "dtype", "layout"), cases(FEW[::3]))
def test_epilogues(target: Target, problem: Problem, dtype: str, layout: str) -> None:
    channels_last.assert_epilogues(target, problem, dtype, layout)


@pytest.mark.parametrize("value", [np.nan, np.inf])
@pytest.mark.parametrize(("target", "problem", "dtype", "layout"), cases(FEW[2::4]))
def test_what_is_not_finite_stays_where_it_is(
    target: Target, problem: Problem, dtype: str, layout: str, value: float
) -> None:
    """Beside the zeros between the groups of a set, too. The reference has none of padding."""
    problem = replace(problem, padding=same(0))
    x, weight = integers(problem.input_shape, dtype), integers(problem.weight_shape, dtype)
    x[1, problem.c - 1, 0, 0] = weight[0, 0, 0, 0] = value
    with np.errstate(invalid="ignore"):
        exact = convolution(x, weight, problem).astype(x.dtype)
    y = channels_last.run(target, problem, x, weight, layout)
    np.testing.assert_array_equal(y.astype(np.float64), exact.astype(np.float64))
