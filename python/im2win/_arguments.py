"""The arguments of a convolution that are not tensors: from what callers write to plain numbers."""

import operator
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias, TypeVar

from im2win._library import lib

Value = TypeVar("Value")
Pair: TypeAlias = int | Sequence[int]  # for both, or (height, width)
# Each side, (height, width), ((top, bottom), (left, right)), "same" or "valid".
Padding: TypeAlias = Pair | Sequence[Sequence[int]] | str
Activation: TypeAlias = str | Sequence[str | float] | None  # a name, or (name, parameters...)

MATHS: dict[str, int] = {
    "fp32": lib.IM2WIN_MATH_FP32,
    "ieee": lib.IM2WIN_MATH_IEEE,
    "tf32": lib.IM2WIN_MATH_TF32,
}
ACTIVATIONS: dict[str, int] = {
    "relu": lib.IM2WIN_RELU,
    "relu6": lib.IM2WIN_RELU6,
    "leaky_relu": lib.IM2WIN_LEAKY_RELU,
    "silu": lib.IM2WIN_SILU,
    "gelu": lib.IM2WIN_GELU,
    "sigmoid": lib.IM2WIN_SIGMOID,
    "tanh": lib.IM2WIN_TANH,
    "hardswish": lib.IM2WIN_HARDSWISH,
    "clamp": lib.IM2WIN_CLAMP,
}
_PARAMETERS = {"leaky_relu": ("slope",), "clamp": ("lower", "upper")}
_DEFAULTS: dict[str, tuple[float, ...]] = {"leaky_relu": (0.01,)}


class Options(NamedTuple):
    """The arguments of conv2d that are not tensors, as the caller wrote them."""

    stride: Any
    padding: Any
    dilation: Any
    groups: Any
    algorithm: Any
    math: Any
    layout: Any
    activation: Any
    workspace_limit: Any
    threads: Any


class Window(NamedTuple):
    """How the filter's window moves over the input."""

    stride: tuple[int, int]
    padding: tuple[tuple[int, int], tuple[int, int]]  # (top, bottom), (left, right)
    dilation: tuple[int, int]


def integer(name: str, value: Any) -> int:
    """Errors: TypeError for what is no integer, ValueError beyond 64 bits."""
    try:
        number = operator.index(value)
    except TypeError:
        raise TypeError(f"{name} is {value!r}, expected an integer") from None
    if abs(number) >= 2**63:
        raise ValueError(f"{name} is {number}, expected a 64-bit integer")
    return number


def plain(name: str, value: Any) -> Any:
    """The value in integers, strings and tuples alone, as a part of the plan cache's key.

    1.0 == 1: without this, a number of the wrong type would find the plan of the right one.
    Errors: those of `integer`.
    """
    if isinstance(value, (str, int)):
        return value
    if isinstance(value, (tuple, list)):
        return tuple([plain(name, item) for item in value])
    return integer(name, value)


def choice(name: str, value: Any, choices: Mapping[str, Value]) -> Value:
    """Errors: ValueError for what is none of the choices."""
    if not isinstance(value, str) or value not in choices:
        raise ValueError(f"{name} is {value!r}, expected one of {', '.join(map(repr, choices))}")
    return choices[value]


def pair(name: str, value: Any) -> tuple[int, int]:
    """An integer for both dimensions, or (height, width)."""
    if not isinstance(value, (tuple, list)):
        return (integer(name, value),) * 2
    if len(value) != 2:
        raise ValueError(f"{name} is {value!r}, expected an integer or (height, width)")
    return integer(name, value[0]), integer(name, value[1])


def window(kernel_size: tuple[int, int], stride: Any, padding: Any, dilation: Any) -> Window:
    """PyTorch's meaning of these arguments, and padding ((top, bottom), (left, right))."""
    strides, dilations = pair("stride", stride), pair("dilation", dilation)
    if padding == "valid":
        padding = 0
    if padding == "same":
        if strides != (1, 1):
            raise ValueError(f'padding is "same" with stride {stride!r}, expected stride 1')
        totals = [step * (size - 1) for step, size in zip(dilations, kernel_size, strict=True)]
        top, left = (total // 2 for total in totals)
        return Window(strides, ((top, totals[0] - top), (left, totals[1] - left)), dilations)
    if isinstance(padding, str):
        raise ValueError(f'padding is "{padding}", expected "same", "valid" or numbers')
    if isinstance(padding, (tuple, list)) and any(isinstance(p, (tuple, list)) for p in padding):
        if len(padding) != 2:
            raise ValueError(f"padding is {padding!r}, expected ((top, bottom), (left, right))")
        return Window(
            strides, (pair("padding", padding[0]), pair("padding", padding[1])), dilations
        )
    height, width = pair("padding", padding)
    return Window(strides, ((height, height), (width, width)), dilations)


def activation(value: Any) -> tuple[int, tuple[float, float]]:
    """The code and the two parameters of a name, of (name, parameters...) or of None."""
    if value is None:
        return lib.IM2WIN_IDENTITY, (0.0, 0.0)
    name, *given = value if isinstance(value, (tuple, list)) and value else (value,)
    code = choice("activation", name, ACTIVATIONS)
    names = _PARAMETERS.get(name, ())
    parameters = given or _DEFAULTS.get(name, ())
    if len(parameters) != len(names):
        expected = f"({', '.join((repr(name), *names))})" if names else repr(name)
        raise ValueError(f"activation is {value!r}, expected {expected}")
    first, second, *_ = (*map(float, parameters), 0.0, 0.0)
    return code, (first, second)
