"""Bias, residual, alpha, beta and activation: activation(alpha * conv + beta * residual + bias)."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import capi
import im2win
from epilogues import ACTIVATIONS
from im2win import reference
from im2win._library import lib
from numerics import (
    Array,
    accumulator,
    assert_close,
    convolution,
    normal,
    tolerance,
)
from problems import Problem, same
from targets import Target, all_targets

PROBLEM = Problem(n=2, c=5, h=7, w=8, k=11, padding=((1, 1), (0, 2)))
# Outputs of these leave together: as words, rows or boxes.
WHOLE_TILES = [
    Problem(n=2, c=64, h=9, w=16, k=128, padding=same(1)),
    Problem(n=3, c=32, h=8, w=16, k=64, r=1, s=1),
    Problem(n=3, c=72, h=13, w=11, k=144, r=1, s=1),
    Problem(c=48, h=6, w=24, k=80, padding=same(1), stride=(2, 2)),
    # Some of a warp's 16 filters, and words of one, two and four pixels.
    Problem(n=2, c=16, h=5, w=20, k=24, r=1, s=1),
    Problem(n=2, c=24, h=6, w=18, k=2, r=1, s=1),
    Problem(n=2, c=16, h=7, w=9, k=37),
    # Single pixels of all images as two rows, or as one.
    Problem(n=5, c=64, h=10, w=33, k=72, r=1, s=1),
    Problem(n=3, c=32, h=7, w=7, k=128, r=1, s=1),
    # Few channels: in boxes or runs, as words of filters or rows of pixels, and pixel-major.
    Problem(n=2, c=3, h=12, w=60, k=64, padding=same(1)),
    Problem(n=2, c=3, h=12, w=61, k=32, padding=same(1), stride=(2, 2)),
    Problem(c=4, h=12, w=58, k=40, r=5, s=5, padding=same(2)),
    Problem(c=3, h=9, w=31, k=96, r=5, s=5),
]
LAYOUTS = {"NCHW": (0, 1, 2, 3), "NHWC": (0, 2, 3, 1)}  # the dimensions, slowest first
STEEPEST = 1.5  # no activation's slope is greater


def tensors(dtype: str, problem: Problem = PROBLEM) -> tuple[Array, Array, Array, Array]:
    """Input, weight, bias and residual."""
    return (
        normal(problem.input_shape, dtype),
        normal(problem.weight_shape, dtype),
        normal((problem.k,), dtype, "bias"),
        normal(problem.output_shape, dtype, "residual"),
    )


def laid_out(layout: str, array: Array) -> Array:
    """A copy whose elements lie in the order of LAYOUTS."""
    order = LAYOUTS[layout]
    result: Array = np.ascontiguousarray(array.transpose(order)).transpose(np.argsort(order))
    return result


def check(
    y: Array,
    x: Array,
    weight: Array,
    addend: Array | float,
    algorithm: str,
    activate: Callable[[Array], Array] = lambda x: x,
    alpha: float = 1.0,
    problem: Problem = PROBLEM,
) -> None:
    """That y is activate(alpha * conv + addend), with the errors of conv through the activation."""
    dtype = x.dtype.name
    before = alpha * convolution(x, weight, problem) + addend
    magnitude = abs(alpha) * convolution(np.abs(x), np.abs(weight), problem) + np.abs(addend)
    exact = activate(before)
    sums = accumulator(algorithm, dtype)
    # Activations round about four times, relative to numbers no larger than their argument.
    scale = STEEPEST * magnitude + 4 * (1 + np.abs(before))
    assert_close(y, exact, tolerance(exact, scale, dtype, sums, problem.taps))


@pytest.mark.parametrize("dtype", capi.DTYPE_CODES)
@pytest.mark.parametrize("target", all_targets())
def test_bias_and_residual(target: Target, dtype: str) -> None:
    x, weight, bias, residual = tensors(dtype)
    wide_bias, wide_residual = bias.astype(np.float64)[:, None, None], residual.astype(np.float64)
    y = target.run(PROBLEM, x, weight, bias=bias)
    check(y, x, weight, wide_bias, target.algorithm)
    y = target.run(PROBLEM, x, weight, residual=residual)
    check(y, x, weight, wide_residual, target.algorithm)
    y = target.run(PROBLEM, x, weight, bias=bias, residual=residual)
    check(y, x, weight, wide_bias + wide_residual, target.algorithm)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
@pytest.mark.parametrize("target", all_targets())
def test_float32_bias_with_halves_is_not_rounded_to_them(target: Target, dtype: str) -> None:
    x, weight, _, _ = tensors(dtype)
    bias = normal((PROBLEM.k,), "float32", "bias")
    y = target.run(PROBLEM, x, weight, bias=bias)
    check(y, x, weight, bias.astype(np.float64)[:, None, None], target.algorithm)
    zeros = target.run(PROBLEM, 0 * x, weight, bias=bias)
    once = np.broadcast_to(bias.astype(x.dtype)[:, None, None], zeros.shape)
    np.testing.assert_array_equal(zeros, once)


@pytest.mark.parametrize("target", all_targets())
def test_strided_bias(target: Target) -> None:
    x, weight, _, _ = tensors("float32")
    bias = np.repeat(normal((PROBLEM.k,), "float32", "bias"), 3)
    for view in (bias[::3], bias[::-3], np.broadcast_to(bias[:1], PROBLEM.k)):
        y = target.run(PROBLEM, x, weight, bias=view)
        check(y, x, weight, view.astype(np.float64)[:, None, None], target.algorithm)


@pytest.mark.parametrize("target", all_targets())
def test_residual_of_other_strides(target: Target) -> None:
    x, weight, _, residual = tensors("float32")
    channels_last = np.ascontiguousarray(residual.transpose(0, 2, 3, 1)).transpose(0, 3, 1, 2)
    for view in (channels_last, residual[:, ::-1], np.broadcast_to(residual[:1], residual.shape)):
        y = target.run(PROBLEM, x, weight, residual=view)
        check(y, x, weight, view.astype(np.float64), target.algorithm)


@pytest.mark.parametrize("target", all_targets())
def test_residual_in_place(target: Target) -> None:
    x, weight, bias, residual = tensors("float32")
    apart = target.run(PROBLEM, x, weight, bias=bias, residual=residual)
    in_place = target.run(PROBLEM, x, weight, bias=bias, residual=residual, out=residual)
    assert in_place.tobytes() == apart.tobytes()


@pytest.mark.parametrize("name", ACTIVATIONS)
@pytest.mark.parametrize("dtype", capi.DTYPE_CODES)
@pytest.mark.parametrize("target", all_targets())
def test_activations(target: Target, dtype: str, name: str) -> None:
    parameters, activate = ACTIVATIONS[name]
    fields = {
        "activation": getattr(lib, f"IM2WIN_{name.upper()}"),
        "activation_params": parameters,
    }
    x, weight, bias, residual = tensors(dtype)
    y = target.run(
        PROBLEM,
        x,
        weight,
        bias=bias,
        residual=residual,
        **fields,
    )
    addend = bias.astype(np.float64)[:, None, None] + residual.astype(np.float64)
    check(y, x, weight, addend, target.algorithm, activate)


@pytest.mark.parametrize("layouts", [*LAYOUTS, "mixed"])
@pytest.mark.parametrize("name", ["relu", "silu"])
@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
@pytest.mark.parametrize("problem", WHOLE_TILES, ids=str)
@pytest.mark.parametrize("target", all_targets())
def test_whole_tiles(target: Target, problem: Problem, dtype: str, name: str, layouts: str) -> None:
    """With a residual like the output, in its place too, of another layout, and without any."""
    x, weight, bias, residual = tensors(dtype, problem)
    layout, other = ("NHWC", "NCHW") if layouts == "mixed" else (layouts, layouts)
    x, residual = laid_out(layout, x), laid_out(other, residual)
    _, activate = ACTIVATIONS[name]
    fields: dict[str, Any] = {
        "bias": bias,
        "activation": getattr(lib, f"IM2WIN_{name.upper()}"),
        "alpha": 0.5,
        "beta": -2,
    }
    wide_bias, wide_residual = bias.astype(np.float64)[:, None, None], residual.astype(np.float64)

    def run(**options: Any) -> Array:
        out = laid_out(layout, capi.poisoned(problem.output_shape, x.dtype))
        return target.run(problem, x, weight, **{"out": out, **fields, **options})

    def check_sums(y: Array, addend: Array) -> None:
        check(y, x, weight, addend, target.algorithm, activate, 0.5, problem)

    y = run(residual=residual)
    check_sums(y, wide_bias - 2 * wide_residual)
    if other == layout:
        assert run(residual=residual, out=residual).tobytes() == y.tobytes()
    check_sums(run(), wide_bias)


@pytest.mark.parametrize(("alpha", "beta"), [(1, 1), (-0.5, 3), (2, 0), (0, 1), (0, 0)])
@pytest.mark.parametrize("target", all_targets())
def test_alpha_and_beta(target: Target, alpha: float, beta: float) -> None:
    x, weight, bias, residual = tensors("float32")
    scales = {"alpha": alpha, "beta": beta}
    wide_bias, wide_residual = bias.astype(np.float64)[:, None, None], residual.astype(np.float64)
    y = target.run(PROBLEM, x, weight, bias=bias, residual=residual, **scales)
    check(y, x, weight, beta * wide_residual + wide_bias, target.algorithm, alpha=alpha)
    y = target.run(PROBLEM, x, weight, bias=bias, alpha=alpha, beta=np.nan)  # times no residual
    check(y, x, weight, wide_bias, target.algorithm, alpha=alpha)


@pytest.mark.parametrize("name", ACTIVATIONS)
@pytest.mark.parametrize("target", all_targets())
def test_activations_of_special_values(target: Target, name: str) -> None:
    """NaN stays NaN, and no finite number becomes one."""
    parameters, activate = ACTIVATIONS[name]
    values = np.array([np.nan, np.inf, 0.0, -0.0, 1e30, -1e30, 200.0, -200.0], np.float32)
    problem = Problem(c=1, h=1, w=values.size, k=1, r=1, s=1)
    y = target.run(
        problem,
        values.reshape(problem.input_shape),
        np.ones((1, 1, 1, 1), np.float32),
        activation=getattr(lib, f"IM2WIN_{name.upper()}"),
        activation_params=parameters,
    ).ravel()
    with np.errstate(over="ignore", invalid="ignore"):
        expected = activate(values.astype(np.float64))
    np.testing.assert_allclose(y, expected, rtol=1e-6, atol=1e-30)


@pytest.mark.parametrize(
    ("activation", "defaults"),
    [("relu", ()), ("leaky_relu", (0.01,)), (("leaky_relu", 0.3), ()), (("clamp", -1, 1), ())],
    ids=str,
)
def test_python_passes_activation_and_parameters(activation: Any, defaults: Any) -> None:
    x, weight, bias, residual = tensors("float32")
    y = im2win.conv2d(
        x, weight, bias, padding=PROBLEM.padding, activation=activation, residual=residual
    )
    name, *given = activation if isinstance(activation, tuple) else (activation, *defaults)
    expected = capi.run(
        PROBLEM,
        x,
        weight,
        bias=bias,
        residual=residual,
        activation=getattr(lib, f"IM2WIN_{name.upper()}"),
        activation_params=given,
    )
    assert y.tobytes() == expected.tobytes()


def test_python_writes_into_the_residual() -> None:
    x, weight, _, residual = tensors("float32")
    expected = im2win.conv2d(x, weight, padding=PROBLEM.padding, residual=residual)
    result = im2win.conv2d(x, weight, padding=PROBLEM.padding, residual=residual, out=residual)
    assert result is residual
    assert residual.tobytes() == expected.tobytes()


@pytest.mark.parametrize(("alpha", "beta"), [(-0.5, 3), (2, 0.25), (np.float32(0.5), 0)])
def test_python_passes_alpha_and_beta(alpha: float, beta: float) -> None:
    x, weight, bias, residual = tensors("float32")
    scales: dict[str, Any] = {"alpha": alpha, "beta": beta}
    arguments = (x, weight, bias, 1, PROBLEM.padding)
    y = im2win.conv2d(*arguments, residual=residual, **scales)
    scale = reference.magnitude(*arguments, residual=residual, **scales)
    expected = reference.conv2d(*arguments, residual=residual, **scales)
    by_c = capi.run(PROBLEM, x, weight, bias=bias, residual=residual, **scales)
    assert y.tobytes() == by_c.tobytes()
    assert (reference.relative_error(y, expected, scale) < 1e-6).all()
    plan = im2win.Conv2dPlan(
        x.shape, weight.shape, bias=True, residual=True, padding=PROBLEM.padding, **scales
    )
    assert plan(x, weight, bias, residual).tobytes() == y.tobytes()


@pytest.mark.parametrize("name", ["alpha", "beta"])
def test_python_refuses_scales_that_are_no_numbers(name: str) -> None:
    x, weight, _, _ = tensors("float32")
    for value in ("1", None, np.ones(1, np.float32)):
        with pytest.raises(TypeError, match=f"{name} is .*, expected a number"):
            im2win.conv2d(x, weight, **{name: value})  # type: ignore[arg-type]
