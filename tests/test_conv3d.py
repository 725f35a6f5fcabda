"""conv3d: the definition, rounded once, by every algorithm and for tensors anywhere in memory."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import capi
import im2win
from numerics import DTYPES, Array, assert_close, integers, normal, tolerance
from targets import Target, all_targets
from volumes import VOLUMES, Volume, assert_convolved, convolution, run

VOLUME = Volume(padding=((1, 0), (1, 1), (0, 2)), c=4, groups=2)


def arrays(volume: Volume, dtype: str = "float32") -> tuple[Array, Array]:
    return normal(volume.input_shape, dtype), normal(volume.weight_shape, dtype)


def supported(target: Target, *arguments: Any, **options: Any) -> Array:
    """`run`; skips the test where the algorithm refuses, which `direct` may not."""
    try:
        return run(target, *arguments, **options)
    except im2win.Im2winError as error:
        if target.algorithm == "direct" or error.status != "IM2WIN_UNSUPPORTED":
            raise
        pytest.skip(str(error))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("volume", VOLUMES, ids=range(len(VOLUMES)))
@pytest.mark.parametrize("target", all_targets())
def test_within_the_error_bound_and_integers_exactly(
    target: Target, volume: Volume, dtype: str
) -> None:
    x, weight = arrays(volume, dtype)
    y = supported(target, x, weight, volume)
    assert_convolved(y, x, weight, volume, target.algorithm)
    x, weight = integers(volume.input_shape, dtype), integers(volume.weight_shape, dtype)
    y = run(target, x, weight, volume)
    np.testing.assert_array_equal(y, convolution(x, weight, volume).astype(x.dtype))


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
@pytest.mark.parametrize("target", all_targets())
def test_halves_are_rounded_once(target: Target, dtype: str) -> None:
    """Sums that float32 has exactly, and a half has not: a rounding at every tap would show."""
    volume = Volume(c=16, size=(5, 4, 4), window=(5, 3, 3), padding=((2, 2), (1, 1), (1, 1)))
    x, weight = 15 * integers(volume.input_shape, dtype), integers(volume.weight_shape, dtype)
    y = supported(target, x, weight, volume)
    np.testing.assert_array_equal(y, convolution(x, weight, volume).astype(x.dtype))


# How to lay an array out in memory: each returns an equal array, of other strides.
LAYOUTS: dict[str, Callable[[Array], Array]] = {
    "ncdhw": np.ascontiguousarray,
    "ndhwc": lambda a: np.moveaxis(np.ascontiguousarray(np.moveaxis(a, 1, -1)), -1, 1),
    "fortran": np.asfortranarray,
    "flipped": lambda a: a[:, ::-1, ::-1, ::-1, ::-1].copy()[:, ::-1, ::-1, ::-1, ::-1],
    "every other": lambda a: np.repeat(a, 2, axis=4)[..., ::2],
    "depth first": lambda a: np.moveaxis(np.ascontiguousarray(np.moveaxis(a, 2, 0)), 0, 2),
}


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("role", ["input", "weight", "output", "residual"])
def test_any_strides(role: str, layout: str) -> None:
    x, weight = arrays(VOLUME)
    out = capi.poisoned(VOLUME.output_shape, x.dtype)
    zeros = np.zeros(VOLUME.output_shape, x.dtype)
    tensors = {"input": x, "weight": weight, "output": out, "residual": zeros}
    tensors[role] = LAYOUTS[layout](tensors[role])
    y = im2win.conv3d(
        tensors["input"],
        tensors["weight"],
        out=tensors["output"],
        residual=tensors["residual"],
        **VOLUME.geometry,
    )
    assert y is tensors["output"]
    assert_convolved(y, x, weight, VOLUME, "")


def test_broadcast_input() -> None:
    weight = normal(VOLUME.weight_shape, "float32")
    for axis in range(5):
        shape = tuple(1 if a == axis else n for a, n in enumerate(VOLUME.input_shape))
        x = np.broadcast_to(normal(shape, "float32"), VOLUME.input_shape)
        assert_convolved(im2win.conv3d(x, weight, **VOLUME.geometry), x, weight, VOLUME, "")


def test_the_output_is_in_the_order_of_the_input() -> None:
    x, weight = arrays(VOLUME)
    y = im2win.conv3d(LAYOUTS["ndhwc"](x), weight, **VOLUME.geometry)
    assert np.moveaxis(y, 1, -1).flags.c_contiguous
    assert_convolved(y, x, weight, VOLUME, "")
    assert im2win.conv3d(LAYOUTS["fortran"](x), weight, **VOLUME.geometry).flags.c_contiguous
    x_last, weight_last = (np.ascontiguousarray(np.moveaxis(a, 1, -1)) for a in (x, weight))
    y = im2win.conv3d(x_last, weight_last, **VOLUME.geometry, layout="NDHWC")
    assert y.flags.c_contiguous
    assert_convolved(np.moveaxis(y, -1, 1), x, weight, VOLUME, "")


def test_unbatched() -> None:
    volume = Volume(n=1)
    x, weight = arrays(volume)
    y = im2win.conv3d(x[0], weight)
    assert y.shape == volume.output_shape[1:]
    assert_convolved(y[None], x, weight, volume, "")


@pytest.mark.parametrize("volume", [VOLUME, VOLUMES[12], VOLUMES[13]], ids=["", "gap", "no tap"])
@pytest.mark.parametrize("target", all_targets())
def test_epilogue(target: Target, volume: Volume) -> None:
    """Also where a plane sees nothing but padding."""
    x, weight = arrays(volume)
    bias = normal((volume.k,), "float32", "bias")
    residual = normal(volume.output_shape, "float32", "residual")
    before = 0.5 * convolution(x, weight, volume) - 2 * residual.astype(np.float64)
    before += bias.astype(np.float64)[:, None, None, None]
    magnitude = convolution(np.abs(x), np.abs(weight), volume) + 2 * np.abs(residual) + 4
    options: dict[str, Any] = {"bias": bias, "alpha": 0.5, "beta": -2, "activation": "relu"}
    y = supported(target, x, weight, volume, residual=residual, **options)
    sums = "float32"
    allowed = tolerance(before, magnitude, "float32", sums, volume.taps)
    assert_close(y, np.maximum(before, 0), allowed)
    in_place = residual.copy()
    assert run(target, x, weight, volume, residual=in_place, out=in_place, **options) is in_place
    assert in_place.tobytes() == y.tobytes()


def test_padding_contributes_nothing() -> None:
    """Not 0 times NaN: taps and pixels that meet padding alone do not matter."""
    volume = Volume(n=1, c=2, size=(1, 1, 1), window=(3, 3, 3), padding=((1, 1), (1, 1), (1, 1)))
    weight = np.full(volume.weight_shape, np.nan, np.float32)
    weight[:, :, 1, 1, 1] = 2
    y = im2win.conv3d(np.ones(volume.input_shape, np.float32), weight, padding=1)
    np.testing.assert_array_equal(y, np.full(volume.output_shape, 4))
    y = im2win.conv3d(np.full((1, 2, 1, 3, 3), np.nan, np.float32), weight, padding=(7, 0, 0))
    assert (y[:, :, :5] == 0).all()
    assert (y[:, :, -5:] == 0).all()


def test_same_and_valid() -> None:
    x, weight = arrays(Volume(window=(2, 3, 4)))
    volume = Volume(window=(2, 3, 4), padding=((0, 1), (1, 1), (1, 2)))
    assert_convolved(im2win.conv3d(x, weight, padding="same"), x, weight, volume, "")
    volume = Volume(window=(2, 3, 4))
    assert_convolved(im2win.conv3d(x, weight, padding="valid"), x, weight, volume, "")


X, W = np.zeros((2, 4, 5, 6, 7), np.float32), np.zeros((6, 4, 3, 3, 3), np.float32)
WRONG: list[tuple[dict[str, Any], type[Exception], str]] = [
    ({"input": X[0, 0]}, ValueError, r"input has shape \(5, 6, 7\), expected \(N, C, D, H, W\)"),
    ({"weight": W[0]}, ValueError, r"expected \(K, C / groups, T, R, S\)"),
    ({"weight": W[:, :3]}, ValueError, "as the input has 4 channels"),
    ({"weight": W.astype(np.float64)}, TypeError, "weight has dtype float64"),
    ({"bias": W[:5, 0, 0, 0, 0]}, ValueError, r"bias has shape \(5,\)"),
    ({"residual": X}, ValueError, r"residual has shape \(2, 4, 5, 6, 7\)"),
    ({"input": X[:, :, :0]}, ValueError, "d is 0"),
    ({"input": X[:, :, :2]}, ValueError, "depth is 3, 3 with dilation 1: .* 2"),
    ({"weight": W[:, :, :0]}, ValueError, "t is 0"),
    ({"stride": (0, 1, 1)}, ValueError, "stride_d is 0"),
    ({"stride": (1, 1, 0)}, ValueError, "stride_w is 0"),
    ({"stride": (1, 1)}, ValueError, r"stride is \(1, 1\).*depth, height, width"),
    ({"dilation": (-1, 1, 1)}, ValueError, "dilation_d is -1"),
    ({"padding": (-1, 0, 0)}, ValueError, "padding_front is -1"),
    ({"padding": ((0, -1), (0, 0), (0, 0))}, ValueError, "padding_back is -1"),
    ({"padding": 2**61}, ValueError, f"depth is {2**62 + 3}"),
    ({"padding": "same", "stride": 2}, ValueError, 'padding is "same"'),
    ({"groups": 4, "weight": W[:, :1]}, ValueError, "groups is 4"),
    ({"layout": "NCHW"}, ValueError, "layout is 'NCHW', expected one of 'NCDHW'"),
    ({"algorithm": "fft"}, ValueError, 'algorithm is "fft"'),
    ({"alpha": "1"}, TypeError, "alpha is '1', expected a number"),
    ({"workspace_limit": -1}, ValueError, "workspace_limit is -1"),
]


@pytest.mark.parametrize(("change", "error", "message"), WRONG, ids=range(len(WRONG)))
def test_wrong_arguments(change: dict[str, Any], error: type[Exception], message: str) -> None:
    out = capi.poisoned((2, 6, 3, 4, 5), X.dtype)
    with pytest.raises(error, match=message):
        im2win.conv3d(**{"input": X, "weight": W, "out": out, **change})
    assert (out.view(np.uint8) == capi.POISON).all()
