"""Every dtype, and every way in which a tensor may lie in memory."""

from collections.abc import Callable
from itertools import product

import numpy as np
import pytest

import capi
import im2win
from im2win._library import check, ffi, lib
from numerics import DTYPES, Array, assert_convolved, convolution, integers, normal
from problems import GEOMETRY, GROUPS, Problem
from targets import Target, accepted, all_targets

HALVES_AND_DOUBLE = ("float64", "float16", "bfloat16")
PROBLEM = Problem(n=2, c=6, h=7, w=9, k=10, padding=((1, 0), (2, 1)), stride=(1, 2), groups=2)


@pytest.mark.parametrize(
    ("target", "problem", "dtype"), accepted([*GEOMETRY, *GROUPS], HALVES_AND_DOUBLE)
)
def test_other_dtypes(target: Target, problem: Problem, dtype: str) -> None:
    x, weight = normal(problem.input_shape, dtype), normal(problem.weight_shape, dtype)
    y = target.run(problem, x, weight)
    assert_convolved(y, x, weight, problem, target.algorithm)


@pytest.mark.parametrize(
    ("target", "problem", "dtype"), accepted([*GEOMETRY, *GROUPS], HALVES_AND_DOUBLE)
)
def test_other_dtypes_with_integers(target: Target, problem: Problem, dtype: str) -> None:
    x, weight = integers(problem.input_shape, dtype), integers(problem.weight_shape, dtype)
    y = target.run(problem, x, weight)
    np.testing.assert_array_equal(y, convolution(x, weight, problem).astype(DTYPES[dtype]))


@pytest.mark.parametrize("factor", [1.5, -0.75, 2.0**-9 + 1, 2.0**-12])
@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
@pytest.mark.parametrize("target", all_targets())
def test_halves_are_rounded_once_and_to_even(target: Target, dtype: str, factor: float) -> None:
    """All finite numbers times one: exact in float32, then rounded as NumPy does it.

    Every second product with 1.5 is a tie; the last factor reaches all denormals.
    """
    every = np.arange(2**16, dtype=np.uint16).view(DTYPES[dtype])
    x = every[np.isfinite(every.astype(np.float32))].reshape(1, 1, 2, -1)
    problem = Problem(n=1, c=1, h=2, w=x.shape[3], k=1, r=1, s=1)
    weight = np.full((1, 1, 1, 1), factor).astype(x.dtype)
    y = target.run(problem, x, weight)
    with np.errstate(over="ignore", under="ignore"):
        expected = (x.astype(np.float32) * weight.astype(np.float32)).astype(x.dtype)
    np.testing.assert_array_equal(y, expected)


# How to lay an array out in memory: each returns an equal array, of other strides.
LAYOUTS: dict[str, Callable[[Array], Array]] = {
    "nchw": np.ascontiguousarray,
    "nhwc": lambda a: np.ascontiguousarray(a.transpose(0, 2, 3, 1)).transpose(0, 3, 1, 2),
    "fortran": np.asfortranarray,
    "hwnc": lambda a: np.ascontiguousarray(a.transpose(2, 3, 0, 1)).transpose(2, 3, 0, 1),
    "flipped": lambda a: np.ascontiguousarray(a[:, ::-1, ::-1, ::-1])[:, ::-1, ::-1, ::-1],
    "padded rows": lambda a: _inside(a, (0, 0, 1, 3)),
    "every other": lambda a: _inside(np.repeat(a, 2, axis=3), (0, 0, 0, 0))[..., ::2],
    "a slice of channels": lambda a: _inside(a, (0, 2, 0, 0)),
}


def _inside(array: Array, margin: tuple[int, ...]) -> Array:
    """The array as the middle of a larger one, which is poison elsewhere."""
    sizes = [n + 2 * m for n, m in zip(array.shape, margin, strict=True)]
    outer = capi.poisoned(tuple(sizes), array.dtype)
    middle = outer[tuple(slice(m, m + n) for n, m in zip(array.shape, margin, strict=True))]
    middle[...] = array
    return middle


def laid_out(layout: str, array: Array) -> Array:
    result = LAYOUTS[layout](array)
    assert np.array_equal(result, array, equal_nan=True)
    return result


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("role", ["input", "weight", "output"])
@pytest.mark.parametrize("target", all_targets())
def test_any_strides(target: Target, role: str, layout: str) -> None:
    x = normal(PROBLEM.input_shape, "float32")
    weight = normal(PROBLEM.weight_shape, "float32")
    out = capi.poisoned(PROBLEM.output_shape, x.dtype)
    tensors = {"input": x, "weight": weight, "output": out}
    tensors[role] = LAYOUTS[layout](tensors[role])
    y = target.run(PROBLEM, tensors["input"], tensors["weight"], out=tensors["output"])
    assert_convolved(y, x, weight, PROBLEM, target.algorithm)


@pytest.mark.parametrize("axis", range(4))
@pytest.mark.parametrize("target", all_targets())
def test_broadcast_input(target: Target, axis: int) -> None:
    one = normal(tuple(1 if a == axis else n for a, n in enumerate(PROBLEM.input_shape)), "float32")
    x = np.broadcast_to(one, PROBLEM.input_shape)
    weight = normal(PROBLEM.weight_shape, "float32")
    y = target.run(PROBLEM, x, weight)
    assert_convolved(y, x, weight, PROBLEM, target.algorithm)


@pytest.mark.parametrize("layouts", list(product(("NCHW", "NHWC"), repeat=3)), ids="-".join)
@pytest.mark.parametrize("target", all_targets())
def test_named_layouts_mean_their_dense_strides(
    target: Target, layouts: tuple[str, str, str]
) -> None:
    """The same bits as with the strides written out."""
    orders = {"NCHW": "nchw", "NHWC": "nhwc"}
    fields = dict(zip(("input_layout", "filter_layout", "output_layout"), layouts, strict=True))
    codes = {name: getattr(lib, f"IM2WIN_{layout}") for name, layout in fields.items()}
    x, weight, out = (
        laid_out(orders[layout], array)
        for layout, array in zip(
            layouts,
            (
                normal(PROBLEM.input_shape, "float32"),
                normal(PROBLEM.weight_shape, "float32"),
                capi.poisoned(PROBLEM.output_shape, DTYPES["float32"]),
            ),
            strict=True,
        )
    )
    by_strides = target.run(PROBLEM, x, weight, out=out)
    tensors = {
        role: capi.Tensor(target.device, array)
        for role, array in (("input", x), ("filter", weight), ("output", out))
    }
    desc = capi.descriptor(PROBLEM, **codes)
    plan = capi.create_plan(desc, target.device, target.algorithm)
    capi.execute(plan, target.device, tensors)
    assert tensors["output"].read().tobytes() == by_strides.tobytes()


@pytest.mark.parametrize("dtype", capi.DTYPE_CODES)
def test_python_takes_strides_and_answers_in_the_order_of_the_input(dtype: str) -> None:
    x = laid_out("nhwc", normal(PROBLEM.input_shape, dtype))
    weight = laid_out("flipped", normal(PROBLEM.weight_shape, dtype))
    arguments = (PROBLEM.stride, PROBLEM.padding, PROBLEM.dilation, PROBLEM.groups)
    y = im2win.conv2d(x, weight, None, *arguments)
    assert_convolved(y, x, weight, PROBLEM)
    assert y.transpose(0, 2, 3, 1).flags.c_contiguous
    y = im2win.conv2d(laid_out("fortran", x), weight, None, *arguments)
    assert y.flags.c_contiguous


def test_layout_nhwc_reads_shapes_as_nhwc() -> None:
    x, weight = normal(PROBLEM.input_shape, "float32"), normal(PROBLEM.weight_shape, "float32")
    y = im2win.conv2d(
        np.ascontiguousarray(x.transpose(0, 2, 3, 1)),
        np.ascontiguousarray(weight.transpose(0, 2, 3, 1)),
        None,
        PROBLEM.stride,
        PROBLEM.padding,
        PROBLEM.dilation,
        PROBLEM.groups,
        layout="NHWC",
    )
    assert y.flags.c_contiguous
    assert_convolved(y.transpose(0, 3, 1, 2), x, weight, PROBLEM)


def test_an_image_without_a_batch() -> None:
    x, weight = normal((3, 6, 7), "float32"), normal((4, 3, 3, 3), "float32")
    problem = Problem(c=3, h=6, w=7, k=4)
    y = im2win.conv2d(x, weight)
    assert y.shape == problem.output_shape[1:]
    assert_convolved(y[None], x[None], weight, problem)


def test_a_size_of_one_may_have_any_stride() -> None:
    """NumPy and PyTorch leave odd strides on axes along which nobody steps."""
    problem = Problem(n=1, c=1, h=5, w=5, k=1)
    x, weight = normal(problem.input_shape, "float32"), normal(problem.weight_shape, "float32")
    desc = capi.descriptor(problem, input_layout=lib.IM2WIN_STRIDED)
    desc.input_strides = (2**62, -(2**63), 5, 1)
    tensors = {
        "input": capi.Tensor(capi.CPU, x),
        "filter": capi.Tensor(capi.CPU, weight),
        "output": capi.Tensor(capi.CPU, capi.poisoned(problem.output_shape, x.dtype)),
    }
    capi.execute(capi.create_plan(desc), capi.CPU, tensors)
    assert_convolved(tensors["output"].read(), x, weight, problem)


def test_an_empty_batch_may_have_any_strides() -> None:
    desc = capi.descriptor(Problem(n=0), output_layout=lib.IM2WIN_STRIDED)
    desc.output_strides = (0, 0, 0, 0)
    size = ffi.new("int64_t[2]")
    check(lib.im2win_conv2d_output_size(desc, size, size + 1))
    assert (size[0], size[1]) == (4, 5)
