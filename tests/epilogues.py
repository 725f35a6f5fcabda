"""Activations, and exact epilogues of integers, for tests of a kernel."""

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from im2win._library import lib
from numerics import Array

_erf = np.vectorize(math.erf, otypes=[np.float64])

# In float64, from the formulas; with the parameters of a call.
ACTIVATIONS: dict[str, tuple[tuple[float, ...], Callable[[Array], Array]]] = {
    "relu": ((), lambda x: np.maximum(x, 0)),
    "relu6": ((), lambda x: np.minimum(np.maximum(x, 0), 6)),
    "leaky_relu": ((0.25,), lambda x: np.where(x < 0, 0.25 * x, x)),
    "silu": ((), lambda x: x / (1 + np.exp(-x))),
    "gelu": ((), lambda x: x / 2 * (1 + _erf(x / math.sqrt(2)))),
    "sigmoid": ((), lambda x: 1 / (1 + np.exp(-x))),
    "tanh": ((), np.tanh),
    "hardswish": ((), lambda x: x * np.minimum(np.maximum(x + 3, 0), 6) / 6),
    "clamp": ((-0.5, 1.5), lambda x: np.minimum(np.maximum(x, -0.5), 1.5)),
}


def assert_exact_epilogues(
    run: Callable[..., Array], sums: Array, bias: Array, residual: Array
) -> None:
    """One that adds a bias and clamps, and any: of run(options of capi.run), whose convolution is
    `sums`. The residual is overwritten."""
    before = sums + bias.astype(np.float64)[:, None, None]
    y = run(bias=bias, activation=lib.IM2WIN_RELU6)
    np.testing.assert_array_equal(y, np.clip(before, 0, 6).astype(y.dtype))

    before += residual.astype(np.float64)
    fields = {"activation": lib.IM2WIN_LEAKY_RELU, "activation_params": (0.25, 0.0)}
    more: dict[str, Any] = {"bias": bias, "residual": residual, "out": residual, **fields}
    y = run(**more)
    np.testing.assert_array_equal(y, np.where(before < 0, before / 4, before).astype(y.dtype))
