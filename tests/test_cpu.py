"""What only the CPU backend has: instruction sets, panels, threads that share filters, streamed
outputs, and kernels that write some layouts themselves.
"""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import capi
import im2win
from capi import CPU
from im2win._library import lib
from numerics import (
    DTYPES,
    ROUNDOFF,
    Array,
    assert_close,
    assert_convolved,
    convolution,
    integers,
    normal,
    strided,
    tolerance,
)
from problems import FILTER_EDGES, GEOMETRY, PIXEL_EDGES, Problem, around, same
from targets import TARGETS, Target

CPU_TARGETS = [pytest.param(t, id=t.algorithm) for t in TARGETS if t.device == CPU]
IM2WIN = Target(CPU, "im2win")

DENSE = Problem(n=2, c=6, h=7, w=9, k=40, padding=((1, 0), (2, 1)), stride=(1, 2), groups=2)
DEPTHWISE = Problem(n=2, c=33, h=9, w=12, k=33, padding=same(1), groups=33)
SMALL_PLANES = replace(DEPTHWISE, h=5, w=6)  # by channels in every layout

# Channels on two, and on all, of the sides of what a panel, a tile or a part of the taps holds.
MANY_TAPS = [
    Problem(n=2, c=c, h=4, w=5, k=k, padding=same(1)) for c, k in [(56, 64), (57, 65), (600, 3)]
]

# Pixels on both sides of how many are few, and filters in more than one part.
FEW_PIXELS = [
    *(Problem(c=116, h=1, w=w, k=130, padding=same(1)) for w in (239, 240, 241)),
    Problem(n=3, c=240, h=9, w=8, k=150, padding=((1, 0), (0, 1)), groups=2),
    Problem(n=2, c=115, h=9, w=8, k=5),
]

# More planes, of a page or two in float32, than are read in place, and as many as are.
PAGES = [
    Problem(n=2, c=257, h=32, w=32, k=20, r=1, s=1),
    Problem(c=256, h=32, w=32, k=20, r=1, s=1),
    Problem(c=260, h=32, w=64, k=34, r=2, stride=(3, 2), dilation=(2, 3)),
]

# Rows as long as a register tile, or a task's piece of them, is wide, planes that are one row, and
# filters of a register tile (6) and fewer: along planes in NCHW, in float32 and float64.
PLANES = [
    *(Problem(n=2, c=2, h=3, w=w, k=7, s=1) for w in around(64, 128, 192)),
    *(Problem(c=2, h=5, w=16, k=k, r=1, s=1) for k in (5, 6, 7, 9, 16)),
    Problem(n=2, c=6, h=9, w=70, k=22, stride=(2, 1), dilation=(2, 3), groups=2),
    Problem(c=21, h=4, w=66, k=8),
    Problem(c=22, h=4, w=66, k=8),  # too many taps
    *(Problem(n=2, c=200, h=5, w=16, k=k, r=1, s=1) for k in (2, 3, 4, 5)),
]

# Groups of which a vector has several, in the last one too, with either stride along the row.
GROUPS = [
    Problem(n=2, c=64, h=6, w=5, k=64, groups=32, padding=same(1)),
    Problem(c=72, h=5, w=9, k=72, groups=9, padding=((2, 1), (0, 3)), stride=(1, 2)),
    Problem(n=2, c=68, h=9, w=12, k=68, groups=17, r=2, stride=(3, 1), dilation=(2, 1)),
    Problem(c=24, h=4, w=7, k=24, groups=3, padding=same(1)),
    Problem(c=64, h=4, w=3, k=64, groups=16, padding=((0, 0), (1, 1))),
]

# Few pixels, or few filters, as dot products along the taps: parts of vectors and of tiles.
DOTS = [
    Problem(c=70, h=1, w=1, k=9, r=1, s=1),
    Problem(n=2, c=260, h=1, w=1, k=134, r=1, s=1, groups=2),
    Problem(c=7, h=3, w=5, k=5, s=5),
    Problem(c=30, h=4, w=3, k=70, r=2, stride=(2, 1)),
    Problem(n=2, c=33, h=9, w=5, k=3, stride=(4, 1), dilation=(2, 2)),
    Problem(n=2, c=70, h=5, w=9, k=2, r=1, s=1),
    Problem(c=37, h=6, w=13, k=1, r=1, s=1),
    Problem(n=2, c=140, h=3, w=11, k=4, r=1, s=1),
]

# Along padded planes that strides cut into phases, some without a row or column of the image.
PHASES = [
    Problem(n=2, c=3, h=17, w=18, k=24, stride=(2, 2), padding=same(1)),
    Problem(c=6, h=23, w=9, k=15, r=4, s=5, stride=(3, 2), padding=((0, 5), (3, 1)), groups=3),
    Problem(c=2, h=12, w=70, k=5, r=2, s=3, stride=(1, 2), dilation=(3, 2)),
    Problem(c=1, h=2, w=2, k=3, r=5, s=5, stride=(4, 3), padding=((6, 7), (8, 4))),
]

# Rows that are fewer than threads, whose parts are padded or not, or see nothing but padding; and
# planes of few pieces, whose filters are shared out, of an odd number the last ones summed again.
PARTS = [
    Problem(c=3, h=1, w=700, k=20, r=1, s=16, padding=((0, 0), (8, 7))),
    Problem(c=40, h=1, w=1030, k=33, r=1, s=5, padding=((0, 0), (3, 0))),
    Problem(c=200, h=1, w=1111, k=5, r=1, s=7, dilation=(1, 5)),
    Problem(c=5, h=3, w=1400, k=70, stride=(1, 2), padding=((0, 0), (1, 1))),
    Problem(c=3, h=1, w=20, k=9, r=1, padding=((0, 0), (600, 600))),
    *(Problem(c=21, h=8, w=8, k=k, r=1, s=1) for k in (13, 61, 64)),
]


def run(problem: Problem, x: Array, weight: Array, layouts: tuple[str, str], **options: Any) -> Any:
    """By im2win, with the input and the output in these layouts."""
    out = strided(capi.poisoned(problem.output_shape, x.dtype), layouts[1])
    return IM2WIN.run(problem, strided(x, layouts[0]), weight, out=out, **options)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("output", ["nchw", "nhwc", "apart"])
@pytest.mark.parametrize("layout", ["nchw", "nhwc", "apart"])
@pytest.mark.parametrize("problem", [DENSE, DEPTHWISE, SMALL_PLANES], ids=str)
@pytest.mark.parametrize("target", CPU_TARGETS)
def test_bias_and_bounds_once_in_every_layout(
    target: Target, problem: Problem, layout: str, output: str, dtype: str
) -> None:
    """Kernels add them where they write the output themselves, the general writer elsewhere."""
    x, weight = normal(problem.input_shape, dtype), normal(problem.weight_shape, dtype)
    bias = normal((problem.k,), dtype)
    out = strided(capi.poisoned(problem.output_shape, x.dtype), output)
    y = target.run(
        problem, strided(x, layout), weight, bias=bias, out=out, activation=lib.IM2WIN_RELU
    )
    sums = convolution(x, weight, problem) + bias.astype(np.float64)[:, None, None]
    magnitude = convolution(np.abs(x), np.abs(weight), problem) + 3
    accumulator = "float64" if dtype == "float64" else "float32"
    allowed = tolerance(sums, magnitude, dtype, accumulator, problem.taps)
    assert_close(y, np.maximum(sums, 0), allowed)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("isa", ["baseline", "avx2", "avx512", "avx512_bf16"])
def test_every_instruction_set(isa: str, dtype: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each has tiles of its own size, so that all tile edges are other ones."""
    monkeypatch.setenv("IM2WIN_CPU_ISA", isa)
    try:
        description = im2win.info().devices["cpu"]
    except ValueError as unknown:
        pytest.skip(str(unknown))
    if f", {isa}," not in description:
        pytest.skip(f"this machine has no {isa}: {description}")
    for problem in [*FILTER_EDGES, *PIXEL_EDGES, *GEOMETRY, *GROUPS, *DOTS, *PHASES]:
        x, weight = normal(problem.input_shape, dtype), normal(problem.weight_shape, dtype)
        for layouts in (("nchw", "nchw"), ("nhwc", "nhwc")):
            y = run(problem, x, weight, layouts)
            assert_convolved(y, x, weight, problem, "im2win")


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("layout", ["nchw", "nhwc"])
@pytest.mark.parametrize("problem", MANY_TAPS + PAGES, ids=str)
def test_taps_by_parts(problem: Problem, layout: str, dtype: str) -> None:
    x, weight = integers(problem.input_shape, dtype), integers(problem.weight_shape, dtype)
    y = run(problem, x, weight, (layout, layout))
    np.testing.assert_array_equal(y, convolution(x, weight, problem).astype(DTYPES[dtype]))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("layout", ["nchw", "nhwc"])
@pytest.mark.parametrize("problem", FEW_PIXELS, ids=str)
def test_filters_packed_as_they_are_needed(problem: Problem, layout: str, dtype: str) -> None:
    """Or beforehand, which eight threads do: the bits are the same."""
    x = normal(problem.input_shape, dtype)
    weight = strided(normal(problem.weight_shape, dtype), layout)
    beforehand = run(problem, x, weight, (layout, layout), threads=8)
    assert_convolved(beforehand, x, weight, problem, "im2win")
    for threads in (1, 2, 3):
        y = run(problem, x, weight, (layout, layout), threads=threads)
        assert y.tobytes() == beforehand.tobytes()


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("layout", ["nchw", "nhwc", "apart"])
@pytest.mark.parametrize("problem", PLANES + GROUPS + DOTS + PHASES, ids=str)
def test_forms(problem: Problem, layout: str, dtype: str) -> None:
    """Whether filters lie side by side or not, and whoever takes a piece."""
    x, weight = integers(problem.input_shape, dtype), integers(problem.weight_shape, dtype)
    expected = convolution(x, weight, problem).astype(DTYPES[dtype])
    for filters in (weight, strided(weight, "nhwc"), strided(weight, "apart")):
        np.testing.assert_array_equal(run(problem, x, filters, (layout, layout)), expected)
    x, weight = normal(problem.input_shape, dtype), normal(problem.weight_shape, dtype)
    alone = run(problem, x, weight, (layout, layout), threads=1)
    assert run(problem, x, weight, (layout, layout), threads=3).tobytes() == alone.tobytes()


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("layout", ["nchw", "nhwc", "apart"])
@pytest.mark.parametrize("problem", PARTS, ids=str)
def test_threads_share_rows_and_planes_out(problem: Problem, layout: str, dtype: str) -> None:
    """With a residual and a bias, too: the bits are those of a thread alone."""
    x, weight = normal(problem.input_shape, dtype), normal(problem.weight_shape, dtype)
    ends = {
        "bias": normal((problem.k,), dtype),
        "residual": strided(normal(problem.output_shape, dtype), layout),
    }
    alone = run(problem, x, weight, (layout, layout), threads=1)
    finished = run(problem, x, weight, (layout, layout), threads=1, **ends)
    assert_convolved(alone, x, weight, problem, "im2win")
    for threads in (2, 3, 16):
        y = run(problem, x, weight, (layout, layout), threads=threads)
        assert y.tobytes() == alone.tobytes()
        y = run(problem, x, weight, (layout, layout), threads=threads, **ends)
        assert y.tobytes() == finished.tobytes()


@pytest.mark.parametrize("layout", ["nchw", "nhwc"])
def test_threads_share_filters_where_rows_are_few(layout: str) -> None:
    problem = Problem(c=8, h=3, w=5, k=300, padding=same(1))
    x, weight = normal(problem.input_shape, "float32"), normal(problem.weight_shape, "float32")
    alone = run(problem, x, weight, (layout, layout), threads=1)
    assert_convolved(alone, x, weight, problem, "im2win")
    for threads in (2, 3, 7, 64):
        together = run(problem, x, weight, (layout, layout), threads=threads)
        assert together.tobytes() == alone.tobytes()


@pytest.mark.parametrize("shift", [0, 4])
@pytest.mark.parametrize("layout", ["nchw", "nhwc"])
@pytest.mark.parametrize("w", [520, 521])
@pytest.mark.parametrize(("c", "k", "groups"), [(2, 16, 1), (2, 19, 1), (16, 16, 16)])
@pytest.mark.parametrize("target", CPU_TARGETS)
def test_outputs_too_large_for_a_cache(
    target: Target, c: int, k: int, groups: int, w: int, layout: str, shift: int
) -> None:
    """They pass by it where they are aligned; planes of 512 x 521 are each aligned differently."""
    problem = Problem(c=c, h=512, w=w, k=k, r=1, s=1, groups=groups)
    x, weight = integers(problem.input_shape, "float32"), integers(problem.weight_shape, "float32")
    out = strided(capi.poisoned(problem.output_shape, x.dtype), layout)
    y = target.run(problem, strided(x, layout), weight, out=out, shift=shift)
    np.testing.assert_array_equal(y, convolution(x, weight, problem))


@pytest.mark.parametrize("shift", [0, 2])
@pytest.mark.parametrize("k", [32, 40, 96])
@pytest.mark.parametrize("r", [1, 3])
@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_pixels_too_large_for_a_cache(dtype: str, r: int, k: int, shift: int) -> None:
    """They pass by it if all of them are whole lines; of 96 filters in more than one tile, too."""
    problem = Problem(c=2, h=512, w=520 + r - 1, k=k, r=r, s=r, padding=((r // 2, r // 2), (0, 0)))
    x, weight = integers(problem.input_shape, dtype), integers(problem.weight_shape, dtype)
    out = strided(capi.poisoned(problem.output_shape, x.dtype), "nhwc")
    y = IM2WIN.run(problem, strided(x, "nhwc"), weight, out=out, shift=shift)
    expected = convolution(x.astype(np.float32), weight.astype(np.float32), problem)
    np.testing.assert_array_equal(y.astype(np.float32), expected)


@pytest.mark.parametrize("value", [np.nan, np.inf])
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("layout", ["nchw", "nhwc"])
@pytest.mark.parametrize("threads", [1, 8])
@pytest.mark.parametrize(
    "problem", [replace(DENSE, stride=(1, 1)), Problem(c=120, h=7, w=5, k=70), GROUPS[-1]], ids=str
)
def test_weights_on_padding_contribute_nothing(
    problem: Problem, threads: int, layout: str, dtype: str, value: float
) -> None:
    """The first tap of one filter lies on padding for the first row and column, and only there."""
    problem = replace(problem, padding=((1, 0), (1, 0)))
    x = normal(problem.input_shape, dtype)
    finite = strided(normal(problem.weight_shape, dtype), layout)
    k, c = 25, problem.c // problem.groups - 2
    finite[k, c, 0, 0] = 0
    weight = finite.copy(order="K")
    weight[k, c, 0, 0] = value
    y = run(problem, x, weight, (layout, layout), threads=threads)
    clean = run(problem, x, finite, (layout, layout), threads=threads).astype(np.float64)
    assert not np.isfinite(y[:, k, 1:, 1:].astype(np.float64)).any()
    y[:, k, 1:, 1:] = clean[:, k, 1:, 1:]
    near = problem.taps * ROUNDOFF["float32" if dtype == "float64" else dtype]
    np.testing.assert_allclose(y.astype(np.float64), clean, rtol=near, atol=near)
