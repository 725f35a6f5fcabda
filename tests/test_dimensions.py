"""conv1d, conv2d and conv3d take the same arguments, and plans of all of them the same tensors."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import capi
import im2win
from frameworks import from_torch, to_torch
from numerics import DTYPES, Array, assert_close, normal, tolerance
from volumes import Volume, convolution

CONVOLUTIONS: dict[int, Callable[..., Any]] = {1: im2win.conv1d, 2: im2win.conv2d, 3: im2win.conv3d}
PLANS: dict[int, Any] = {1: im2win.Conv1dPlan, 2: im2win.Conv2dPlan, 3: im2win.Conv3dPlan}
LAYOUTS = {1: ("NCW", "NWC"), 2: ("NCHW", "NHWC"), 3: ("NCDHW", "NDHWC")}
# With as many axes of more than one element.
PROBLEMS = {
    1: Volume(
        n=3,
        c=6,
        k=8,
        size=(1, 1, 9),
        window=(1, 1, 3),
        padding=((0, 0), (0, 0), (1, 1)),
        stride=(1, 1, 2),
        groups=2,
    ),
    2: Volume(
        n=3,
        c=6,
        k=8,
        size=(1, 6, 9),
        window=(1, 2, 3),
        padding=((0, 0), (2, 1), (1, 1)),
        stride=(1, 1, 2),
        groups=2,
    ),
    3: Volume(
        n=3,
        c=6,
        k=8,
        size=(5, 6, 9),
        window=(3, 2, 3),
        padding=((1, 0), (2, 1), (1, 1)),
        stride=(2, 1, 2),
        groups=2,
    ),
}


def geometry(dims: int) -> dict[str, Any]:
    volume = PROBLEMS[dims]
    per_axis = {name: getattr(volume, name)[3 - dims :] for name in ("stride", "padding")}
    return {**per_axis, "groups": volume.groups}


def squeezed(array: Array, dims: int, layout: str = "") -> Array:
    """Without the axes that the dimensions have not; channels last if the layout says so."""
    fewer = array.reshape(*array.shape[:2], *array.shape[5 - dims :])
    return np.ascontiguousarray(np.moveaxis(fewer, 1, -1)) if layout.endswith("C") else fewer


class Case:
    """Tensors of a problem, in a layout, with all that an epilogue takes, and what is right."""

    def __init__(self, dims: int, dtype: str, layout: str, images: int = 3) -> None:
        self.dims, self.layout, self.volume = dims, layout, replace(PROBLEMS[dims], n=images)
        volume, self.dtype = self.volume, dtype
        x, weight = normal(volume.input_shape, dtype), normal(volume.weight_shape, dtype)
        residual = normal(volume.output_shape, dtype, "residual")
        bias = normal((volume.k,), "float64" if dtype == "float64" else "float32", "bias")
        self.tensors = [squeezed(x, dims, layout), squeezed(weight, dims, layout), bias]
        self.residual = squeezed(residual, dims, layout)
        self.scales = {"alpha": 0.5, "beta": -2.0, "layout": layout}
        exact = 0.5 * convolution(x, weight, volume) - 2 * residual.astype(np.float64)
        magnitude = convolution(np.abs(x), np.abs(weight), volume) + 2 * np.abs(residual) + 4
        self._exact = squeezed(exact + bias.astype(np.float64)[:, None, None, None], dims, layout)
        self._magnitude = squeezed(magnitude.astype(np.float64), dims, layout)

    def check(self, y: Array) -> None:
        sums = "float64" if self.dtype == "float64" else "float32"
        taps = self.volume.taps
        allowed = tolerance(self._exact, self._magnitude, self.dtype, sums, taps)
        assert y.dtype == DTYPES[self.dtype]
        assert_close(y, self._exact.reshape(y.shape), allowed.reshape(y.shape))


def cases() -> list[Any]:
    return [
        pytest.param(dims, dtype, layout, id=f"{layout}-{dtype}")
        for dims, layouts in LAYOUTS.items()
        for layout in layouts
        for dtype in DTYPES
    ]


@pytest.mark.parametrize("images", [3, 1])
@pytest.mark.parametrize(("dims", "dtype", "layout"), cases())
def test_every_argument(dims: int, dtype: str, layout: str, images: int) -> None:
    """One image is unbatched."""
    case = Case(dims, dtype, layout, images)
    x, weight, bias = case.tensors
    x, residual = (x[0], case.residual[0]) if images == 1 else (x, case.residual)
    options = {**case.scales, **geometry(dims)}
    out = capi.poisoned(residual.shape, x.dtype)
    convolve = CONVOLUTIONS[dims]
    assert convolve(x, weight, bias, residual=residual, out=out, **options) is out
    case.check(out)
    y = convolve(x, weight, bias, residual=residual, **options)
    assert y.tobytes() == out.tobytes()


@pytest.mark.parametrize(("dims", "dtype", "layout"), cases())
def test_plans(dims: int, dtype: str, layout: str) -> None:
    """Of shapes and of tensors, with the weight in every call and packed, the same bits."""
    case = Case(dims, dtype, layout)
    (x, weight, bias), options = case.tensors, {**case.scales, **geometry(dims)}
    shapes = (x.shape, weight.shape)
    types = {"dtype": dtype, "bias": bias.dtype.name, "residual": True}
    plan = PLANS[dims](*shapes, **types, **options)
    y = plan(x, weight, bias, case.residual)
    case.check(y)
    assert plan.output_shape == y.shape
    assert plan.algorithms()[plan.algorithm] is None
    packed = plan.pack(weight)
    assert (packed.algorithm, packed.output_shape) == (plan.algorithm, plan.output_shape)
    assert packed.workspace_bytes <= plan.workspace_bytes
    like = PLANS[dims].like(x, weight, bias, case.residual, **options)
    for call in (packed, like.pack(weight)):
        out = capi.poisoned(y.shape, y.dtype)
        assert call(x, bias, case.residual, out=out) is out
        assert out.tobytes() == y.tobytes()
    assert like(x, weight, bias, case.residual).tobytes() == y.tobytes()


@pytest.mark.parametrize("dims", LAYOUTS)
def test_plans_of_tensors_anywhere_in_memory(dims: int) -> None:
    """Channels last, backwards and broadcast; each call as the convolution without a plan."""
    case = Case(dims, "float32", LAYOUTS[dims][0])
    (x, weight, bias), options = case.tensors, {**case.scales, **geometry(dims)}
    expected = CONVOLUTIONS[dims](x, weight, bias, residual=case.residual, **options)
    x, weight, residual = (
        np.moveaxis(np.ascontiguousarray(np.moveaxis(a, 1, -1)), -1, 1)
        for a in (x, weight, case.residual)
    )
    weight, bias = weight[..., ::-1].copy()[..., ::-1], np.repeat(bias, 2)[::2]
    plan = PLANS[dims].like(x, weight, bias, residual, **options)
    for y in (plan(x, weight, bias, residual), plan.pack(weight)(x, bias, residual)):
        assert np.moveaxis(y, 1, -1).flags.c_contiguous
        case.check(y)
        np.testing.assert_allclose(y, expected, rtol=1e-5, atol=1e-4)
    with pytest.raises(ValueError, match=r"input has strides .*, the plan .*like"):
        plan(np.ascontiguousarray(x), weight, bias, residual)
    with pytest.raises(ValueError, match="weight has strides"):
        plan(x, np.ascontiguousarray(weight), bias, residual)
    with pytest.raises(ValueError, match="out has strides"):
        plan(x, weight, bias, residual, out=np.empty_like(y, order="C"))


@pytest.mark.parametrize("dims", LAYOUTS)
def test_a_planned_output(dims: int) -> None:
    case = Case(dims, "float32", LAYOUTS[dims][0])
    (x, weight, bias), options = case.tensors, {**case.scales, **geometry(dims)}
    out = np.asfortranarray(capi.poisoned(case.residual.shape, x.dtype))
    plan = PLANS[dims].like(x, weight, bias, case.residual, out=out, **options)
    assert plan(x, weight, bias, case.residual, out=out) is out
    case.check(out)
    with pytest.raises(ValueError, match="out is missing"):
        plan(x, weight, bias, case.residual)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("dims", [2, 3])
def test_channels_last_of_torch(dims: int, dtype: str) -> None:
    torch = pytest.importorskip("torch")
    case = Case(dims, dtype, LAYOUTS[dims][0])
    order = torch.channels_last if dims == 2 else torch.channels_last_3d
    x, weight, residual = (
        to_torch(a).contiguous(memory_format=order)
        for a in (*case.tensors[:2], np.ascontiguousarray(case.residual))
    )
    bias = to_torch(case.tensors[2])
    options = {**case.scales, **geometry(dims)}
    plan = PLANS[dims].like(x, weight, bias, residual, **options)
    results = [
        CONVOLUTIONS[dims](x, weight, bias, residual=residual, **options),
        plan(x, weight, bias, residual),
        plan.pack(weight)(x, bias, residual),
        PLANS[dims]
        .like(x, weight.contiguous(), bias, residual, **options)
        .pack(weight)(x, bias, residual),
    ]
    for y in results:
        assert y.is_contiguous(memory_format=order)
        case.check(from_torch(y.contiguous()))


def test_options_that_there_are_not() -> None:
    x, weight = np.zeros((1, 2, 5, 5), np.float32), np.zeros((3, 2, 3, 3), np.float32)
    with pytest.raises(TypeError, match="'paddings'"):
        im2win.Conv2dPlan.like(x, weight, paddings=1)
    with pytest.raises(ValueError, match="layout is 'NCW', expected one of 'NCHW'"):
        im2win.Conv2dPlan.like(x, weight, layout="NCW")
