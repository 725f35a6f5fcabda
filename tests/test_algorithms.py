"""Every algorithm on every problem that it takes: right everywhere, and writing nowhere else.

The algorithms are those that the library lists: a new one is tested by being there. Outputs are
poisoned and guarded by capi.run.
"""

import numpy as np
import pytest

import capi
from im2win.layers import LAYERS, Layer
from numerics import Expected, assert_convolved, convolution, integers, normal
from problems import PROBLEMS, SMALL, Problem, full_size
from targets import CUDA, TARGETS, Target, accepted, all_targets


@pytest.mark.parametrize(("target", "problem", "dtype"), accepted(PROBLEMS))
def test_random_data_within_the_error_bound(target: Target, problem: Problem, dtype: str) -> None:
    x = normal(problem.input_shape, dtype)
    weight = normal(problem.weight_shape, dtype)
    y = target.run(problem, x, weight)
    assert_convolved(y, x, weight, problem, target.algorithm)


@pytest.mark.parametrize(("target", "problem", "dtype"), accepted(PROBLEMS))
def test_integers_exactly(target: Target, problem: Problem, dtype: str) -> None:
    x = integers(problem.input_shape, dtype)
    weight = integers(problem.weight_shape, dtype)
    y = target.run(problem, x, weight)
    np.testing.assert_array_equal(y, convolution(x, weight, problem).astype(dtype))


@pytest.mark.parametrize("math", capi.MATHS)
@pytest.mark.parametrize("target", all_targets())
def test_math_modes_keep_their_error_bounds(target: Target, math: str) -> None:
    """Data of one sign, whose roundings cannot hide behind cancellation."""
    problem = Problem(n=2, c=37, h=9, w=9, k=33, padding=((1, 1), (1, 1)))
    mode = capi.MATHS[math]
    x = np.abs(normal(problem.input_shape, "float32"))
    weight = np.abs(normal(problem.weight_shape, "float32"))
    y = target.run(problem, x, weight, math=mode)
    assert_convolved(y, x, weight, problem, target.algorithm, math)


@pytest.mark.parametrize("scale", [2.0**-60, 2.0**60])
@pytest.mark.parametrize("target", all_targets())
def test_scale_of_the_data_does_not_matter(target: Target, scale: float) -> None:
    """Each channel has a scale of its own, and the weights the opposite one."""
    problem = Problem(n=2, c=16, h=8, w=8, k=24)
    scales = np.where(np.arange(problem.c) % 2, np.float32(scale), np.float32(1))[:, None, None]
    x = normal(problem.input_shape, "float32") * scales
    weight = normal(problem.weight_shape, "float32") / scales
    y = target.run(problem, x, weight)
    assert_convolved(y, x, weight, problem, target.algorithm)


@pytest.mark.parametrize("shift", [4, 8, 20])
@pytest.mark.parametrize("target", all_targets())
def test_tensors_need_no_more_alignment_than_an_element(target: Target, shift: int) -> None:
    """Vector loads must look at addresses, not only at sizes."""
    problem = Problem(n=2, c=8, h=8, w=16, k=32)
    x, weight = normal(problem.input_shape, "float32"), normal(problem.weight_shape, "float32")
    y = target.run(problem, x, weight, shift=shift)
    assert_convolved(y, x, weight, problem, target.algorithm)


@pytest.mark.parametrize("problem", SMALL, ids=str)
@pytest.mark.parametrize("dtype", capi.DTYPE_CODES)
def test_direct_takes_everything(problem: Problem, dtype: str) -> None:
    targets = [target for target in TARGETS if target.algorithm == "direct"]
    assert targets
    for target in targets:
        assert target.takes(problem, dtype)


@pytest.mark.gpu
@pytest.mark.parametrize("layer", LAYERS, ids=[layer.name for layer in LAYERS])
def test_layers_at_full_size(layer: Layer) -> None:
    """On the GPU, where they take no time; on the CPU `im2win bench` checks them."""
    problem = full_size(layer, batch=2)
    x, weight = normal(problem.input_shape, "float32"), normal(problem.weight_shape, "float32")
    expected = Expected(x, weight, problem)
    for target in TARGETS:
        if target.device == CUDA and target.takes(problem):
            expected.check(target.run(problem, x, weight), target.algorithm)
