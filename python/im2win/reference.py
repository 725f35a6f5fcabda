"""The convolution as im2win.h defines it, in float64 NumPy, and how to compare with it.

Independent of the C library: what `im2win check`, `im2win bench` and the tests hold it against.
"""

import math
from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np

from im2win._arguments import Activation, Padding, PerAxis, Window, window

Array: TypeAlias = np.ndarray[Any, Any]

# Half the spacing of the numbers around 1: the largest relative error of one rounding.
ROUNDING = {"float64": 2.0**-53, "float32": 2.0**-24, "float16": 2.0**-11, "bfloat16": 2.0**-8}
_TF32_ROUNDING = 2.0**-11


def conv2d(
    input: Array,
    weight: Array,
    bias: Array | None = None,
    stride: PerAxis = 1,
    padding: Padding = 0,
    dilation: PerAxis = 1,
    groups: int = 1,
    *,
    layout: str = "NCHW",
    activation: Activation = None,
    residual: Array | None = None,
    alpha: float = 1.0,
    beta: float = 1.0,
) -> Array:
    """What im2win.conv2d would return without rounding, for arrays of any dtype; float64."""
    if layout == "NHWC":
        input, weight = np.moveaxis(input, -1, -3), np.moveaxis(weight, -1, -3)
    geometry = window((weight.shape[2], weight.shape[3]), stride, padding, dilation)
    images = input if input.ndim == 4 else input[None]
    output = _sums(images.astype(np.float64), weight.astype(np.float64), geometry, groups)
    output *= alpha
    if bias is not None:
        output += bias.astype(np.float64)[:, None, None]
    if input.ndim == 3:
        output = output[0]
    if layout == "NHWC":
        output = np.moveaxis(output, -3, -1)
    if residual is not None:
        output = output + beta * residual.astype(np.float64)
    return _activate(output, activation)


def magnitude(
    input: Array,
    weight: Array,
    bias: Array | None = None,
    *arguments: Any,
    activation: Activation = None,
    residual: Array | None = None,
    alpha: float = 1.0,
    beta: float = 1.0,
    **options: Any,
) -> Array:
    """The same sum over absolute values: the scale of the rounding errors before the activation."""
    bias = None if bias is None else np.abs(bias)
    residual = None if residual is None else np.abs(residual)
    options |= {"alpha": abs(alpha), "beta": abs(beta), "residual": residual}
    return conv2d(np.abs(input), np.abs(weight), bias, *arguments, **options)


def relative_error(actual: Array, expected: Array, scale: Array) -> Array:
    """|actual - expected| / (scale + |expected|), elementwise; 0 where equal, NaN with NaN too."""
    computed = actual.astype(np.float64)
    equal = (computed == expected) | (np.isnan(computed) & np.isnan(expected))
    with np.errstate(invalid="ignore", divide="ignore"):
        error = np.abs(computed - expected) / (scale + np.abs(expected))
    return np.where(equal, 0.0, np.where(np.isnan(error), np.inf, error))


def bound(dtype: str, terms: int, math_mode: str | None = None) -> float:
    """What relative_error may be for sums of this many products, in any order.

    One rounding of the result, and the random walk of those of the sum, with some slack for the
    activations (whose slopes reach 1.5).
    """
    accumulation = ROUNDING["float64" if dtype == "float64" else "float32"]
    products = 2 * _TF32_ROUNDING if math_mode == "tf32" and dtype == "float32" else 0.0
    return ROUNDING[dtype] + accumulation * (8 + 2 * math.sqrt(terms)) + 1.5 * products


def _sums(images: Array, weight: Array, geometry: Window, groups: int) -> Array:
    """[n, k, p, q], one filter position at a time, and only where it lies inside the image."""
    n, c, h, w = images.shape
    k, _, r, s = weight.shape
    (top, bottom), (left, right) = geometry.padding
    p = (h + top + bottom - geometry.dilation[0] * (r - 1) - 1) // geometry.stride[0] + 1
    q = (w + left + right - geometry.dilation[1] * (s - 1) - 1) // geometry.stride[1] + 1
    grouped = images.reshape(n, groups, c // groups, h, w)
    filters = weight.reshape(groups, k // groups, c // groups, r, s)
    output = np.zeros((n, groups, k // groups, p, q))
    for y in range(r):
        offset = y * geometry.dilation[0] - top
        rows, from_rows = _inside(p, h, geometry.stride[0], offset)
        for x in range(s):
            offset = x * geometry.dilation[1] - left
            columns, from_columns = _inside(q, w, geometry.stride[1], offset)
            read = grouped[..., from_rows, from_columns]
            positions = math.prod(read.shape[3:])  # not -1, as there may be none
            products = filters[..., y, x] @ read.reshape(*read.shape[:3], positions)
            output[..., rows, columns] += products.reshape(*products.shape[:3], *read.shape[3:])
    return output.reshape(n, k, p, q)


def _inside(outputs: int, inputs: int, stride: int, offset: int) -> tuple[slice, slice]:
    """The outputs i with 0 <= i * stride + offset < inputs, and the inputs that they read."""
    first = max(0, -(offset // stride))
    last = min(outputs - 1, (inputs - 1 - offset) // stride)
    if last < first:
        return slice(0, 0), slice(0, 0)
    start = first * stride + offset
    return slice(first, last + 1), slice(start, start + (last - first) * stride + 1, stride)


def _leaky_relu(x: Array, slope: float = 0.01) -> Array:
    return np.where(x < 0, slope * x, x)


def _gelu(x: Array) -> Array:
    erf = np.vectorize(math.erf, otypes=[np.float64])
    y: Array = 0.5 * x * (1 + erf(x / math.sqrt(2)))
    return y


_ACTIVATIONS: dict[str, Callable[..., Array]] = {
    "relu": lambda x: np.maximum(x, 0),
    "relu6": lambda x: np.clip(x, 0, 6),
    "leaky_relu": _leaky_relu,
    "silu": lambda x: x / (1 + np.exp(-x)),
    "gelu": _gelu,
    "sigmoid": lambda x: 1 / (1 + np.exp(-x)),
    "tanh": np.tanh,
    "hardswish": lambda x: x * np.clip(x + 3, 0, 6) / 6,
    "clamp": np.clip,
}


def _activate(x: Array, activation: Activation) -> Array:
    if activation is None:
        return x
    name, *parameters = (activation,) if isinstance(activation, str) else activation
    with np.errstate(over="ignore", invalid="ignore"):
        return _ACTIVATIONS[str(name)](x, *parameters)
