"""A workspace limit is kept by splitting the batch, with the same results."""

from dataclasses import replace

import numpy as np
import pytest

import capi
import im2win
from numerics import convolution, integers
from problems import Problem
from targets import Target, all_targets

# Per image, the im2win tensor is much larger than the packed filter, which parts need twice.
PROBLEM = Problem(n=7, c=4, h=40, w=41, k=5, padding=((1, 1), (0, 2)))
# One call's filter need not be packed as a whole, but that of many parts is.
FEW_PIXELS = Problem(n=7, c=40, h=4, w=4, k=30)


def needed(target: Target, problem: Problem) -> int:
    if not target.takes(problem):
        pytest.skip(f"{target} does not take {problem}")
    plan = capi.create_plan(capi.descriptor(problem), target.device, target.algorithm, threads=1)
    return capi.workspace_bytes(plan)


@pytest.mark.parametrize("share", [0.95, 0.7, 0.45, 0.3])
@pytest.mark.parametrize("target", all_targets())
def test_parts_of_a_batch_are_the_whole(target: Target, share: float) -> None:
    """In place, as each part must find the residual of its own images."""
    whole, single = needed(target, PROBLEM), needed(target, replace(PROBLEM, n=1))
    limit = max(int(whole * share), 2 * single)
    x, weight = integers(PROBLEM.input_shape, "float32"), integers(PROBLEM.weight_shape, "float32")
    bias = integers((PROBLEM.k,), "float32")
    out = integers(PROBLEM.output_shape, "float32", "residual")
    y = target.run(
        PROBLEM, x, weight, bias=bias, residual=out, out=out, threads=1, workspace_limit=limit
    )
    expected = convolution(x, weight, PROBLEM) + out + bias[:, None, None]
    np.testing.assert_array_equal(y, expected.astype(np.float32))


@pytest.mark.parametrize("target", all_targets())
def test_the_limit_is_kept_or_refused(target: Target) -> None:
    whole, single = needed(target, PROBLEM), needed(target, replace(PROBLEM, n=1))
    desc = capi.descriptor(PROBLEM)
    for limit in (2 * single, whole // 2, whole - 1, whole):
        if limit >= 2 * single:
            plan = capi.create_plan(desc, target.device, target.algorithm, 1, limit)
            assert capi.workspace_bytes(plan) <= limit
    # A packed filter may be larger for one image than for all.
    too_little = min(single, whole) // 2
    if too_little > 0:
        with pytest.raises(im2win.Im2winError, match=f"limit_bytes is {too_little}: .* needs"):
            capi.create_plan(desc, target.device, target.algorithm, 1, too_little)


@pytest.mark.parametrize("problem", [PROBLEM, FEW_PIXELS], ids=str)
@pytest.mark.parametrize("target", all_targets())
def test_a_refusal_names_the_least_that_will_do(target: Target, problem: Problem) -> None:
    if needed(target, replace(problem, n=1)) == 0:
        pytest.skip(f"{target} needs none")
    desc = capi.descriptor(problem)
    with pytest.raises(im2win.Im2winError) as refused:
        capi.create_plan(desc, target.device, target.algorithm, 1, 0)
    least = int(str(refused.value).split(" needs ")[1].split()[0])
    plan = capi.create_plan(desc, target.device, target.algorithm, 1, least)
    assert capi.workspace_bytes(plan) <= least
    with pytest.raises(im2win.Im2winError, match=f"limit_bytes is {least - 1}: .* needs {least}"):
        capi.create_plan(desc, target.device, target.algorithm, 1, least - 1)
