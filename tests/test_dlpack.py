"""Tensors of which nothing is known but DLPack: both kinds of capsule, offsets, strides, flags."""

import gc
import weakref
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import im2win
from numerics import Array, assert_convolved, normal
from problems import Problem

PROBLEM = Problem(n=2, c=5, h=6, w=8, k=7, stride=(2, 1))
VERSIONED = tuple(int(part) for part in np.__version__.split(".")[:2]) >= (2, 1)


class Legacy:
    """A producer from before DLPack 1.0, which knows no max_version."""

    def __init__(self, array: Any) -> None:
        self._array = array

    def __dlpack_device__(self) -> Any:
        return self._array.__dlpack_device__()

    def __dlpack__(self, stream: int | None = None) -> Any:
        return self._array.__dlpack__()


class Versioned(Legacy):
    """A producer of today: its capsules have a version and a read-only flag."""

    def __dlpack__(
        self, stream: int | None = None, *, max_version: tuple[int, int] | None = None
    ) -> Any:
        return self._array.__dlpack__(max_version=max_version)


KINDS = [
    Legacy,
    pytest.param(Versioned, marks=pytest.mark.skipif(not VERSIONED, reason="needs NumPy 2.1")),
]


def arrays() -> tuple[Array, Array]:
    return normal(PROBLEM.input_shape, "float32"), normal(PROBLEM.weight_shape, "float32")


@pytest.mark.parametrize("kind", KINDS)
def test_in_and_out(kind: type[Legacy]) -> None:
    x, weight = arrays()
    y = im2win.conv2d(kind(x), kind(weight), stride=PROBLEM.stride)
    assert type(y) is np.ndarray
    assert_convolved(y, x, weight, PROBLEM)
    memory = np.full_like(y, np.nan)
    out = kind(memory)
    assert im2win.conv2d(kind(x), kind(weight), stride=PROBLEM.stride, out=out) is out
    assert memory.tobytes() == y.tobytes()


@pytest.mark.parametrize(
    "view",
    [
        lambda a: np.ascontiguousarray(a.transpose(0, 2, 3, 1)).transpose(0, 3, 1, 2),
        lambda a: np.ascontiguousarray(a[..., ::-1])[..., ::-1],
        lambda a: np.pad(a, 1)[1:-1, 1:-1, 1:-1, 1:-1],
    ],
    ids=["channels last", "negative", "inside another"],
)
@pytest.mark.parametrize("kind", KINDS)
def test_strides_and_offsets(kind: type[Legacy], view: Callable[[Array], Array]) -> None:
    x, weight = arrays()
    y = im2win.conv2d(kind(view(x)), kind(view(weight)), stride=PROBLEM.stride)
    assert_convolved(y, x, weight, PROBLEM)


def test_halves_of_torch() -> None:
    torch = pytest.importorskip("torch")
    x, weight = (torch.from_numpy(array).bfloat16() for array in arrays())
    y = im2win.conv2d(Legacy(x), Legacy(weight), stride=PROBLEM.stride)
    assert y.dtype.name == "bfloat16"
    plain = im2win.conv2d(x, weight, stride=PROBLEM.stride)
    assert y.tobytes() == plain.view(torch.int16).numpy().tobytes()


@pytest.mark.skipif(not VERSIONED, reason="needs NumPy 2.1")
def test_read_only() -> None:
    """Fine as an input, and refused as an output; a legacy capsule cannot even say so."""
    x, weight = arrays()
    x.flags.writeable = False
    y = im2win.conv2d(Versioned(x), Versioned(weight), stride=PROBLEM.stride)
    assert_convolved(y, x, weight, PROBLEM)
    before = y.copy()
    y.flags.writeable = False
    with pytest.raises(ValueError, match="out is read-only"):
        im2win.conv2d(x, weight + 1, stride=PROBLEM.stride, out=Versioned(y))
    assert y.tobytes() == before.tobytes()
    with pytest.raises(ValueError, match="input cannot be exported by DLPack"):
        im2win.conv2d(Legacy(x), Legacy(weight), stride=PROBLEM.stride)


@pytest.mark.parametrize("kind", KINDS)
def test_nothing_is_kept(kind: type[Legacy]) -> None:
    """The capsules are let go of, and with them the arrays."""
    x, weight = (kind(array) for array in arrays())
    references = [weakref.ref(each) for each in (x, weight)]
    im2win.conv2d(x, weight, stride=PROBLEM.stride)
    del x, weight
    gc.collect()
    assert [reference() for reference in references] == [None, None]


def test_dtypes_that_are_none_of_ours() -> None:
    x, weight = arrays()
    with pytest.raises(TypeError, match="input has dtype"):
        im2win.conv2d(Legacy(x.astype(np.int32)), Legacy(weight))
    with pytest.raises(TypeError, match="weight has dtype float64"):
        im2win.conv2d(Legacy(x), Legacy(weight.astype(np.float64)))


class Elsewhere(Legacy):
    """A tensor that says that it is on another kind of device."""

    def __dlpack_device__(self) -> Any:
        return 8, 0  # Metal


class Broken(Legacy):
    def __dlpack__(self, stream: int | None = None) -> Any:
        return "no capsule"


def test_producers_that_cannot_be_served() -> None:
    x, weight = arrays()
    with pytest.raises(TypeError, match="input is on DLPack device 8, expected CPU or CUDA"):
        im2win.conv2d(Elsewhere(x), Legacy(weight))
    with pytest.raises(TypeError, match="'no capsule', expected an unconsumed DLPack capsule"):
        im2win.conv2d(Legacy(x), Broken(weight))
