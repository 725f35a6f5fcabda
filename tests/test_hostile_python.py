"""conv2d of anything: views of any memory, and arguments of any type. Right, or refused by an error
that the docstring names, with nothing written.
"""

from typing import Any

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

import im2win
from capi import DTYPE_CODES
from im2win import reference
from numerics import DTYPES, Array, normal
from problems import Problem, problems


class Unhelpful:
    """Fails whatever is asked of it."""

    def __getattr__(self, name: str) -> Any:
        raise ValueError(f"asked for {name}")

    def __index__(self) -> int:
        raise ValueError("asked for an integer")


NUMBERS: list[Any] = [
    *(sign * 2**bits + step for bits in (0, 15, 31, 32, 62, 63, 64) for sign in (-1, 1)
      for step in (-1, 0, 1)),
    0.5, float("nan"), float("inf"), 1e308, -0.0, True, None, 1j, "1", b"1", "same", "valid", "",
    (), (1,), (1, 2), (1, 2, 3), ((1, 2), (3, 4)), [1, 2], [[0, 1], [2, 3]], {}, {1}, range(2),
    np.int8(1), np.uint64(2**64 - 1), np.float32(1), np.array(1), np.array([1, 2]), np.bool_(True),
    Unhelpful(), object(), int, "relu", "clamp", ("clamp", 0, 1), ("clamp", "a", None),
    ("leaky_relu", float("nan")), "im2win", "direct", "depthwise", "im2win\0", "ä" * 5000, "NHWC",
    "cuda", "cuda:99999999999", "cpu",
]  # fmt: skip
NAMES = (
    "stride", "padding", "dilation", "groups", "algorithm", "math", "layout", "activation",
    "alpha", "beta", "workspace_limit", "stream", "device",
)  # fmt: skip
TENSORS = ("input", "weight", "bias", "residual", "out")


@st.composite
def views(draw: st.DrawFn, array: Array) -> Array:
    """The same numbers, lying in memory in some other way."""
    result = array
    for axis in range(array.ndim):
        step = draw(st.sampled_from((1, 1, 2, -1)))
        wide = np.repeat(result, abs(step), axis=axis)
        index = [slice(None)] * array.ndim
        index[axis] = slice(None, None, step)
        result = np.flip(wide, axis)[tuple(index)] if step < 0 else wide[tuple(index)]
    order = draw(st.permutations(range(array.ndim)))
    view: Array = np.ascontiguousarray(result.transpose(order)).transpose(np.argsort(order))
    return view


def spoilt(array: Array) -> list[Any]:
    """What is no tensor of the right shape, dtype and alignment, or is one in odd clothes."""
    raw = np.zeros(array.nbytes + 1, np.uint8)
    return [
        raw[1:].view(array.dtype).reshape(array.shape) if array.size else array,
        array.astype(array.dtype.newbyteorder()),
        array[..., None],
        array[..., :0],
        array[:0],
        np.zeros(array.shape, np.int32),
        array.astype(object),
        np.ma.masked_array(array),
        np.broadcast_to(array[..., :1], array.shape) if array.size else array,
        array.tolist(),
        None,
        memoryview(b"bytes"),
        Unhelpful(),
    ]


def expected(arguments: dict[str, Any], problem: Problem) -> tuple[Array, Array]:
    """The convolution in float64, and how far off an output may be."""
    tensors = [arguments[name] for name in ("input", "weight", "bias")]
    window = [problem.stride, problem.padding, problem.dilation, problem.groups]
    residual = arguments.get("residual")
    exact = reference.conv2d(*tensors, *window, residual=residual)
    return exact, reference.magnitude(*tensors, *window, residual=residual)


@given(data=st.data(), problem=problems(), dtype=st.sampled_from(list(DTYPE_CODES)))
def test_views_of_any_memory(data: st.DataObject, problem: Problem, dtype: str) -> None:
    shapes = {"input": problem.input_shape, "weight": problem.weight_shape, "bias": (problem.k,)}
    arguments: dict[str, Any] = {
        name: data.draw(views(normal(shape, dtype, name)), name) for name, shape in shapes.items()
    }
    out = data.draw(views(np.full(problem.output_shape, np.nan, DTYPES[dtype])), "out")
    if data.draw(st.booleans(), "has a residual"):
        out[...] = normal(problem.output_shape, dtype, "residual")
        arguments["residual"] = out if data.draw(st.booleans(), "in place") else out.copy()
    exact, scale = expected(arguments, problem)
    y = im2win.conv2d(
        **arguments,
        out=out,
        stride=problem.stride,
        padding=problem.padding,
        dilation=problem.dilation,
        groups=problem.groups,
    )
    assert y is out
    errors = reference.relative_error(y, exact, scale)
    assert (errors <= reference.bound(dtype, problem.taps)).all()


@given(data=st.data(), problem=problems(), dtype=st.sampled_from(list(DTYPE_CODES)))
def test_arguments_of_any_kind(data: st.DataObject, problem: Problem, dtype: str) -> None:
    arguments: dict[str, Any] = {
        "input": normal(problem.input_shape, dtype),
        "weight": normal(problem.weight_shape, dtype),
        "stride": problem.stride,
        "padding": problem.padding,
        "dilation": problem.dilation,
        "groups": problem.groups,
        "out": np.full(problem.output_shape, np.nan, DTYPES[dtype]),
    }
    before = {name: arguments[name].copy() for name in ("input", "weight", "out")}
    memory = {name: arguments[name] for name in before}
    for name in data.draw(st.lists(st.sampled_from(NAMES + TENSORS), max_size=3, unique=True)):
        if name not in TENSORS:
            arguments[name] = data.draw(st.sampled_from(NUMBERS), name)
        else:
            like = arguments.get(name, before["out"])
            arguments[name] = data.draw(st.sampled_from([*spoilt(like), *memory.values()]), name)
    unwritten = [name for name in before if arguments.get("out") is not memory[name]]
    try:
        im2win.conv2d(**arguments)
    except (TypeError, ValueError, im2win.Im2winError):
        unwritten = list(before)
    for name in unwritten:
        assert memory[name].tobytes() == before[name].tobytes(), f"{name} was written"
