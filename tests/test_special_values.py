"""NaN, infinities, zeros and denormals are treated as the definition says; same bits every time."""

from dataclasses import replace

import numpy as np
import pytest

import capi
from im2win import reference
from numerics import DTYPES, Array, assert_close, convolution, normal, tolerance
from problems import Problem, same
from targets import Target, all_targets

PROBLEM = Problem(n=3, c=4, h=6, w=8, k=10, padding=((1, 2), (2, 1)), groups=2)
TF32 = ("float32", "tf32")
LARGEST = np.finfo(np.float32).max


def definition(x: Array, weight: Array, problem: Problem) -> Array:
    """Of the taps inside the image alone, where convolution() multiplies zeros with the others."""
    with np.errstate(invalid="ignore", over="ignore"):
        return reference.conv2d(
            x, weight, None, problem.stride, problem.padding, problem.dilation, problem.groups
        )


def assert_same_kind(
    y: Array, x: Array, weight: Array, problem: Problem, math: str = "fp32"
) -> None:
    """NaN where the definition has NaN, infinities where it has those, and close elsewhere."""
    exact = definition(x, weight, problem)
    np.testing.assert_array_equal(np.isnan(y), np.isnan(exact))
    infinite = np.isinf(exact)
    np.testing.assert_array_equal(y[infinite], exact[infinite])
    finite = np.isfinite(exact)
    assert finite.any()
    assert not finite.all()
    tame_x, tame_weight = (np.where(np.isfinite(a), np.abs(a), 0) for a in (x, weight))
    magnitude = convolution(tame_x, tame_weight, problem)
    allowed = tolerance(
        exact[finite], magnitude[finite], y.dtype.name, "float32", problem.taps, math
    )
    assert_close(y[finite], exact[finite], allowed)


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("dilation", [(1, 1), (2, 2)])
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("target", all_targets())
def test_weights_on_padding_contribute_nothing(
    target: Target, dtype: str, dilation: tuple[int, int], value: float
) -> None:
    """0 * NaN and 0 * Inf must not arise where a tap lies outside the image."""
    problem = replace(PROBLEM, dilation=dilation)
    x, weight = normal(problem.input_shape, dtype), normal(problem.weight_shape, dtype)
    weight[2, 1, 0, 0] = weight[7, 0, 2, 2] = value
    y = target.run(problem, x, weight)
    assert_same_kind(y, x, weight, problem)


@pytest.mark.parametrize("k", [0, 77, 129])
@pytest.mark.parametrize("target", all_targets())
def test_one_weight_in_any_tile_of_filters(target: Target, k: int) -> None:
    """However the filters are cut into tiles, one of them holds a NaN and the others do not."""
    problem = Problem(c=2, h=4, w=4, k=130, padding=same(1))
    x, weight = normal(problem.input_shape, "float32"), normal(problem.weight_shape, "float32")
    weight[k, 1, 2, 2] = np.nan
    y = target.run(problem, x, weight)
    assert_same_kind(y, x, weight, problem)


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("target", all_targets())
def test_inputs_show_where_a_window_sees_them(target: Target, dtype: str, value: float) -> None:
    x, weight = normal(PROBLEM.input_shape, dtype), normal(PROBLEM.weight_shape, dtype)
    x[0, 1, 0, 0] = x[1, 2, 3, 4] = x[2, 3, -1, -1] = value
    y = target.run(PROBLEM, x, weight)
    assert_same_kind(y, x, weight, PROBLEM)


@pytest.mark.parametrize("value", [np.nan, np.inf])
@pytest.mark.parametrize("channels_last", [False, True])
@pytest.mark.parametrize(("dtype", "math"), [*((dtype, "fp32") for dtype in DTYPES), TF32])
@pytest.mark.parametrize("target", all_targets())
def test_many_filters_of_few_channels(
    target: Target, dtype: str, math: str, channels_last: bool, value: float
) -> None:
    """As in a first layer, at the edges and where a row ends amid what is multiplied at a time."""
    problem = Problem(n=2, h=17, w=61, k=72, r=5, s=5, padding=same(2))
    x, weight = normal(problem.input_shape, dtype), normal(problem.weight_shape, dtype)
    x[0, 1, 0, 0] = x[1, 2, 3, 40] = x[1, 0, -1, -1] = weight[5, 0, 0, 1] = value
    out = capi.poisoned(problem.output_shape, x.dtype)
    if channels_last:
        x, out = (
            np.ascontiguousarray(a.transpose(0, 2, 3, 1)).transpose(0, 3, 1, 2) for a in (x, out)
        )
    y = target.run(problem, x, weight, out=out, math=capi.MATHS[math])
    assert_same_kind(y, x, weight, problem, math)


@pytest.mark.parametrize("target", all_targets())
def test_zero_weights_do_not_hide_nan(target: Target) -> None:
    """0 * NaN is NaN inside the image; skipping zero weights would be wrong."""
    x, weight = normal(PROBLEM.input_shape, "float32"), np.zeros(PROBLEM.weight_shape, np.float32)
    x[1, 2, 3, 4] = np.nan
    y = target.run(PROBLEM, x, weight)
    np.testing.assert_array_equal(np.isnan(y), np.isnan(definition(x, weight, PROBLEM)))


@pytest.mark.parametrize("target", all_targets())
def test_nan_of_an_image_and_of_a_group_stays_there(target: Target) -> None:
    """Tiles of pixels span images: what one holds must not leak to another, to the last bit."""
    problem = Problem(n=3, c=4, h=5, w=5, k=6, groups=2, padding=same(1))
    x, weight = normal(problem.input_shape, "float32"), normal(problem.weight_shape, "float32")
    clean = target.run(problem, x, weight)
    x[1] = np.nan
    y = target.run(problem, x, weight)
    assert np.isnan(y[1]).all()
    assert y[[0, 2]].tobytes() == clean[[0, 2]].tobytes()
    x[0, :2] = np.inf
    y = target.run(problem, x, weight)
    assert not np.isfinite(y[0, :3]).any()
    assert y[0, 3:].tobytes() == clean[0, 3:].tobytes()


@pytest.mark.parametrize("target", all_targets())
def test_nan_amid_a_tile_leaves_its_other_outputs(target: Target) -> None:
    """In float64, where some lanes of a warp form their sums again while others write theirs."""
    problem = Problem(
        n=2, c=30, h=9, w=10, k=56, r=2, s=4, stride=(1, 2), padding=((0, 4), (1, 4)),
        dilation=(3, 3), groups=2,
    )  # fmt: skip
    x, weight = normal(problem.input_shape, "float64"), normal(problem.weight_shape, "float64")
    clean = target.run(problem, x, weight)
    x[0, 20] = np.nan
    y = target.run(problem, x, weight)
    assert np.isnan(y[0, 28:]).any()
    assert y[1].tobytes() == clean[1].tobytes()
    assert y[0, :28].tobytes() == clean[0, :28].tobytes()


@pytest.mark.parametrize("target", all_targets())
def test_overflow_makes_an_infinity_of_its_sign(target: Target) -> None:
    problem = Problem(c=2, h=1, w=2, k=2, r=1, s=1)
    x = np.array([LARGEST, -LARGEST, 1, -1], np.float32).reshape(problem.input_shape)
    weight = np.array([[1, 0], [2, 1]], np.float32).reshape(problem.weight_shape)
    y = target.run(problem, x, weight)
    expected = np.array([LARGEST, -LARGEST, np.inf, -np.inf], np.float32)
    np.testing.assert_array_equal(y.ravel(), expected)


@pytest.mark.parametrize("target", all_targets())
def test_denormals_are_not_flushed(target: Target) -> None:
    problem = Problem(n=2, c=3, h=5, w=6, k=4)
    rng = np.random.default_rng(1)
    smallest = np.float32(2.0**-149)
    x = rng.integers(-9, 10, problem.input_shape).astype(np.float32) * smallest
    weight = rng.integers(-9, 10, problem.weight_shape).astype(np.float32)
    for inputs, filters in ((x, weight), (x / smallest, weight * smallest)):
        y = target.run(problem, inputs, filters)
        np.testing.assert_array_equal(y, convolution(inputs, filters, problem).astype(np.float32))


@pytest.mark.parametrize("target", all_targets())
def test_zeros_of_either_sign(target: Target) -> None:
    x = np.copysign(np.float32(0), normal(PROBLEM.input_shape, "float32"))
    weight = normal(PROBLEM.weight_shape, "float32")
    bias = normal((PROBLEM.k,), "float32")
    y = target.run(PROBLEM, x, weight, bias=bias)
    np.testing.assert_array_equal(y, np.broadcast_to(bias[:, None, None], y.shape))
    assert not target.run(PROBLEM, x, weight).any()


@pytest.mark.parametrize("dtype", capi.DTYPE_CODES)
@pytest.mark.parametrize("target", all_targets())
def test_every_run_gives_the_same_bits(target: Target, dtype: str) -> None:
    problem = Problem(n=3, c=19, h=13, w=17, k=37, padding=same(1))
    x, weight = normal(problem.input_shape, dtype), normal(problem.weight_shape, dtype)
    first = target.run(problem, x, weight)
    for _ in range(3):
        assert target.run(problem, x, weight).tobytes() == first.tobytes()


@pytest.mark.parametrize("target", all_targets())
def test_threads_do_not_change_a_bit(target: Target) -> None:
    problem = Problem(n=2, c=19, h=13, w=17, k=37, padding=same(1))
    x, weight = normal(problem.input_shape, "float32"), normal(problem.weight_shape, "float32")
    alone = target.run(problem, x, weight, threads=1)
    for threads in (2, 3, 7):
        assert target.run(problem, x, weight, threads=threads).tobytes() == alone.tobytes()
