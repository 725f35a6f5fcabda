"""What tests/soak.py draws: a problem of any kind, and numbers that are hard on it."""

from collections.abc import Callable

import numpy as np

from numerics import Array
from problems import Problem

Rng = np.random.Generator

SMALLEST_NORMAL = {
    "float64": 2.0**-1022,
    "float32": 2.0**-126,
    "float16": 2.0**-14,
    "bfloat16": 2.0**-126,
}
LARGEST = {
    "float64": (2 - 2.0**-52) * 2.0**1023,
    "float32": (2 - 2.0**-23) * 2.0**127,
    "float16": 65504.0,
    "bfloat16": (2 - 2.0**-7) * 2.0**127,
}


def random_problem(rng: Rng) -> Problem:
    """Small, and of every kind: the edges of tiles are hit by numbers.

    A third are such as `winograd` takes, which is hardly ever one of the others.
    """
    is_winograds = rng.random() < 1 / 3

    def axis() -> tuple[int, int, int, int, tuple[int, int]]:
        size, window, dilation = (int(rng.integers(1, high)) for high in (21, 6, 4))
        stride = int(rng.integers(1, 5))
        if is_winograds:
            window, dilation = int(rng.integers(2, 8)), 1
            stride = int(rng.integers(1, min(window, 5)))
        before, after = (int(rng.integers(0, 5)) for _ in range(2))
        missing = dilation * (window - 1) + 1 - (size + before + after)
        return size, window, dilation, stride, (before, after + max(missing, 0))

    h, r, dilation_h, stride_h, vertical = axis()
    w, s, dilation_w, stride_w, horizontal = axis()
    groups = int(rng.choice((1, 1, 2, 3, 17)))
    has_one = rng.random() < 0.4 and not is_winograds
    channels = 1 if has_one else int(rng.integers(1, 40 // groups + 2))
    return Problem(
        n=int(rng.integers(1, 4)),
        c=groups * channels,
        h=h,
        w=w,
        k=groups * int(rng.integers(1, 80 // groups + 2)),
        r=r,
        s=s,
        stride=(stride_h, stride_w),
        padding=(vertical, horizontal),
        dilation=(dilation_h, dilation_w),
        groups=groups,
    )


def _gaussian(rng: Rng, problem: Problem, dtype: str) -> tuple[Array, Array]:
    return rng.standard_normal(problem.input_shape), rng.standard_normal(problem.weight_shape)


def _wide(rng: Rng, problem: Problem, dtype: str) -> tuple[Array, Array]:
    """No sum of theirs overflows in float16."""
    x, weight = _gaussian(rng, problem, dtype)
    return x * np.exp2(rng.integers(-6, 7, x.shape)), weight * np.exp2(
        rng.integers(-12, 1, weight.shape)
    )


def _denormal(rng: Rng, problem: Problem, dtype: str) -> tuple[Array, Array]:
    x, weight = _gaussian(rng, problem, dtype)
    return x * SMALLEST_NORMAL[dtype] / 4, weight


def _largest(rng: Rng, problem: Problem, dtype: str) -> tuple[Array, Array]:
    """No sum of theirs overflows, in whatever order."""
    x, weight = (rng.uniform(-1, 1, s) for s in (problem.input_shape, problem.weight_shape))
    return x * LARGEST[dtype], weight / (2 * problem.taps)


KINDS: tuple[Callable[[Rng, Problem, str], tuple[Array, Array]], ...] = (
    _gaussian,
    _wide,
    _denormal,
    _largest,
)


def in_layout(array: Array, layout: int) -> Array:
    """An equal array: channels first, channels last, or backwards with gaps."""
    result = array
    if layout == 1:
        result = np.ascontiguousarray(array.transpose(0, 2, 3, 1)).transpose(0, 3, 1, 2)
    elif layout == 2:
        result = np.repeat(array[..., ::-1, None], 2, axis=4)[..., ::-1, 0]
    return result
