"""Tensors whose channels are neighbours: NHWC, and some of the channels of a wider one."""

from collections.abc import Callable
from functools import partial
from typing import Any

import capi
from numerics import Array, strided
from problems import Problem
from targets import Target


def channels_of_more(a: Any) -> Any:
    """Some of the channels of a tensor that has eight more."""
    wider = capi.poisoned((a.shape[0], *a.shape[2:], a.shape[1] + 8), a.dtype)
    some = wider.transpose(0, 3, 1, 2)[:, 8:]
    some[...] = a
    return some


LAYOUTS: dict[str, Callable[[Any], Any]] = {
    "nhwc": partial(strided, layout="nhwc"),
    "slices": channels_of_more,
}


def run(target: Target, problem: Problem, x: Array, weight: Array, layout: str, **more: Any) -> Any:
    """Into a poisoned output of the input's layout."""
    place = LAYOUTS[layout]
    out = place(capi.poisoned(problem.output_shape, x.dtype))
    return target.run(problem, place(x), weight, **{"out": out, **more})
