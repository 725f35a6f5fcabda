"""Winograd's algorithm: tiles and strips at every edge, and data on which it must not be used."""

from dataclasses import replace
from itertools import cycle
from typing import Any

import numpy as np
import pytest

import im2win
from capi import CPU
from numerics import (
    DTYPES,
    Array,
    assert_convolved,
    convolution,
    generator,
    integers,
    normal,
    strided,
)
from problems import Problem, around, same
from targets import Target

WINOGRAD = Target(CPU, "winograd")
PLAIN = Target(CPU, "im2win")

# Windows of pieces of 1, 2 and 3 taps, some of each, and of one along an axis.
WINDOWS = [
    ((1, 2), (1, 1)),
    ((3, 1), (1, 1)),
    ((1, 7), (1, 1)),
    ((2, 3), (1, 1)),
    ((4, 5), (1, 1)),
    ((5, 5), (1, 1)),
    ((9, 6), (1, 2)),
    ((3, 4), (2, 1)),
    ((4, 4), (2, 2)),
    ((7, 5), (2, 2)),
    ((5, 7), (3, 2)),
    ((4, 8), (3, 4)),
    ((11, 11), (4, 4)),
    ((3, 2), (2, 2)),
    ((16, 15), (1, 1)),
    ((16, 16), (16, 15)),
]
# Outputs of one tile and of many, of rows in one strip (up to 128 outputs) and in several, in
# images whose last tiles are whole and are not; channels of a block (16), of part of a sum (128).
EDGES = [
    *(Problem(n=2, c=5, h=h, w=w, k=7) for h in (3, 4, 5) for w in (3, 4, 5, 10)),
    *(Problem(c=2, h=5, w=w, k=3, padding=same(1)) for w in around(128, 256)),
    *(Problem(n=3, c=17, h=h, w=w, k=20, padding=same(1)) for h, w in [(7, 7), (9, 30), (14, 14)]),
    *(Problem(c=c, h=6, w=5, k=66, padding=((0, 1), (2, 0))) for c in around(16, 32, 128)),
    Problem(n=2, c=36, h=9, w=8, k=140, padding=same(2), groups=2),
    # With a stride tiles are of 5 x 5 inputs, four apart.
    *(Problem(n=2, c=5, h=h, w=w, k=7, stride=(2, 2)) for h in (3, 5, 6, 7) for w in (3, 7, 8, 9)),
    *(Problem(c=2, h=5, w=w, k=3, stride=(2, 2), padding=same(1)) for w in around(256, 512)),
    Problem(n=3, c=17, h=14, w=15, k=20, stride=(2, 2), padding=same(1)),
    Problem(n=2, c=130, h=9, w=7, k=66, stride=(2, 2), padding=((0, 1), (2, 0))),
    Problem(n=2, c=36, h=9, w=8, k=140, stride=(2, 2), padding=same(2), groups=2),
    *(
        Problem(n=2, c=c, h=r + 4 * u, w=s + 5 * v, k=20, r=r, s=s, stride=(u, v), padding=same(1))
        for ((r, s), (u, v)), c in zip(WINDOWS, cycle((5, 16, 19)), strict=False)
    ),
    # More entries of a point than one sum takes, in parts of the channels, whole or not.
    Problem(c=150, h=12, w=13, k=66, r=7, s=7, stride=(2, 2), padding=((0, 1), (2, 0))),
    Problem(n=2, c=36, h=9, w=28, k=140, r=5, s=5, padding=same(2), groups=2),
]
PROBLEM = Problem(n=2, c=32, h=20, w=30, k=70, padding=same(1))
STRIDED = replace(PROBLEM, h=40, w=59, stride=(2, 2))
# So few tiles that filters are transformed when they are needed; channels in more than one part.
FEW_TILES = replace(PROBLEM, c=140, h=16, w=24, stride=(2, 2))
FIVES = replace(PROBLEM, r=5, s=5, padding=same(2))
SEVENS = replace(STRIDED, r=7, s=7, padding=same(3))
EACH = pytest.mark.parametrize("problem", [PROBLEM, STRIDED, FEW_TILES, FIVES, SEVENS], ids=str)


def run(problem: Problem, x: Array, weight: Array, **options: Any) -> Array:
    y: Array = WINOGRAD.run(problem, x, weight, **options)
    return y


def data(problem: Problem, dtype: str = "float32") -> tuple[Array, Array]:
    return normal(problem.input_shape, dtype), normal(problem.weight_shape, dtype)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("layout", ["nchw", "nhwc", "apart"])
@pytest.mark.parametrize("problem", EDGES, ids=str)
def test_every_edge(problem: Problem, layout: str, dtype: str) -> None:
    """Quarters of small integers are exact, and so are their sums."""
    x, weight = integers(problem.input_shape, dtype), integers(problem.weight_shape, dtype)
    expected = convolution(x, weight, problem).astype(DTYPES[dtype])
    for filters in (weight, strided(weight, "nhwc"), strided(weight, "apart")):
        np.testing.assert_array_equal(run(problem, strided(x, layout), filters), expected)


@pytest.mark.parametrize("kind", ["gaussian", "uniform", "relu"])
@pytest.mark.parametrize("target", [WINOGRAD, PLAIN], ids=str)
@pytest.mark.parametrize(("taps", "stride"), [(3, 1), (3, 2), (5, 1), (7, 2)])
def test_errs_less_than_the_definition_in_float32(
    target: Target, kind: str, taps: int, stride: int
) -> None:
    """Both add up in parts, and one has fewer products to add."""
    h, w = 9 + taps, 11 + taps
    problem = Problem(c=128, h=h, w=w, k=10, r=taps, s=taps, stride=(stride, stride))
    x, weight = data(problem)
    if kind == "uniform":
        x, weight = (generator(a.shape).random(a.shape, np.float32) for a in (x, weight))
    elif kind == "relu":
        x = np.maximum(x, 0)
    exact = convolution(x, weight, problem)
    one_by_one = np.zeros_like(exact, np.float32)
    for c, r, s in np.ndindex(weight.shape[1:]):
        inputs = x[:, None, c, r : r + h - taps + 1 : stride, s : s + w - taps + 1 : stride]
        one_by_one += inputs * weight[:, c, r, s, None, None]
    errors = [np.linalg.norm(y - exact) for y in (target.run(problem, x, weight), one_by_one)]
    assert errors[0] < 0.9 * errors[1]


@pytest.mark.parametrize("scale", [1e3, 1e15, 1e30, 1e37])
@pytest.mark.parametrize("where", ["input", "weight"])
@pytest.mark.parametrize("dtype", ["float64", "float32", "bfloat16"])
@EACH
def test_a_value_that_stands_out(problem: Problem, dtype: str, where: str, scale: float) -> None:
    """Where it meets a factor near zero, the result is no less exact for its neighbours."""
    x, weight = data(problem, dtype)
    if where == "input":
        x[1, 3, 7, 11] = scale
        weight[:, 3, 1, 1] *= 1e-4
    else:
        weight[5, 3, 1, 2] = scale
        x[:, 3, ::2, ::2] *= 1e-4
    assert_convolved(run(problem, x, weight), x, weight, problem, "winograd")


@EACH
def test_magnitudes_over_forty_powers_of_two(problem: Problem) -> None:
    x, weight = data(problem)
    wide = np.exp2(generator("wide").uniform(-20, 20, x.shape)).astype(np.float32)
    assert_convolved(run(problem, x * wide, weight), x * wide, weight, problem, "winograd")
    wide = np.exp2(generator("wide").uniform(-20, 20, weight.shape)).astype(np.float32)
    assert_convolved(run(problem, x, weight * wide), x, weight * wide, problem, "winograd")


@EACH
def test_inputs_and_weights_over_twelve_powers_of_two(problem: Problem) -> None:
    """Even as either is, an output's products may all be small."""
    problem = replace(problem, n=3, c=9)
    x, weight = (
        a * np.exp2(generator(f"{a.shape}").integers(-6, 7, a.shape)).astype(np.float32)
        for a in data(problem)
    )
    assert_convolved(run(problem, x, weight), x, weight, problem, "winograd")


@pytest.mark.parametrize("channels", [4, 8, 40])
@pytest.mark.parametrize("taps", [2, 3, 5])
def test_outputs_whose_products_are_all_small(taps: int, channels: int) -> None:
    """Of few products all may be, where magnitudes lie far apart, or few are large."""
    problem = Problem(n=2, c=channels, h=taps + 4, w=taps + 5, k=2, r=taps, s=taps)
    for seed in range(40):
        rng = generator(taps, channels, seed)
        x, weight = (
            (rng.standard_normal(shape) * np.exp2(rng.integers(-6, 7, shape))).astype(np.float32)
            for shape in (problem.input_shape, problem.weight_shape)
        )
        assert_convolved(run(problem, x, weight), x, weight, problem, "winograd")
        x, weight = (np.where(rng.random(a.shape) < 0.1, a, a / 1024) for a in data(problem))
        assert_convolved(run(problem, x, weight), x, weight, problem, "winograd")


@pytest.mark.parametrize("taps", [3, 5])
def test_taps_of_which_one_is_large(taps: int) -> None:
    """Outputs at an image's edges see none but the others."""
    problem = Problem(n=2, c=128, h=9, w=10, k=16, r=taps, s=taps, padding=same(taps - 1))
    for row, column in np.ndindex(taps, taps):
        x, weight = data(problem)
        weight *= 1e-5
        weight[:, :, row, column] *= 1e5
        assert_convolved(run(problem, x, weight), x, weight, problem, "winograd")


@pytest.mark.parametrize("stride", [1, 2])
@pytest.mark.parametrize(
    ("taps", "padding"), [(3, 1), (3, 2), (3, 3), (5, 2), (5, 4), (7, 3), (7, 7)]
)
@pytest.mark.parametrize("channels", [2, 5, 40])
def test_windows_that_see_little_or_nothing(
    channels: int, taps: int, padding: int, stride: int
) -> None:
    """Their neighbours' roundings are no part of their few products, or of none."""
    problem = Problem(
        n=3,
        c=channels,
        h=15,
        w=18,
        k=88,
        r=taps,
        s=taps,
        padding=same(padding),
        stride=(stride, stride),
    )
    x, weight = data(problem)
    assert_convolved(run(problem, x, weight), x, weight, problem, "winograd")


@EACH
def test_filters_that_copy_their_input_copy_it_exactly(problem: Problem) -> None:
    x, weight = data(problem)
    weight[:] = 0
    (top, _), (left, _) = problem.padding
    for k in range(problem.k):
        weight[k, k % problem.c, top, left] = 1
    y = run(problem, x, weight)
    copied = x[:, np.arange(problem.k) % problem.c, :: problem.stride[0], :: problem.stride[1]]
    np.testing.assert_array_equal(y, copied)


@pytest.mark.parametrize(
    ("of_inputs", "of_weights"), [(-140, 40), (40, -140), (125, -125), (-125, 125), (60, 60)]
)
@EACH
def test_neither_overflows_nor_underflows_on_the_way(
    problem: Problem, of_inputs: int, of_weights: int
) -> None:
    """Sums of four inputs may, where the result does not, and half a weight lose its last bit."""
    x, weight = data(problem)
    x, weight = np.ldexp(x, of_inputs), np.ldexp(weight, of_weights)
    assert_convolved(run(problem, x, weight), x, weight, problem, "winograd")


def windows_with(problem: Problem, position: int) -> slice:
    """Along an axis, those that see a position."""
    taps, stride, (padding, _) = problem.r, problem.stride[0], problem.padding[0]
    return slice(-((taps - 1 - padding - position) // stride), (position + padding) // stride + 1)


@pytest.mark.parametrize("value", [np.nan, np.inf])
@pytest.mark.parametrize("padding", [same(0), same(1)])
@EACH
def test_what_is_not_finite_stays_in_its_windows(
    problem: Problem, padding: Any, value: float
) -> None:
    problem = replace(problem, padding=padding)
    x, weight = data(problem)
    clean = run(problem, x, weight)
    x[0, 9, 10, 12] = value
    y = run(problem, x, weight)
    seen = (slice(0, 1), slice(None), *(windows_with(problem, i) for i in (10, 12)))
    assert not np.isfinite(y[seen]).any()
    y[seen] = clean[seen]
    np.testing.assert_allclose(y, clean, rtol=1e-4, atol=1e-4)


@EACH
def test_the_same_bits_on_any_number_of_threads(problem: Problem) -> None:
    """With strips, and filters, of both kinds."""
    x, weight = data(problem)
    x[0, 0, 5, 5] = weight[69, 0, 0, 0] = 1e5
    alone = run(problem, x, weight, threads=1)
    for threads in (2, 3, 7, 64):
        assert run(problem, x, weight, threads=threads).tobytes() == alone.tobytes()


@pytest.mark.parametrize("layout", ["nchw", "nhwc"])
@EACH
def test_a_packed_filter_gives_the_same_bits(problem: Problem, layout: str) -> None:
    """It holds what filters, and inputs, that stand out are multiplied by."""
    x, weight = data(problem)
    x[0, 0, 5, 5] = weight[69, 0, 0, 0] = 1e5
    if layout == "nhwc":
        x, weight = (np.ascontiguousarray(a.transpose(0, 2, 3, 1)) for a in (x, weight))
    plan = im2win.Conv2dPlan(
        x.shape,
        weight.shape,
        layout=layout.upper(),
        stride=problem.stride,
        padding=problem.padding[0][0],
        algorithm="winograd",
    )
    assert plan.pack(weight)(x).tobytes() == plan(x, weight).tobytes()


@pytest.mark.parametrize(
    ("problem", "math", "algorithm"),
    [
        (Problem(n=4, c=64, h=56, w=56, k=64, padding=same(1)), "fp32", "winograd"),
        (Problem(n=4, c=64, h=56, w=56, k=64, padding=same(1)), "tf32", "winograd"),
        (Problem(n=4, c=64, h=56, w=56, k=64, padding=same(1)), "ieee", "im2win"),
        (Problem(n=4, c=3, h=56, w=56, k=64, padding=same(1)), "fp32", "im2win"),
        (Problem(c=512, h=7, w=7, k=512, padding=same(1)), "fp32", "winograd"),
        (Problem(c=512, h=7, w=7, k=512), "fp32", "im2win"),
        (Problem(c=128, h=56, w=56, k=128, stride=(2, 2), padding=same(1)), "fp32", "winograd"),
        (Problem(c=16, h=56, w=56, k=64, stride=(2, 2)), "fp32", "im2win"),
        (Problem(c=128, h=56, w=56, k=128, stride=(2, 1)), "fp32", "winograd"),
        (Problem(c=64, h=56, w=56, k=64, s=5), "fp32", "winograd"),
        (Problem(c=64, h=35, w=35, k=96, r=5, s=5, padding=same(2)), "fp32", "winograd"),
        (Problem(c=16, h=112, w=112, k=64, r=7, s=7, stride=(2, 2)), "fp32", "winograd"),
        (Problem(c=3, h=224, w=224, k=64, r=7, s=7, stride=(2, 2)), "fp32", "im2win"),
        (Problem(c=3, h=227, w=227, k=96, r=11, s=11, stride=(4, 4)), "fp32", "im2win"),
        (Problem(c=64, h=56, w=56, k=64, r=2, s=2, stride=(2, 2)), "fp32", "im2win"),
    ],
)
def test_is_chosen_where_it_saves_time(problem: Problem, math: str, algorithm: str) -> None:
    plan = im2win.Conv2dPlan(
        problem.input_shape,
        problem.weight_shape,
        stride=problem.stride,
        padding=problem.padding,
        math=math,
    )
    assert plan.algorithm == algorithm
