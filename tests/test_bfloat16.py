"""bfloat16 on the CPU, where some instruction sets multiply neighbouring channels as pairs: odd
numbers of channels, views in which pairs lie anywhere, and numbers that such instructions would
take for zeros.
"""

from dataclasses import replace
from itertools import product

import numpy as np
import pytest

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
from problems import GEOMETRY, GROUPS, Problem, same
from targets import TARGETS, Target

BFLOAT16 = DTYPES["bfloat16"]
IM2WIN = Target(CPU, "im2win")
CPU_TARGETS = [pytest.param(t, id=t.algorithm) for t in TARGETS if t.device == CPU]
LAYOUTS = ["nchw", "nhwc", "apart"]

# Channels that are pairs, or one too many; filters on both sides of vectors and tiles of them;
# windows of which two, or several channels are packed at a time, or parts of them.
CHANNELS = [
    *(Problem(c=c, h=5, w=8, k=k) for c, k in product((2, 3, 4, 5, 31, 32, 33), (15, 16, 17))),
    *(Problem(n=2, c=c, h=3, w=7, k=k, r=1, s=1) for c, k in product((2, 3, 63, 64, 65), (64, 65))),
    *(Problem(c=c, h=12, w=13, k=5, r=r, s=s) for c in (2, 3, 7) for r, s in ((11, 11), (7, 5))),
    *(Problem(n=2, c=c, h=9, w=8, k=130, padding=same(1), stride=(2, 2)) for c in (6, 7)),
    Problem(c=131, h=6, w=7, k=20, padding=((1, 0), (2, 1)), dilation=(2, 1)),
    Problem(c=300, h=4, w=9, k=66, r=2, s=2),  # in place, with parts of the taps
    Problem(n=2, c=10, h=9, w=11, k=8, groups=2, stride=(1, 3)),
    Problem(n=2, c=12, h=9, w=11, k=8, groups=2, r=1, s=1, stride=(2, 3)),
]


@pytest.mark.parametrize("filters", LAYOUTS)
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("problem", [*CHANNELS, *GEOMETRY, *GROUPS], ids=str)
def test_channels(problem: Problem, layout: str, filters: str) -> None:
    """Exactly, where sums are integers."""
    x, weight = (
        integers(problem.input_shape, "bfloat16"),
        integers(problem.weight_shape, "bfloat16"),
    )
    y = IM2WIN.run(problem, strided(x, layout), strided(weight, filters))
    np.testing.assert_array_equal(y, convolution(x, weight, problem).astype(BFLOAT16))
    x, weight = normal(problem.input_shape, "bfloat16"), normal(problem.weight_shape, "bfloat16")
    y = IM2WIN.run(problem, strided(x, layout), strided(weight, filters))
    assert_convolved(y, x, weight, problem, "im2win")


@pytest.mark.parametrize("shift", [0, 2])
@pytest.mark.parametrize("c", [5, 6])
@pytest.mark.parametrize("padding", [0, 1])
@pytest.mark.parametrize("kernel", [1, 3])
def test_views(kernel: int, padding: int, c: int, shift: int) -> None:
    """Pixels an odd number of elements apart, and axes that go backwards."""
    problem = Problem(n=2, c=c, h=6, w=8, k=18, r=kernel, s=kernel, padding=same(padding))
    x, weight = normal(problem.input_shape, "bfloat16"), normal(problem.weight_shape, "bfloat16")
    for pitch in (c, c + 1, c + 2):
        wider = np.zeros((2, 6, 8, pitch), BFLOAT16)
        for reverse in product((slice(None), slice(None, None, -1)), repeat=3):
            rows, columns, channels = reverse
            pixels = wider[:, rows, columns]
            view = np.moveaxis(pixels[..., pitch - c :][..., channels], 3, 1)
            view[...] = x
            y = IM2WIN.run(problem, view, weight, shift=shift)
            assert_convolved(y, x, weight, problem, "im2win")


def scaled(shape: tuple[int, ...], exponent: int) -> Array:
    """Data of both signs, and of magnitudes from 2^exponent to twice that."""
    random = generator(shape, exponent)
    magnitudes = random.uniform(1, 1.99, shape) * 2.0**exponent
    data: Array = (random.choice((-1, 1), shape) * magnitudes).astype(BFLOAT16)
    return data


@pytest.mark.parametrize(
    ("inputs", "filters"),
    [(-128, 100), (100, -128), (-130, 0), (-64, -64), (-50, -80), (-60, -60), (-57, -57), (-66, 3)],
)
@pytest.mark.parametrize("layout", ["nchw", "nhwc"])
@pytest.mark.parametrize("padding", [0, 1])
@pytest.mark.parametrize("c", [5, 8])
@pytest.mark.parametrize("target", CPU_TARGETS)
def test_tiny_factors(
    target: Target, c: int, padding: int, layout: str, inputs: int, filters: int
) -> None:
    """Subnormal inputs, filters, products and sums count as any others."""
    problem = Problem(n=2, c=c, h=6, w=7, k=18, padding=same(padding))
    x, weight = scaled(problem.input_shape, inputs), scaled(problem.weight_shape, filters)
    y = target.run(problem, strided(x, layout), strided(weight, layout))
    assert np.count_nonzero(y.astype(np.float64)) > y.size / 2
    assert_convolved(y, x, weight, problem, target.algorithm)


SEEN = [  # by some windows, in panels and in place, or with its weights packed by parts
    Problem(n=2, h=9, w=11, k=70, padding=same(1)),
    Problem(n=2, h=11, w=13, k=70, r=1, s=1, stride=(1, 2)),
    Problem(n=2, h=11, w=13, k=70, stride=(2, 1), dilation=(1, 2)),
    Problem(n=2, h=40, w=30, k=20, r=2, s=2),
]
FEW_PIXELS = Problem(c=120, h=4, w=5, k=70)


def places(shape: tuple[int, ...]) -> list[tuple[int, ...]]:
    """Some elements, the first and the last among them."""
    some = generator(shape).integers(0, shape, (8, 4))
    return [(0, 0, 0, 0), *map(tuple, some.tolist()), tuple(size - 1 for size in shape)]


def only(shape: tuple[int, ...], place: tuple[int, ...]) -> Array:
    """A subnormal number among zeros."""
    array = np.zeros(shape, BFLOAT16)
    array[place] = 2.0**-131
    return array


@pytest.mark.parametrize("layout", ["nchw", "nhwc"])
@pytest.mark.parametrize("c", [7, 8])
@pytest.mark.parametrize("problem", SEEN, ids=str)
def test_one_subnormal_input(problem: Problem, c: int, layout: str) -> None:
    """Wherever it is, it counts."""
    problem = replace(problem, c=c)
    weight = strided(scaled(problem.weight_shape, 100), layout)
    for place in places(problem.input_shape):
        x = only(problem.input_shape, place)
        y = IM2WIN.run(problem, strided(x, layout), weight)
        assert_convolved(y, x, weight, problem, "im2win")


@pytest.mark.parametrize("layout", ["nchw", "nhwc"])
@pytest.mark.parametrize("c", [7, 8])
@pytest.mark.parametrize("problem", [*SEEN, FEW_PIXELS], ids=str)
def test_one_subnormal_weight(problem: Problem, c: int, layout: str) -> None:
    problem = replace(problem, c=problem.c if problem is FEW_PIXELS else c)
    x = scaled(problem.input_shape, 100)
    for place in places(problem.weight_shape):
        weight = only(problem.weight_shape, place)
        y = IM2WIN.run(problem, strided(x, layout), strided(weight, layout))
        assert_convolved(y, x, weight, problem, "im2win")


@pytest.mark.parametrize("layout", ["nchw", "nhwc"])
@pytest.mark.parametrize("c", [7, 8])
@pytest.mark.parametrize("problem", SEEN, ids=str)
def test_a_subnormal_input_changes_no_other_bits(problem: Problem, c: int, layout: str) -> None:
    """Nor do threads: outputs that do not see it are summed with those that do, or without."""
    problem = replace(problem, c=c)
    x, weight = normal(problem.input_shape, "bfloat16"), normal(problem.weight_shape, "bfloat16")
    clean = IM2WIN.run(problem, strided(x, layout), strided(weight, layout))
    for place in places(problem.input_shape):
        sees = convolution(only(x.shape, place) != 0, np.ones(weight.shape), problem) != 0
        changed = x.copy()
        changed[place] = 2.0**-131
        for threads in (1, 2, 8):
            y = IM2WIN.run(
                problem, strided(changed, layout), strided(weight, layout), threads=threads
            )
            assert y[~sees].tobytes() == clean[~sees].tobytes()
            assert_convolved(y, changed, weight, problem, "im2win")
