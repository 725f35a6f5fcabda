"""Random problems, and what holds for all of them."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import capi
import im2win
from im2win import reference
from numerics import assert_convolved, convolution, integers, normal
from problems import PROBLEMS, Problem, problems
from targets import Target, all_targets


@pytest.mark.parametrize("target", all_targets())
@given(problem=problems(), dtype=st.sampled_from(list(capi.DTYPE_CODES)))
def test_any_problem(target: Target, problem: Problem, dtype: str) -> None:
    if not target.takes(problem, dtype):
        return
    x, weight = normal(problem.input_shape, dtype), normal(problem.weight_shape, dtype)
    assert_convolved(target.run(problem, x, weight), x, weight, problem, target.algorithm)


@pytest.mark.parametrize("target", all_targets())
@given(problem=problems())
def test_linear_in_the_input(target: Target, problem: Problem) -> None:
    """Exactly, on integers: conv(a + 2 b) = conv(a) + 2 conv(b)."""
    if not target.takes(problem):
        return
    a, b = (integers(problem.input_shape, "float32", name) for name in "ab")
    weight = integers(problem.weight_shape, "float32")
    apart = target.run(problem, a, weight) + 2 * target.run(problem, b, weight)
    np.testing.assert_array_equal(target.run(problem, a + 2 * b, weight), apart)


@given(problem=problems())
def test_padding_is_zeros(problem: Problem) -> None:
    """To the last bit: a sum does not change by zeros."""
    x, weight = integers(problem.input_shape, "float32"), integers(problem.weight_shape, "float32")
    padded = np.pad(x, ((0, 0), (0, 0), *problem.padding))
    rest = (problem.dilation, problem.groups)
    inside = im2win.conv2d(x, weight, None, problem.stride, problem.padding, *rest)
    outside = im2win.conv2d(padded, weight, None, problem.stride, 0, *rest)
    np.testing.assert_array_equal(inside, outside)


@given(problem=problems())
def test_stride_takes_every_so_many_outputs(problem: Problem) -> None:
    x, weight = integers(problem.input_shape, "float32"), integers(problem.weight_shape, "float32")
    rest = (problem.padding, problem.dilation, problem.groups)
    dense = im2win.conv2d(x, weight, None, 1, *rest)
    strided = im2win.conv2d(x, weight, None, problem.stride, *rest)
    step_h, step_w = problem.stride
    np.testing.assert_array_equal(strided, dense[:, :, ::step_h, ::step_w])


@pytest.mark.parametrize("problem", PROBLEMS, ids=str)
def test_the_packages_reference_is_the_definition(problem: Problem) -> None:
    """im2win.reference and the tests' own, on integers, which both compute exactly."""
    x, weight = integers(problem.input_shape, "float64"), integers(problem.weight_shape, "float64")
    window = (problem.stride, problem.padding, problem.dilation, problem.groups)
    y = reference.conv2d(x, weight, None, *window)
    np.testing.assert_array_equal(y, convolution(x, weight, problem))
