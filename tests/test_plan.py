"""Plans: what they tell, the workspace limit, the cache of conv2d, threads and lifetimes."""

import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

import capi
import im2win
from im2win import _dispatch
from im2win._library import check, ffi, lib
from numerics import Array, assert_convolved, normal
from problems import PROBLEMS, Problem, same
from targets import CUDA, DEVICES, TARGETS

PROBLEM = Problem(n=2, c=6, h=9, w=8, k=10, stride=(2, 1), padding=same(1), groups=2)


def new_plan(problem: Problem = PROBLEM, **options: object) -> im2win.Conv2dPlan:
    return im2win.Conv2dPlan(
        problem.input_shape,
        problem.weight_shape,
        stride=problem.stride,
        padding=problem.padding,
        dilation=problem.dilation,
        groups=problem.groups,
        **options,  # type: ignore[arg-type]
    )


def data(problem: Problem = PROBLEM) -> tuple[Array, Array]:
    return normal(problem.input_shape, "float32"), normal(problem.weight_shape, "float32")


def test_attributes_and_call() -> None:
    plan = new_plan()
    assert plan.output_shape == PROBLEM.output_shape
    assert plan.algorithm in im2win.algorithms("cpu")
    assert plan.workspace_bytes >= 0
    x, weight = data()
    y = plan(x, weight)
    assert_convolved(y, x, weight, PROBLEM)
    out = capi.poisoned(PROBLEM.output_shape, x.dtype)
    assert plan(x, weight, out=out) is out
    assert out.tobytes() == y.tobytes()


@pytest.mark.parametrize("device", DEVICES)
def test_algorithms_are_taken_or_refused_with_a_reason(device: str) -> None:
    plan = new_plan(device=device, dtype="float16")
    reasons = plan.algorithms()
    assert tuple(reasons) == im2win.algorithms(device)
    assert list(reasons)[-1] == "direct"
    assert reasons["direct"] is None
    for name, reason in reasons.items():
        if reason is None:
            assert new_plan(device=device, dtype="float16", algorithm=name).algorithm == name
        else:
            assert name in reason
            with pytest.raises(im2win.Im2winError, match=name):
                new_plan(device=device, dtype="float16", algorithm=name)


@pytest.mark.parametrize("device", DEVICES)
def test_workspace_limit_is_a_hard_cap(device: str) -> None:
    needs = set()
    for name, refusal in new_plan(device=device).algorithms().items():
        if refusal is None:
            needs.add(new_plan(device=device, algorithm=name).workspace_bytes)
    for limit in {0, *needs, *(need - 1 for need in needs if need)}:
        assert new_plan(device=device, workspace_limit=limit).workspace_bytes <= limit
    largest = max(needs)
    best = new_plan(device=device)
    assert new_plan(device=device, workspace_limit=largest).algorithm == best.algorithm


def test_the_limit_keeps_the_result_right() -> None:
    x, weight = data()
    options = {"stride": PROBLEM.stride, "padding": PROBLEM.padding, "groups": PROBLEM.groups}
    y = im2win.conv2d(x, weight, workspace_limit=0, **options)  # type: ignore[arg-type]
    assert_convolved(y, x, weight, PROBLEM)


@pytest.mark.parametrize("device", DEVICES)
def test_the_choice_is_the_same_every_time(device: str) -> None:
    problems = [problem for problem in PROBLEMS if problem.n]
    first, second = ([new_plan(p, device=device).algorithm for p in problems] for _ in range(2))
    assert first == second


def test_tensors_must_be_those_of_the_plan() -> None:
    plan = new_plan()
    x, weight = data()
    bias = np.zeros(PROBLEM.k, np.float32)
    wrong: list[tuple[tuple[Array, ...], type[Exception], str]] = [
        ((x[:1], weight), ValueError, "input has shape"),
        ((x, weight[:5]), ValueError, "weight has shape"),
        ((x.astype(np.float64), weight), TypeError, "input has dtype float64"),
        ((np.asfortranarray(x), weight), ValueError, "input has strides"),
        ((x, weight, bias), ValueError, "bias"),
    ]
    for tensors, error, message in wrong:
        out = capi.poisoned(PROBLEM.output_shape, x.dtype)
        with pytest.raises(error, match=message):
            plan(*tensors, out=out)
        assert (out.view(np.uint8) == capi.POISON).all()
    with pytest.raises(ValueError, match="bias is missing"):
        new_plan(bias=True)(x, weight)
    with pytest.raises(ValueError, match="out has shape"):
        plan(x, weight, out=np.zeros((2, 10, 5, 7), np.float32))


def test_bias_residual_and_threads() -> None:
    x, weight = data()
    bias = normal((PROBLEM.k,), "float32")
    residual = normal(PROBLEM.output_shape, "float32")
    plan = new_plan(bias=True, residual=True, activation="relu", threads=2)
    y = plan(x, weight, bias, residual)
    options = {"stride": PROBLEM.stride, "padding": PROBLEM.padding, "groups": PROBLEM.groups}
    expected = im2win.conv2d(
        x,
        weight,
        bias,
        residual=residual,
        activation="relu",
        **options,  # type: ignore[arg-type]
    )
    assert y.tobytes() == expected.tobytes()


def test_the_cache_is_bounded() -> None:
    """A server that sees ever new sizes must not grow for ever."""
    weight = np.ones((1, 1, 1, 1), np.float32)
    bound = _dispatch.plan_for.cache_info().maxsize
    assert bound is not None
    for width in range(1, bound + 200):
        im2win.conv2d(np.ones((1, 1, 1, width), np.float32), weight)
    assert _dispatch.plan_for.cache_info().currsize <= bound


def test_equal_problems_share_a_plan() -> None:
    x, weight = data()
    options = {"stride": [2, 1], "padding": [[1, 1], [1, 1]], "groups": 2}  # lists do not hash
    im2win.conv2d(x, weight, **options)  # type: ignore[arg-type]
    before = _dispatch.plan_for.cache_info()
    im2win.conv2d(x.copy(), weight.copy(), **options)  # type: ignore[arg-type]
    after = _dispatch.plan_for.cache_info()
    assert (after.hits, after.misses) == (before.hits + 1, before.misses)


def test_sixteen_threads() -> None:
    """One plan for all of them, and conv2d with a cache that all of them fill."""
    plan, (x, weight) = new_plan(), data()
    expected = plan(x, weight).tobytes()
    problems = [Problem(c=2, h=5, w=5 + width, k=5) for width in range(24)]
    tensors = [data(problem) for problem in problems]
    alone = [im2win.conv2d(*pair).tobytes() for pair in tensors]
    _dispatch.plan_for.cache_clear()

    def work(thread: int) -> None:
        for i in range(len(problems)):
            index = (i + 5 * thread) % len(problems)
            assert im2win.conv2d(*tensors[index]).tobytes() == alone[index]
            assert plan(x, weight).tobytes() == expected

    with ThreadPoolExecutor(16) as pool:
        for done in [pool.submit(work, thread) for thread in range(16)]:
            done.result()


@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="needs /proc")
def test_ten_thousand_plans_leave_nothing_behind() -> None:
    desc, options = capi.descriptor(PROBLEM), capi.plan_options(capi.CPU)
    plan = ffi.new("im2win_plan **")

    def resident() -> int:
        pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
        return pages * os.sysconf("SC_PAGE_SIZE")

    def create_and_destroy(count: int) -> None:
        for _ in range(count):
            check(lib.im2win_plan_create(desc, options, plan))
            lib.im2win_plan_destroy(plan[0])

    create_and_destroy(100)
    before = resident()
    create_and_destroy(10_000)
    # AddressSanitizer keeps what was freed for a while.
    if "libasan" not in Path("/proc/self/maps").read_text(encoding="ascii", errors="replace"):
        assert resident() - before < 4 * 2**20  # a plan is about a kilobyte


@pytest.mark.gpu
def test_calls_in_a_row_do_not_share_a_workspace() -> None:
    """All are enqueued before the first is waited for."""
    x, weight = data()
    arrays = [im2win.DeviceArray.from_numpy(array) for array in (x, weight)]
    for target in TARGETS:
        if target.device == CUDA and target.takes(PROBLEM):
            plan = new_plan(device="cuda", algorithm=target.algorithm)
            pending = [plan(*arrays) for _ in range(3)]
            results = [each.numpy() for each in pending]
            assert_convolved(results[0], x, weight, PROBLEM, target.algorithm)
            assert all(result.tobytes() == results[0].tobytes() for result in results)
