"""The arguments of a convolution that are not tensors: from what callers write to plain numbers."""

import operator
from collections.abc import Mapping, Sequence
from numbers import Real
from typing import Any, NamedTuple, TypeAlias, TypeVar

from im2win._library import lib

Value = TypeVar("Value")
PerAxis: TypeAlias = int | Sequence[int]  # for every spatial axis, or one for each
# Each side, (height, width), ((top, bottom), (left, right)), "same" or "valid".
Padding: TypeAlias = PerAxis | Sequence[Sequence[int]] | str
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
_AXES = {1: "(width,)", 2: "(height, width)", 3: "(depth, height, width)"}
_PARAMETERS = {"leaky_relu": ("slope",), "clamp": ("lower", "upper")}
_DEFAULTS: dict[str, tuple[float, ...]] = {"leaky_relu": (0.01,)}


class Options(NamedTuple):
    """The arguments of a convolution that are not tensors, as the caller wrote them."""

    dims: int  # of space: 1, 2 or 3
    layout: Any
    stride: Any = 1
    padding: Any = 0
    dilation: Any = 1
    groups: Any = 1
    algorithm: Any = None
    math: Any = None
    activation: Any = None
    alpha: Any = 1.0
    beta: Any = 1.0
    workspace_limit: Any = None
    threads: Any = 0


class Window(NamedTuple):
    """How the filter's window moves over the input, along each spatial axis."""

    stride: tuple[int, ...]
    padding: tuple[tuple[int, int], ...]  # (before, after)
    dilation: tuple[int, ...]


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


def byte_limit(value: Any) -> int | None:
    """A workspace limit. Errors: those of `integer`; ValueError below 0."""
    if value is None:
        return None
    limit = integer("workspace_limit", value)
    if limit < 0:
        raise ValueError(f"workspace_limit is {limit}, expected bytes or None")
    return limit


def choice(name: str, value: Any, choices: Mapping[str, Value]) -> Value:
    """Errors: ValueError for what is none of the choices."""
    if not isinstance(value, str) or value not in choices:
        raise ValueError(f"{name} is {value!r}, expected one of {', '.join(map(repr, choices))}")
    return choices[value]


def real(name: str, value: Any) -> float:
    """Errors: TypeError for what is no number."""
    if not isinstance(value, Real):
        raise TypeError(f"{name} is {value!r}, expected a number")
    return float(value)


def per_axis(name: str, value: Any, dims: int) -> tuple[int, ...]:
    """An integer for every axis, or a sequence of one for each; of a single one, as in PyTorch."""
    if not isinstance(value, (tuple, list)):
        return (integer(name, value),) * dims
    if len(value) not in (1, dims):
        raise ValueError(f"{name} is {value!r}, expected an integer or {_AXES[dims]}")
    return tuple([integer(name, item) for item in value]) * (dims // len(value))


def window(kernel_size: tuple[int, ...], stride: Any, padding: Any, dilation: Any) -> Window:
    """PyTorch's meaning of these arguments, and padding ((top, bottom), (left, right))."""
    dims = len(kernel_size)
    strides, dilations = per_axis("stride", stride, dims), per_axis("dilation", dilation, dims)
    if padding == "same":
        if any(step != 1 for step in strides):
            raise ValueError(f'padding is "same" with stride {stride!r}, expected stride 1')
        totals = [step * (size - 1) for step, size in zip(dilations, kernel_size, strict=True)]
        sides = tuple((total // 2, total - total // 2) for total in totals)
    else:
        sides = _sides(padding, dims)
    return Window(strides, sides, dilations)


def _sides(padding: Any, dims: int) -> tuple[tuple[int, int], ...]:
    """Padding in numbers, or "valid", as (before, after) for each axis."""
    if padding == "valid":
        padding = 0
    if isinstance(padding, str):
        raise ValueError(f'padding is "{padding}", expected "same", "valid" or numbers')
    if isinstance(padding, (tuple, list)) and any(isinstance(p, (tuple, list)) for p in padding):
        if len(padding) != dims:
            raise ValueError(f"padding is {padding!r}, expected (before, after) for {_AXES[dims]}")
        before_after = [per_axis("padding", side, 2) for side in padding]
    else:
        before_after = [(side, side) for side in per_axis("padding", padding, dims)]
    return tuple((before, after) for before, after in before_after)


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
