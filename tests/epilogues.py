"""Exact epilogues of integers, for tests of a kernel: one that adds a bias and clamps, and any."""

from collections.abc import Callable
from typing import Any

import numpy as np

from im2win._library import lib
from numerics import Array


def assert_exact_epilogues(
    run: Callable[..., Array], sums: Array, bias: Array, residual: Array
) -> None:
    """Of run(options of capi.run), whose convolution is `sums`; the residual is overwritten."""
    before = sums + bias.astype(np.float64)[:, None, None]
    y = run(bias=bias, activation=lib.IM2WIN_RELU6)
    np.testing.assert_array_equal(y, np.clip(before, 0, 6).astype(y.dtype))

    before += residual.astype(np.float64)
    fields = {"activation": lib.IM2WIN_LEAKY_RELU, "activation_params": (0.25, 0.0)}
    more: dict[str, Any] = {"bias": bias, "residual": residual, "out": residual, **fields}
    y = run(**more)
    np.testing.assert_array_equal(y, np.where(before < 0, before / 4, before).astype(y.dtype))
