"""Convolutions of tensors whose channels are neighbours, with 16 bits, by an algorithm of CUDA.

NHWC, some of the channels of a wider tensor, and planes, where the algorithm takes these, too."""

from collections.abc import Callable, Iterable
from functools import partial
from itertools import product
from typing import Any

import numpy as np

import capi
from epilogues import assert_exact_epilogues
from im2win._library import lib
from numerics import DTYPES, Array, assert_convolved, convolution, integers, normal, strided
from problems import Problem
from targets import CUDA, TARGETS, Target, param


def channels_of_more(a: Any) -> Any:
    """Some of the channels of a tensor that has eight more."""
    wider = capi.poisoned((a.shape[0], *a.shape[2:], a.shape[1] + 8), a.dtype)
    some = wider.transpose(0, 3, 1, 2)[:, 8:]
    some[...] = a
    return some


LAYOUTS: dict[str, Callable[[Any], Any]] = {
    "nhwc": partial(strided, layout="nhwc"),
    "slices": channels_of_more,
    "nchw": partial(strided, layout="nchw"),
}
CHANNELS_LAST = ("nhwc", "slices")


def cases(algorithm: str, some: list[Problem], layouts: Iterable[str] = CHANNELS_LAST) -> list[Any]:
    """Of those, for "target", "problem", "dtype" and "layout"; skipped where it is not built."""
    targets = [target for target in TARGETS if target.algorithm == algorithm]
    targets = targets or [Target(CUDA, algorithm)]
    return [param(*each) for each in product(targets, some, ("float16", "bfloat16"), layouts)]


def run(target: Target, problem: Problem, x: Array, weight: Array, layout: str, **more: Any) -> Any:
    """Into a poisoned output of the input's layout."""
    place = LAYOUTS[layout]
    out = place(capi.poisoned(problem.output_shape, x.dtype))
    return target.run(problem, place(x), weight, **{"out": out, **more})


def assert_integers_exactly(
    target: Target, problem: Problem, dtype: str, layout: str, filters: str = "nchw"
) -> None:
    x = integers(problem.input_shape, dtype)
    weight = strided(integers(problem.weight_shape, dtype), layout=filters)
    y = run(target, problem, x, weight, layout)
    np.testing.assert_array_equal(y, convolution(x, weight, problem).astype(DTYPES[dtype]))


def assert_any_alignment(
    target: Target, problem: Problem, dtype: str, layout: str, shift: int
) -> None:
    x, weight = normal(problem.input_shape, dtype), normal(problem.weight_shape, dtype)
    y = run(target, problem, x, weight, layout, shift=shift)
    assert_convolved(y, x, weight, problem, target.algorithm)


def assert_epilogues(target: Target, problem: Problem, dtype: str, layout: str) -> None:
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
