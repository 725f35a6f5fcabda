"""A plan that holds its weight: the same bits as the plan, whatever becomes of the weight."""

import gc
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import capi
import im2win
from capi import CPU
from frameworks import arrays, to_torch
from numerics import Array, assert_convolved, normal
from problems import GEOMETRY, GROUPS, Problem, same
from targets import Target, all_targets

PROBLEM = Problem(n=3, c=6, h=9, w=8, k=10, stride=(2, 1), padding=same(1), groups=2)
PROBLEMS = [
    *(p for p in (*GEOMETRY, *GROUPS) if p.n and max(p.stride + p.dilation) < 100),
    Problem(c=3, k=209),
]


def new_plan(problem: Problem = PROBLEM, **options: Any) -> im2win.Conv2dPlan:
    names = ("stride", "padding", "dilation", "groups")
    geometry = {name: getattr(problem, name) for name in names}
    return im2win.Conv2dPlan(problem.input_shape, problem.weight_shape, **geometry, **options)


def on_device(target: Target, array: Array) -> Any:
    return array if target.device == CPU else im2win.DeviceArray.from_numpy(array)


def to_host(y: Any) -> Array:
    array: Array = y if isinstance(y, np.ndarray) else y.numpy()
    return array


@pytest.mark.parametrize("problem", PROBLEMS, ids=str)
@pytest.mark.parametrize("dtype", ["float32", "float16"])
@pytest.mark.parametrize("target", all_targets())
def test_the_same_bits_as_the_plan(target: Target, dtype: str, problem: Problem) -> None:
    if not target.takes(problem, dtype):
        pytest.skip("refused")
    plan = new_plan(problem, dtype=dtype, device=target.device_name, algorithm=target.algorithm)
    x, weight = (on_device(target, array) for array in arrays(problem, dtype))
    packed = plan.pack(weight)
    assert packed.algorithm == plan.algorithm
    assert packed.output_shape == plan.output_shape
    assert packed.workspace_bytes <= plan.workspace_bytes
    assert to_host(packed(x)).tobytes() == to_host(plan(x, weight)).tobytes()


def is_packed(plan: im2win.Conv2dPlan, weight: Array) -> bool:
    return plan.pack(weight)._weight.tensor is not weight


def test_the_weight_may_change_and_go() -> None:
    plan, (x, weight) = new_plan(algorithm="im2win"), arrays(PROBLEM, "float32")
    assert is_packed(plan, weight)
    expected = plan(x, weight).tobytes()
    packed = plan.pack(weight)
    weight.fill(np.nan)
    del weight
    gc.collect()
    assert packed(x).tobytes() == expected


def test_a_weight_that_is_taken_as_it_is_is_kept() -> None:
    plan, (x, weight) = new_plan(algorithm="direct"), arrays(PROBLEM, "float32")
    assert not is_packed(plan, weight)
    expected = plan(x, weight).tobytes()
    packed = plan.pack(weight)
    del weight
    gc.collect()
    assert packed(x).tobytes() == expected


def test_bias_residual_out_and_torch() -> None:
    torch = pytest.importorskip("torch")
    x, weight = (to_torch(array) for array in arrays(PROBLEM, "float32"))
    bias, residual = torch.arange(10.0), torch.ones(PROBLEM.output_shape)
    plan = new_plan(bias=True, residual=True, activation="relu", alpha=2.0)
    packed = plan.pack(weight)
    y = packed(x, bias, residual)
    assert torch.equal(y, plan(x, weight, bias, residual))
    assert packed(x, bias, residual, out=residual) is residual
    assert torch.equal(y, residual)


def test_a_weight_of_other_strides() -> None:
    x, weight = arrays(PROBLEM, "float32")
    expected = new_plan()(x, weight)
    backwards = weight[:, :, ::-1, ::-1].copy()[:, :, ::-1, ::-1]
    for lying in (np.asfortranarray(weight), backwards):
        assert new_plan().pack(lying)(x).tobytes() == expected.tobytes()


def test_a_workspace_limit_keeps_algorithm_and_bits() -> None:
    """The batch may be split, and its parts pack the weight in ways of their own."""
    x, weight = arrays(PROBLEM, "float32")
    whole = new_plan().workspace_bytes
    for limit in (whole, whole * 3 // 4, whole // 2, whole // 4, 0):
        plan = new_plan(workspace_limit=limit)
        packed = plan.pack(weight)
        assert packed.algorithm == plan.algorithm
        y = packed(x)
        assert y.tobytes() == plan(x, weight).tobytes()
        assert_convolved(y, x, weight, PROBLEM)


def test_tensors_must_be_those_of_the_plan() -> None:
    plan, (x, weight) = new_plan(), arrays(PROBLEM, "float32")
    with pytest.raises(ValueError, match="weight has shape"):
        plan.pack(weight[:5])
    with pytest.raises(TypeError, match="weight has dtype float64"):
        plan.pack(weight.astype(np.float64))
    with pytest.raises(TypeError, match="weight is a NoneType"):
        plan.pack(None)
    packed = plan.pack(weight)
    out = capi.poisoned(PROBLEM.output_shape, x.dtype)
    with pytest.raises(ValueError, match="input has shape"):
        packed(x[:1], out=out)
    with pytest.raises(ValueError, match="bias is given, not planned"):
        packed(x, normal((PROBLEM.k,), "float32"), out=out)
    assert (out.view(np.uint8) == capi.POISON).all()


def test_threads_share_it() -> None:
    plan, (x, weight) = new_plan(), arrays(PROBLEM, "float32")
    packed, expected = plan.pack(weight), plan(x, weight).tobytes()
    with ThreadPoolExecutor(8) as pool:
        results = list(pool.map(lambda _: packed(x).tobytes(), range(64)))
    assert all(result == expected for result in results)


def test_an_empty_batch() -> None:
    problem = replace(PROBLEM, n=0)
    x, weight = arrays(problem, "float32")
    assert new_plan(problem).pack(weight)(x).shape == problem.output_shape
