"""The kernels of `windows_mma`: windows of pixels whose channels are neighbours, with 16 bits.

Words of all sizes; steps and passes that are not full; filters in parts; one tile a warp and many;
padding, and windows that no pixel is in. Integer data, so that results are exact.
"""

from functools import partial
from itertools import product

import numpy as np
import pytest

import channels_last
from im2win import reference
from numerics import integers
from problems import Problem, same
from targets import Target

FEW = [
    *(
        Problem(3, c, 9, 11, k, padding=same(1))
        for c, k in product([1, 2, 3, 4, 8, 12, 16, 20, 40, 64], [1, 8, 17, 32, 65, 130])
    ),
    Problem(2, 4, 15, 14, 24, r=9, s=1, padding=((4, 4), (0, 0))),
    Problem(2, 6, 15, 14, 24, r=1, s=7, padding=((0, 0), (3, 3))),
    Problem(2, 8, 21, 19, 40, r=5, s=5, stride=(2, 2), padding=same(2)),
    Problem(2, 8, 21, 19, 16, r=2, s=4, stride=(3, 1), dilation=(2, 3)),
    Problem(2, 16, 2, 3, 16, r=5, s=4, padding=((4, 3), (5, 6))),
    Problem(2, 24, 17, 16, 48, r=1, s=1, stride=(2, 2)),
    Problem(1, 5, 8, 8, 16, r=1, s=1, padding=((9, 0), (0, 70))),
    Problem(70, 16, 1, 1, 20, padding=same(1)),
]
# Of so many pixels that warps go through several tiles, and of so many filters that blocks have
# several passes, or parts of them.
MANY = [
    Problem(2, 4, 400, 500, 10, padding=same(1)),
    Problem(9, 20, 120, 122, 24, padding=same(1)),
    Problem(3, 8, 199, 201, 100, r=5, s=5),
    Problem(1, 64, 60, 64, 200, padding=same(1)),
]
cases = partial(channels_last.cases, "windows_mma")


@pytest.mark.parametrize("filters", ["nchw", "nhwc"])
@pytest.mark.parametrize(("target", "problem", "dtype", "layout"), cases(FEW + MANY))
def test_integers_exactly(
    target: Target, problem: Problem, dtype: str, layout: str, filters: str
) -> None:
    channels_last.assert_integers_exactly(target, problem, dtype, layout, filters)


@pytest.mark.parametrize(("target", "problem", "dtype", "layout"), cases(FEW[::5]))
@pytest.mark.parametrize("shift", [2, 4, 8])
def test_any_alignment(
    target: Target, problem: Problem, dtype: str, layout: str, shift: int
) -> None:
    channels_last.assert_any_alignment(target, problem, dtype, layout, shift)


@pytest.mark.parametrize(("target", "problem", "dtype", "layout"), cases(FEW[::4] + MANY[:2]))
def test_epilogues(target: Target, problem: Problem, dtype: str, layout: str) -> None:
    channels_last.assert_epilogues(target, problem, dtype, layout)


@pytest.mark.parametrize("value", [np.nan, np.inf])
@pytest.mark.parametrize(("target", "problem", "dtype", "layout"), cases(FEW[::7]))
def test_what_is_not_finite_stays_where_it_is(
    target: Target, problem: Problem, dtype: str, layout: str, value: float
) -> None:
    """Of weights, not where their tap is padding."""
    x, weight = integers(problem.input_shape, dtype), integers(problem.weight_shape, dtype)
    x[0, problem.c - 1, 0, 0] = weight[0, 0, 0, 0] = weight[-1, 0, -1, -1] = value
    options = (problem.stride, problem.padding, problem.dilation, problem.groups)
    with np.errstate(invalid="ignore"):
        exact = reference.conv2d(x, weight, None, *options).astype(x.dtype)
    y = channels_last.run(target, problem, x, weight, layout)
    np.testing.assert_array_equal(y.astype(np.float64), exact.astype(np.float64))
