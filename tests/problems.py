"""Convolutions to test with: at and around the edges where kernels change their way, and random.

Sizes are small: the point is the edges, and a sanitizer build runs the same tests.
"""

import math
from dataclasses import dataclass, replace
from itertools import product

from hypothesis import strategies as st

from im2win.layers import LAYERS, Layer

Pair = tuple[int, int]


@dataclass(frozen=True)
class Problem:
    """A convolution's sizes, named as in im2win.h."""

    n: int = 1
    c: int = 3
    h: int = 6
    w: int = 7
    k: int = 4
    r: int = 3
    s: int = 3
    stride: Pair = (1, 1)
    padding: tuple[Pair, Pair] = ((0, 0), (0, 0))  # (top, bottom), (left, right)
    dilation: Pair = (1, 1)
    groups: int = 1

    @property
    def input_shape(self) -> tuple[int, int, int, int]:
        return self.n, self.c, self.h, self.w

    @property
    def weight_shape(self) -> tuple[int, int, int, int]:
        return self.k, self.c // self.groups, self.r, self.s

    @property
    def output_shape(self) -> tuple[int, int, int, int]:
        height, width = (
            (size + sum(padding) - dilation * (window - 1) - 1) // stride + 1
            for size, padding, dilation, window, stride in zip(
                (self.h, self.w),
                self.padding,
                self.dilation,
                (self.r, self.s),
                self.stride,
                strict=True,
            )
        )
        return self.n, self.k, height, width

    @property
    def taps(self) -> int:
        """Products that make one output."""
        return self.c // self.groups * self.r * self.s

    @property
    def products(self) -> int:
        return math.prod(self.output_shape) * self.taps

    def __str__(self) -> str:
        """A test's name: the sizes, and of the rest what is not the default."""
        sizes = f"{self.n}x{self.c}x{self.h}x{self.w}-{self.k}x{self.r}x{self.s}"
        (top, bottom), (left, right) = self.padding
        rest = {
            "stride": "x".join(map(str, self.stride)),
            "pad": f"{top}.{bottom}.{left}.{right}",
            "dilation": "x".join(map(str, self.dilation)),
            "groups": str(self.groups),
        }
        plain = ("1x1", "0.0.0.0", "1x1", "1")
        parts = (f"-{n}{v}" for (n, v), p in zip(rest.items(), plain, strict=True) if v != p)
        return sizes + "".join(parts)


def around(*edges: int) -> list[int]:
    return sorted({edge + step for edge in edges for step in (-1, 0, 1) if edge + step > 0})


def same(padding: int) -> tuple[Pair, Pair]:
    return (padding, padding), (padding, padding)


# Tiles of filters are 8, 16, 32 and 64 on the CPU's instruction sets, 32 to 128 on CUDA.
FILTER_EDGES = [Problem(c=2, h=5, k=k) for k in [1, 3, 5, *around(8, 16, 32, 48, 64, 96, 128), 209]]

# Tiles of pixels are 6 on the CPU, 32 to 128 on CUDA; they cross rows and images.
PIXEL_EDGES = [
    Problem(n=n, h=h, w=w, k=2, r=1, s=1)
    for n, h, w in [
        *((1, 1, width) for width in around(1, 6, 12, 32, 64, 96, 128)),
        *((n, h, w) for n, h, w in product((2, 3), (1, 5), (4, 13))),
    ]
]

# The reduction goes in steps of 8 and 16 on CUDA, over channels and filter together.
REDUCTION_EDGES = [
    *(Problem(c=c, h=5, w=3, r=1, s=1) for c in [1, 3, 5, *around(8, 16, 32, 64), 209]),
    *(Problem(c=c, h=5, w=6) for c in around(8, 16)),
]

# Edges of all three at once.
CORNERS = [
    Problem(c=c, h=1, w=pixels, k=k, r=1, s=1)
    for k, pixels, c in [(127, 127, 15), (128, 128, 16), (129, 129, 17), (65, 97, 33), (96, 64, 8)]
]

# More im2win rows than fit the CPU's panel, and a row that does not fit it alone.
PANELS = [
    Problem(c=24, h=9, w=150, k=3, r=5, s=1),
    Problem(c=128, h=6, w=130, k=3, r=5, s=1),
    Problem(n=5, c=4, h=20, w=4, k=2),
]

# Few channels: on CUDA strips of one or more chunks of 56 and 112 columns, 64 filters, rings of
# bands that go round. Of narrow rows a band has several with channels last.
STEMS = [
    Problem(c=3, h=9, w=230, k=72, padding=same(1)),
    Problem(c=3, h=8, w=450, k=24, padding=same(1)),
    *(Problem(c=3, h=20, w=w, k=16, stride=(2, 2), padding=same(1)) for w in (112, 113, 224, 225)),
    Problem(n=2, c=3, h=17, w=32, k=64, padding=same(1)),
    Problem(n=2, c=3, h=30, w=38, k=136, stride=(2, 2), padding=((1, 0), (2, 1))),
    Problem(n=2, c=3, h=67, w=35, k=96, r=11, s=11, stride=(4, 4)),
    Problem(n=2, c=1, h=45, w=21, k=65, r=7, s=7, stride=(2, 2), padding=same(3)),
    Problem(c=4, h=41, w=57, k=17, padding=((1, 0), (2, 1))),
    Problem(c=2, h=9, w=30, k=33, r=4, s=4, stride=(4, 4)),
    Problem(n=2, c=6, h=23, w=19, k=34, r=5, s=5, padding=same(2), groups=2),
]

# Windows that are their steps: on CUDA rows of such windows become channels, also where they have
# as many elements as there are channels, or are no words; but not where rows are left below them.
PATCHES = [
    Problem(n=3, c=3, h=48, w=64, k=70, r=16, s=16, stride=(16, 16)),
    Problem(n=2, c=3, h=28, w=42, k=33, r=14, s=14, stride=(14, 14)),
    Problem(n=5, c=4, h=24, w=40, k=130, r=8, s=8, stride=(8, 8)),
    Problem(n=2, c=8, h=24, w=16, k=8, r=8, s=8, stride=(8, 8)),
    Problem(n=2, c=2, h=4, w=48, k=9, r=2, s=24, stride=(2, 24)),
    Problem(c=5, h=38, w=36, k=20, r=12, s=12, stride=(12, 12)),
    Problem(c=3, h=64, w=96, k=20, r=32, s=32, stride=(32, 32)),
]

GEOMETRY = [
    Problem(n=2, padding=same(1)),
    Problem(n=2, padding=((1, 2), (3, 0))),
    Problem(padding=((0, 2), (0, 3))),
    Problem(n=2, h=11, w=8, stride=(2, 3)),
    Problem(h=9, w=16, stride=(3, 1), padding=((2, 1), (0, 2))),
    Problem(n=2, h=8, w=7, r=1, s=1, stride=(2, 2)),  # windows with gaps between them
    # Steps over all rows, or columns, but one.
    Problem(n=2, c=64, h=3, w=12, k=2, r=1, s=1, stride=(3, 1)),
    Problem(n=2, c=64, h=12, w=3, k=192, r=1, s=1, stride=(1, 3)),
    Problem(n=3, c=64, h=2, w=2, k=3, r=1, s=1, stride=(2, 2)),
    Problem(n=2, c=32, h=4, w=6, k=8, r=1, s=1, stride=(8, 2), padding=((0, 3), (0, 0))),
    Problem(h=9, w=10, dilation=(2, 1)),
    Problem(h=9, w=10, dilation=(1, 2)),
    Problem(n=2, h=12, w=13, dilation=(3, 2), stride=(2, 2), padding=((3, 2), (1, 2))),
    Problem(r=1, s=5),
    Problem(r=5, s=1, padding=((2, 2), (0, 0))),
    Problem(r=2, s=4),
    Problem(r=4, s=2, stride=(2, 2), padding=((1, 2), (0, 1))),
    Problem(h=3, w=2, r=5, s=7, padding=((2, 1), (3, 3))),  # a filter larger than the image
    Problem(h=1, w=1, padding=same(1)),
    Problem(n=3, h=3, w=3),  # one output a filter
    Problem(n=2, h=4, w=5, padding=((5, 6), (7, 4))),  # outputs that see nothing but padding
    Problem(h=17, w=3, r=11, s=3, stride=(4, 1)),
    Problem(n=2, h=7, w=133, k=3),
    Problem(h=133, w=4, k=3, stride=(4, 1)),
    Problem(n=7, c=1, h=4, w=4, k=1, r=2, s=2),
    Problem(n=0),
    Problem(n=2, stride=(2**40, 2**33)),  # sizes that do not fit 32 bits
    Problem(n=2, r=1, s=1, dilation=(2**33, 2**40)),
]

GROUPS = [
    Problem(n=2, c=4, k=6, groups=2, padding=same(1)),
    Problem(c=6, k=3, groups=3),
    Problem(c=9, k=15, groups=3, stride=(2, 1), dilation=(1, 2)),
    Problem(c=34, k=66, groups=2, h=5, w=5),
    Problem(n=2, c=5, k=5, groups=5, padding=same(1)),  # depthwise
    Problem(c=33, k=33, groups=33, stride=(2, 2), padding=same(1)),
    Problem(c=4, k=12, groups=4, padding=same(1)),  # depthwise, three filters a channel
    Problem(c=3, k=51, groups=3, r=1, s=1),
    # Small groups, of which products have several side by side, or all.
    Problem(n=2, c=128, h=9, w=11, k=128, groups=32, padding=same(1)),
    Problem(c=60, h=7, w=9, k=84, groups=12),
    Problem(n=2, c=96, h=8, w=6, k=192, groups=24, stride=(2, 2), padding=same(1)),
    Problem(c=52, h=3, w=8, k=26, groups=13, r=1, s=1),
]


def miniature(layer: Layer) -> Problem:
    """The layer, of an image that gives 2 x 3 outputs."""
    return replace(
        full_size(layer, batch=1),
        h=layer.kernel + layer.stride,
        w=layer.kernel + 2 * layer.stride,
    )


def full_size(layer: Layer, batch: int) -> Problem:
    n, c, h, w = layer.input_shape(batch)
    k, _, r, s = layer.weight_shape
    return Problem(n, c, h, w, k, r, s, stride=(layer.stride, layer.stride))


_GENERAL = Problem(n=2, c=3, h=7, w=9, k=5)
# A few of all kinds, for tests whose every problem runs in many ways.
MIXED = [
    _GENERAL,
    replace(_GENERAL, c=5, k=37, padding=((1, 0), (2, 1)), stride=(2, 1)),
    replace(_GENERAL, k=64, r=1, s=1),
    replace(_GENERAL, c=34, k=66, groups=2, padding=same(1), dilation=(1, 2)),
    Problem(n=3, c=19, h=6, w=5, k=19, groups=19, padding=same(1)),  # depthwise
    Problem(c=4, h=21, w=33, k=8, groups=4, r=5, s=5, stride=(2, 2)),
    Problem(c=1, h=1, w=1, k=1, r=1, s=1),
    Problem(c=65, h=18, w=17, k=1, r=1, s=3),
    # Tiles that begin in the padding right of the image.
    Problem(n=2, c=4, h=11, w=15, k=63, r=1, s=1, padding=((4, 3), (0, 3))),
    Problem(c=35, h=8, w=19, k=36, r=2, s=4, padding=((2, 0), (1, 3)), dilation=(1, 3)),
    # One output of filters that are no whole words.
    Problem(c=16, h=6, w=4, k=78, r=4, stride=(1, 2), padding=((0, 4), (1, 2)), dilation=(3, 3)),
]

SMALL = [*GEOMETRY, *GROUPS]  # every kind of problem, at no edge of a tile
PROBLEMS = list(
    dict.fromkeys(
        [
            *FILTER_EDGES,
            *PIXEL_EDGES,
            *REDUCTION_EDGES,
            *CORNERS,
            *PANELS,
            *STEMS,
            *PATCHES,
            *SMALL,
            *map(miniature, LAYERS),
        ]
    )
)


def _window(draw: st.DrawFn, size: int) -> tuple[int, int, Pair]:
    """A filter's size, dilation and padding along an axis of `size`, with at least one output."""
    window, dilation = draw(st.integers(1, 5)), draw(st.integers(1, 3))
    before, after = draw(st.integers(0, 4)), draw(st.integers(0, 4))
    missing = dilation * (window - 1) + 1 - (size + before + after)
    return window, dilation, (before, after + max(missing, 0))


@st.composite
def problems(draw: st.DrawFn) -> Problem:
    """Any legal problem that is small."""
    groups = draw(st.sampled_from((1, 1, 2, 3)))
    h, w = draw(st.integers(1, 12)), draw(st.integers(1, 20))
    r, dilation_h, vertical = _window(draw, h)
    s, dilation_w, horizontal = _window(draw, w)
    return Problem(
        n=draw(st.integers(0, 3)),
        c=groups * draw(st.integers(1, 9)),
        h=h,
        w=w,
        k=groups * draw(st.integers(1, 20)),
        r=r,
        s=s,
        stride=(draw(st.integers(1, 4)), draw(st.integers(1, 4))),
        padding=(vertical, horizontal),
        dilation=(dilation_h, dilation_w),
        groups=groups,
    )
