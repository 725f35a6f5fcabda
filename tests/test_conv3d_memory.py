"""conv3d's output beside its other tensors: its planes are written while others are to be read."""

from typing import Any

import numpy as np
import pytest
from numpy.lib.stride_tricks import as_strided

import im2win
from numerics import Array, normal


def zeros(*shape: int) -> Array:
    return np.zeros(shape, np.float32)


@pytest.mark.parametrize("name", ["input", "weight", "bias", "residual"])
def test_overlapping_out(name: str) -> None:
    """Planes apart in one plane's convolution, and yet written before they are read."""
    memory = normal((400,), "float32")
    before = memory.copy()
    arguments: dict[str, Any] = {
        "input": zeros(4, 4, 3, 2, 2),
        "weight": zeros(4, 4, 1, 1, 1),
        "bias": zeros(4),
    }
    shape = arguments[name].shape if name in arguments else (4, 4, 3, 2, 2)
    arguments[name] = memory[8 : 8 + int(np.prod(shape))].reshape(shape)
    with pytest.raises(ValueError, match=f"out at .* overlaps {name}"):
        im2win.conv3d(**arguments, out=memory[11:203].reshape(4, 4, 3, 2, 2))
    assert memory.tobytes() == before.tobytes()


def test_out_in_the_place_of_the_input() -> None:
    x = normal((1, 2, 4, 3, 3), "float32")
    before = x.copy()
    with pytest.raises(ValueError, match="overlaps input"):
        im2win.conv3d(x, zeros(2, 2, 3, 3, 3), padding=1, out=x)
    assert x.tobytes() == before.tobytes()


def test_out_that_overlaps_itself() -> None:
    out = as_strided(zeros(1000), (1, 6, 3, 4, 5), (0, 80, 0, 20, 4))
    with pytest.raises(ValueError, match="overlaps itself"):
        im2win.conv3d(zeros(1, 4, 5, 6, 7), zeros(6, 4, 3, 3, 3), out=out)


@pytest.mark.parametrize("axis", range(5))
def test_interleaved_slices_do_not_overlap(axis: int) -> None:
    memory = normal((8, 8, 8, 8, 8), "float32")
    halves = [
        tuple(slice(half, None, 2) if a == axis else slice(None) for a in range(5))
        for half in (0, 1)
    ]
    x, out = memory[halves[0]], memory[halves[1]]
    weight = normal((x.shape[1], x.shape[1], 3, 3, 3), "float32")
    expected, x_before = im2win.conv3d(x.copy(), weight, padding=1), x.copy()
    assert im2win.conv3d(x, weight, padding=1, out=out) is out
    np.testing.assert_array_equal(out, expected)
    np.testing.assert_array_equal(x, x_before)


def test_an_empty_batch() -> None:
    out = zeros(0, 6, 3, 4, 5)
    x, weight = zeros(0, 4, 5, 6, 7), zeros(6, 4, 3, 3, 3)
    assert im2win.conv3d(x, weight, zeros(6)).shape == out.shape
    assert im2win.conv3d(x, weight, out=out, residual=out) is out
