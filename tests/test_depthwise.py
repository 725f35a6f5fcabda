"""The kernels of `depthwise` for dense tensors: of common windows, 3x3, 5x5 and 7x7, with a stride
of 1 and 2, and of any other.

Sizes are at the edges of strips, words, slices and bands. Integer data, so that results are exact.
"""

from collections.abc import Callable
from functools import partial
from itertools import cycle, product
from typing import Any

import numpy as np
import pytest

import capi
from epilogues import ACTIVATIONS, assert_exact_epilogues
from im2win import reference
from im2win._library import lib
from numerics import DTYPES, Array, assert_convolved, integers, normal
from problems import Problem
from targets import TARGETS, Target, param

SIZES = [(1, 1), (3, 60), (7, 7), (9, 23), (14, 14), (28, 29), (33, 8), (57, 16)]
CHANNELS = [8, 40, 6, 72, 24]  # some are no whole words of 16 bytes, some no whole slices
PADDINGS = [None, ((0, 0), (0, 0)), ((4, 0), (1, 3)), ((1, 2), (0, 4))]  # None: half the window


def problems() -> list[Problem]:
    channels, paddings, images = cycle(CHANNELS), cycle(PADDINGS), cycle([1, 3, 2])
    found = []
    for (h, w), r, stride in product(SIZES, (3, 5), (1, 2)):
        c, n = next(channels), next(images)
        padding = next(paddings)
        if padding is None or h + sum(padding[0]) < r or w + sum(padding[1]) < r:
            padding = ((r // 2, r // 2), (r // 2, r // 2))
        found.append(
            Problem(n, c, h, w, c, r, r, stride=(stride, stride), padding=padding, groups=c)
        )
    return found


LAYOUTS: dict[str, Callable[[Array], Array]] = {
    "nchw": np.ascontiguousarray,
    "nhwc": lambda a: np.ascontiguousarray(a.transpose(0, 2, 3, 1)).transpose(0, 3, 1, 2),
}
ELEMENTS = ("float32", "float16", "bfloat16")
DEPTHWISE = [target for target in TARGETS if target.algorithm == "depthwise"]


def cases(some: list[Problem]) -> list[Any]:
    return [param(*each) for each in product(DEPTHWISE, some, ELEMENTS, LAYOUTS)]


def run(target: Target, problem: Problem, x: Array, weight: Array, layout: str, **more: Any) -> Any:
    out = LAYOUTS[layout](capi.poisoned(problem.output_shape, x.dtype))
    return target.run(problem, LAYOUTS[layout](x), weight, **{"out": out, **more})


def sums(problem: Problem, x: Array, weight: Array) -> Array:
    """The definition, in float64, a tap at a time; zeros in the padding."""
    padded = np.pad(x.astype(np.float64), ((0, 0), (0, 0), *problem.padding))
    _, _, p, q = problem.output_shape
    (down, right), total = problem.stride, np.zeros(problem.output_shape)
    for r, s in np.ndindex(problem.r, problem.s):
        y, x = r * problem.dilation[0], s * problem.dilation[1]
        seen = padded[:, :, y : y + down * (p - 1) + 1 : down, x : x + right * (q - 1) + 1 : right]
        total += seen * weight[:, 0, r, s].astype(np.float64)[:, None, None]
    return total


def batch(n: int, c: int, h: int, w: int, r: int, stride: int) -> Problem:
    padding = ((2, 1), (r // 2, r // 2))
    return Problem(n, c, h, w, c, r, r, stride=(stride, stride), padding=padding, groups=c)


# So many images that they are rows of a matrix: planes that are whole or not, narrow and wide rows.
BATCHES = [batch(n, 8, 28, w, r, 2) for n, w, r in product((16, 30), (6, 28, 44), (3, 5))]
BATCHES += [batch(16, 2, h, w, r, 2) for (h, w), r in product([(40, 112), (11, 184)], (3, 5))]
BATCHES += [batch(70, c, 14, w, r, 1) for (c, w), r in product([(4, 14), (8, 10), (6, 16)], (3, 5))]


def window(c: int, h: int, w: int, r: int, s: int, **more: Any) -> Problem:
    down, right = more.get("dilation", (1, 1))
    padding = ((r // 2 * down, (r - 1) // 2 * down), (s // 2 * right, (s - 1) // 2 * right))
    return Problem(2, c, h, w, c, r, s, padding=padding, groups=c, **more)


# 7x7 by tensor cores and not; passes of all numbers of taps, one and several; strides and dilations
# with common factors and without; tiles of parts of rows, columns and channels.
WINDOWS = [
    window(16, 28, 28, 7, 7),
    window(6, 56, 60, 7, 7),
    window(40, 19, 23, 7, 7),
    window(8, 7, 8, 7, 7),
    window(24, 30, 75, 7, 7, stride=(2, 2)),
    window(12, 90, 130, 9, 11),
    window(13, 14, 14, 4, 4, stride=(2, 2)),
    window(8, 9, 9, 13, 13),
    window(20, 33, 33, 3, 3, dilation=(2, 2)),
    window(16, 33, 33, 3, 3, dilation=(12, 12)),
    window(9, 31, 40, 5, 2, stride=(3, 1), dilation=(2, 3)),
    window(18, 41, 37, 4, 6, stride=(2, 4), dilation=(4, 6)),
    window(24, 21, 22, 1, 1, stride=(2, 3)),
    window(44, 1, 1100, 1, 31),
    window(32, 1, 1000, 1, 3, dilation=(1, 128)),
    window(21, 300, 1, 5, 1, stride=(2, 1)),
    window(8, 40, 45, 31, 29),
    window(3, 30, 31, 5, 6),
    window(40, 9, 5, 3, 3, dilation=(2, 7)),
]
# In NHWC slices: pixels of whole words of 16 bytes or of 4, several strips in a line, combs of all
# sizes, and more of them than there are rows.
WINDOWS += [
    window(44, 41, 43, 5, 5),
    window(60, 28, 28, 7, 7),
    window(22, 30, 31, 7, 7, stride=(2, 2)),
    window(56, 23, 50, 7, 7, stride=(2, 2)),
    window(116, 14, 15, 3, 3, stride=(2, 2)),
    window(2, 50, 61, 3, 3),
    window(6, 40, 37, 5, 5, stride=(2, 2)),
    window(44, 40, 37, 7, 7, dilation=(3, 1)),
    window(40, 33, 35, 5, 5, dilation=(2, 3)),
    window(10, 20, 21, 3, 3, dilation=(1, 5)),
    window(72, 9, 40, 3, 3, dilation=(11, 13)),
]
# With little in common, by strides and dilations, or along one axis: words of all sizes, blocks of
# parts of pixels and of many, weights in several parts.
WINDOWS += [
    window(88, 14, 16, 3, 3, stride=(3, 3)),
    window(12, 28, 28, 4, 4, stride=(4, 4)),
    window(9, 20, 21, 2, 2, stride=(2, 2)),
    window(264, 1, 150, 1, 15),
    window(20, 1, 900, 1, 3, dilation=(1, 7)),
    window(40, 65, 65, 3, 3, dilation=(36, 36)),
    window(3, 4, 5, 3, 3, stride=(2**14, 1)),
    window(40, 4, 150, 3, 110, stride=(2**14, 1)),
    window(1, 5, 40, 3, 700, stride=(2**14, 1)),
]


@pytest.mark.parametrize(
    ("target", "problem", "dtype", "layout"), cases(problems() + BATCHES + WINDOWS)
)
def test_integers_exactly(target: Target, problem: Problem, dtype: str, layout: str) -> None:
    x, weight = integers(problem.input_shape, dtype), integers(problem.weight_shape, dtype)
    y = run(target, problem, x, weight, layout)
    np.testing.assert_array_equal(y, sums(problem, x, weight).astype(DTYPES[dtype]))


@pytest.mark.parametrize(
    ("target", "problem", "dtype", "layout"), cases(problems()[8:16] + WINDOWS)
)
def test_random_data(target: Target, problem: Problem, dtype: str, layout: str) -> None:
    x, weight = normal(problem.input_shape, dtype), normal(problem.weight_shape, dtype)
    assert_convolved(run(target, problem, x, weight, layout), x, weight, problem, "depthwise")


MANY = [Problem(700, 512, 5, 7, 512, r, r, padding=((1, 1), (1, 1)), groups=512) for r in (3, 5, 7)]


@pytest.mark.parametrize(("target", "problem", "dtype", "layout"), cases(MANY))
def test_many_images(target: Target, problem: Problem, dtype: str, layout: str) -> None:
    """So many that a thread does several, one after the other."""
    x, weight = integers(problem.input_shape, dtype), integers(problem.weight_shape, dtype)
    y = run(target, problem, x, weight, layout)
    np.testing.assert_array_equal(y, sums(problem, x, weight).astype(DTYPES[dtype]))


FEW = [
    Problem(2, 16, 9, 12, 16, r, r, stride=(s, s), padding=((2, 1), (1, 2)), groups=16)
    for r, s in product((3, 5), (1, 2))
]
FEW += [Problem(2, 16, 9, 12, 16, r, 7, padding=((2, 1), (1, 2)), groups=16) for r in (3, 7)]
FEW += [
    Problem(2, 22, 9, 12, 22, r, r, stride=(s, s), padding=((3, 1), (2, 3)), groups=22)
    for r, s in product((3, 5, 7), (1, 2))
]
FEW += [window(c, 9, 12, r, r, dilation=(2, 3)) for c, r in product((16, 22), (3, 5))]
FEW += [batch(64 // s**2, 16, 9, 12, r, s) for r, s in product((3, 5), (1, 2))]


@pytest.mark.parametrize(("target", "problem", "dtype", "layout"), cases(FEW))
def test_epilogues(target: Target, problem: Problem, dtype: str, layout: str) -> None:
    """Exact ones, of the two kinds of kernels: any, and those that add a bias and clamp."""
    x, weight = integers(problem.input_shape, dtype), integers(problem.weight_shape, dtype)
    bias = integers((problem.k,), dtype, "bias")
    residual = LAYOUTS[layout](integers(problem.output_shape, dtype, "residual"))
    convolve = partial(run, target, problem, x, weight, layout)
    assert_exact_epilogues(convolve, sums(problem, x, weight), bias, residual)


@pytest.mark.parametrize("name", ["leaky_relu", "silu", "hardswish"])
@pytest.mark.parametrize(("target", "problem", "dtype", "layout"), cases(FEW))
def test_activations(target: Target, problem: Problem, dtype: str, layout: str, name: str) -> None:
    """Without a residual, as kernels of slices, planes and rows have them: the first exactly."""
    x, weight = integers(problem.input_shape, dtype), integers(problem.weight_shape, dtype)
    bias = integers((problem.k,), dtype, "bias")
    parameters, activate = ACTIVATIONS[name]
    fields: dict[str, Any] = {
        "activation": getattr(lib, f"IM2WIN_{name.upper()}"),
        "activation_params": parameters,
    }
    y = run(target, problem, x, weight, layout, bias=bias, **fields)
    expected = activate(sums(problem, x, weight) + bias.astype(np.float64)[:, None, None])
    if name == "leaky_relu":
        np.testing.assert_array_equal(y, expected.astype(y.dtype))
    else:
        rounding = {"float32": 2**-20, "float16": 2**-10, "bfloat16": 2**-7}[dtype]
        np.testing.assert_allclose(y.astype(np.float64), expected, rounding, 1e-7)


@pytest.mark.parametrize("value", [np.nan, np.inf])
@pytest.mark.parametrize(("target", "problem", "dtype", "layout"), cases(FEW))
def test_weights_and_inputs_that_are_not_finite(
    target: Target, problem: Problem, dtype: str, layout: str, value: float
) -> None:
    """They show where a window of their channel sees them, and nowhere else."""
    x, weight = integers(problem.input_shape, dtype), integers(problem.weight_shape, dtype)
    weight[3, 0, 0, 0] = weight[10, 0, 1, 2] = value
    x[1, 5, 0, 0] = x[0, 6, 4, 7] = value
    with np.errstate(invalid="ignore"):
        exact = reference.conv2d(
            x, weight, None, problem.stride, problem.padding, problem.dilation, problem.groups
        )
    y = run(target, problem, x, weight, layout)
    np.testing.assert_array_equal(y.astype(np.float64), exact)
