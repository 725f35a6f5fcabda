"""conv1d is conv2d of an image of height 1, whatever the tensors look like."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import capi
import im2win
from capi import CPU
from frameworks import from_torch, to_torch
from numerics import DTYPES, Array, assert_convolved, normal
from problems import Problem
from targets import Target, all_targets

LINE = Problem(n=2, c=4, h=1, w=11, k=6, r=1, s=3)
LINES = [
    LINE,
    replace(LINE, padding=((0, 0), (1, 2)), stride=(1, 2)),
    replace(LINE, dilation=(1, 3), groups=2),
    replace(LINE, s=1),
]


def arrays(problem: Problem, dtype: str = "float32") -> tuple[Array, Array]:
    """Input and weight without a height."""
    shapes = (problem.input_shape, problem.weight_shape)
    x, weight = (normal((*shape[:2], shape[3]), dtype) for shape in shapes)
    return x, weight


def convolve(problem: Problem, x: Any, weight: Any, **options: Any) -> Any:
    window = (problem.stride[1], [problem.padding[1]], problem.dilation[1], problem.groups)
    return im2win.conv1d(x, weight, None, *window, **options)


def check(y: Array, x: Array, weight: Array, problem: Problem, algorithm: str = "") -> None:
    assert_convolved(y[:, :, None], x[:, :, None], weight[:, :, None], problem, algorithm)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("problem", LINES, ids=str)
@pytest.mark.parametrize("target", all_targets())
def test_every_algorithm(target: Target, problem: Problem, dtype: str) -> None:
    if not target.takes(problem, dtype):
        pytest.skip("refused")
    x, weight = arrays(problem, dtype)
    n, k, _, q = problem.output_shape
    out = capi.poisoned((n, k, q), x.dtype)
    device = None if target.device == CPU else "cuda"
    y = convolve(problem, x, weight, out=out, algorithm=target.algorithm, device=device)
    assert y is out
    check(y, x, weight, problem, target.algorithm)


def test_strides_and_memory_order() -> None:
    x, weight = arrays(LINE)
    last = np.ascontiguousarray(x.transpose(0, 2, 1)).transpose(0, 2, 1)
    y = convolve(LINE, last, weight[:, ::-1].copy()[:, ::-1])
    assert y.transpose(0, 2, 1).flags.c_contiguous
    check(y, x, weight, LINE)
    y = convolve(LINE, np.asfortranarray(x), weight)
    assert y.flags.c_contiguous
    check(y, x, weight, LINE)
    swapped = [np.ascontiguousarray(a.transpose(0, 2, 1)) for a in (x, weight)]
    y = convolve(LINE, *swapped, layout="NWC")
    assert y.flags.c_contiguous
    check(y.transpose(0, 2, 1), x, weight, LINE)


def test_unbatched_bias_residual_and_scales() -> None:
    x, weight = arrays(LINE)
    bias = normal((LINE.k,), "float32", "bias")
    residual = normal((LINE.k, LINE.output_shape[3]), "float32", "residual")
    options: dict[str, Any] = {"alpha": 0.5, "beta": 2, "activation": "relu"}
    y = im2win.conv1d(x[0], weight, bias, residual=residual, **options)
    wide_x, wide_weight, wide = (a[:, :, None] for a in (x[:1], weight, residual[None]))
    expected = im2win.conv2d(wide_x, wide_weight, bias, residual=wide, **options)
    assert y.shape == residual.shape
    assert y.tobytes() == expected.tobytes()


def test_an_empty_batch() -> None:
    problem = replace(LINE, n=0)
    assert convolve(problem, *arrays(problem)).shape == (0, 6, 9)


def test_padding_in_every_way_to_write_it() -> None:
    x, weight = arrays(replace(LINE, s=4))
    ways: list[tuple[Any, tuple[int, int]]] = [
        (2, (2, 2)),
        ((2,), (2, 2)),
        (((1, 3),), (1, 3)),
        ("valid", (0, 0)),
        ("same", (1, 2)),
    ]
    for padding, sides in ways:
        problem = replace(LINE, s=4, padding=((0, 0), sides))
        check(im2win.conv1d(x, weight, padding=padding), x, weight, problem)


@pytest.mark.parametrize("dtype", DTYPES)
def test_torch(dtype: str) -> None:
    torch = pytest.importorskip("torch")
    x, weight = arrays(LINE, dtype)
    y = convolve(LINE, to_torch(x), to_torch(weight))
    assert (type(y), y.dtype) == (torch.Tensor, getattr(torch, dtype))
    check(from_torch(y), x, weight, LINE)


X, W = np.zeros((2, 4, 7), np.float32), np.zeros((6, 4, 3), np.float32)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"input": X[0, 0]}, r"input has shape \(7,\), expected \(N, C, W\) or \(C, W\)"),
        ({"input": X[None]}, r"input has shape \(1, 2, 4, 7\)"),
        ({"weight": W[0]}, r"weight has shape \(4, 3\), expected \(K, C / groups, S\)"),
        ({"weight": W[:, :3]}, "as the input has 4 channels"),
        ({"padding": (1, 2)}, r"padding is \(1, 2\), expected an integer or \(width,\)"),
        ({"stride": 0}, "stride_w is 0"),
        ({"layout": "NCHW"}, "layout is 'NCHW', expected one of 'NCW'"),
        ({"input": X[:, :, :2]}, "width is 3, .* 2"),
    ],
)
def test_wrong_arguments(change: dict[str, Any], message: str) -> None:
    out = capi.poisoned((2, 6, 5), X.dtype)
    with pytest.raises(ValueError, match=message):
        im2win.conv1d(**{"input": X, "weight": W, "out": out, **change})
    assert (out.view(np.uint8) == capi.POISON).all()
