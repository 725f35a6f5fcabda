"""Three-dimensional convolutions to test with, and what is right for them."""

from dataclasses import dataclass
from typing import Any

import numpy as np

import capi
import im2win
from capi import CPU
from numerics import Array, accumulator, assert_close, tolerance
from targets import Target

Triple = tuple[int, int, int]


@dataclass(frozen=True)
class Volume:
    """Sizes in the order depth, height, width."""

    n: int = 2
    c: int = 3
    size: Triple = (5, 6, 7)
    k: int = 4
    window: Triple = (3, 3, 2)
    stride: Triple = (1, 1, 1)
    padding: tuple[tuple[int, int], ...] = ((0, 0), (0, 0), (0, 0))
    dilation: Triple = (1, 1, 1)
    groups: int = 1

    @property
    def input_shape(self) -> tuple[int, ...]:
        return self.n, self.c, *self.size

    @property
    def weight_shape(self) -> tuple[int, ...]:
        return self.k, self.c // self.groups, *self.window

    @property
    def output_shape(self) -> tuple[int, ...]:
        sizes = zip(self.size, self.padding, self.dilation, self.window, self.stride, strict=True)
        return self.n, self.k, *((s + sum(p) - d * (w - 1) - 1) // t + 1 for s, p, d, w, t in sizes)

    @property
    def taps(self) -> int:
        return int(np.prod(self.weight_shape[1:]))

    @property
    def geometry(self) -> dict[str, Any]:
        """The arguments of conv3d that are no tensors."""
        names = ("stride", "padding", "dilation", "groups")
        return {name: getattr(self, name) for name in names}


VOLUMES = [
    Volume(),
    Volume(padding=((1, 1), (1, 1), (1, 1))),
    Volume(padding=((2, 0), (0, 1), (1, 2)), window=(3, 1, 2)),
    Volume(stride=(2, 1, 3), window=(2, 3, 3)),
    Volume(dilation=(2, 1, 3), padding=((1, 2), (0, 0), (1, 1))),
    Volume(size=(8, 5, 4), stride=(3, 2, 1), dilation=(3, 2, 1), window=(2, 2, 4)),
    Volume(window=(1, 3, 3)),  # planes by themselves
    Volume(window=(5, 1, 1)),  # all planes at once, and no others
    Volume(window=(1, 1, 1), c=5),
    Volume(c=1, k=1),
    Volume(c=6, k=4, groups=2, padding=((1, 1), (0, 0), (0, 0))),
    Volume(c=3, k=6, groups=3),  # depthwise
    Volume(size=(2, 3, 3), window=(2, 1, 1), dilation=(4, 1, 1), padding=((1, 3), (0, 0), (0, 0))),
    Volume(size=(1, 3, 3), window=(2, 2, 2), padding=((5, 4), (1, 1), (1, 1))),  # and no tap at all
    Volume(n=1, size=(1, 1, 1), padding=((1, 1), (1, 1), (1, 1)), window=(3, 3, 3)),
    Volume(n=0),
]


def convolution(x: Array, weight: Array, volume: Volume) -> Array:
    """The definition, in float64."""
    padded = np.pad(x.astype(np.float64), ((0, 0), (0, 0), *volume.padding))
    sizes = zip(volume.window, volume.dilation, strict=True)
    reach = tuple(dilation * (window - 1) + 1 for window, dilation in sizes)
    seen = np.lib.stride_tricks.sliding_window_view(padded, reach, axis=(2, 3, 4))
    steps = (1, 1, *volume.stride, *volume.dilation)
    seen = seen[tuple(slice(None, None, step) for step in steps)]
    parts = zip(
        np.split(seen, volume.groups, axis=1),
        np.split(weight.astype(np.float64), volume.groups),
        strict=True,
    )
    sums = [np.tensordot(a, b, axes=((1, 5, 6, 7), (1, 2, 3, 4))) for a, b in parts]
    return np.moveaxis(np.concatenate(sums, axis=4), 4, 1)


def run(target: Target, x: Array, weight: Array, volume: Volume, **options: Any) -> Array:
    """By conv3d, into poison unless `out` is given; what an algorithm refuses is an error."""
    options.setdefault("out", capi.poisoned(volume.output_shape, x.dtype))
    device = None if target.device == CPU else "cuda"
    y: Array = im2win.conv3d(
        x, weight, algorithm=target.algorithm, device=device, **volume.geometry, **options
    )
    return y


def assert_convolved(y: Array, x: Array, weight: Array, volume: Volume, algorithm: str) -> None:
    exact = convolution(x, weight, volume)
    magnitude = convolution(np.abs(x), np.abs(weight), volume)
    sums = accumulator(algorithm, x.dtype.name)
    assert y.dtype == x.dtype
    assert_close(y, exact, tolerance(exact, magnitude, x.dtype.name, sums, volume.taps))
