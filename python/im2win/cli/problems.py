"""The spread of problems that `im2win check` runs."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from im2win import reference
from im2win._tensors.numpy_arrays import numpy_dtype

_ACTIVATIONS = ("relu", "relu6", "leaky_relu", "silu", "gelu", "sigmoid", "tanh", "hardswish")
# Around the tiles of the kernels: one less, all, one more.
_TILE_EDGES = (1, 2, 3, 4, 5, 7, 8, 9, 15, 16, 17, 31, 32, 33, 63, 64, 65, 127, 128, 129)


@dataclass(frozen=True)
class Problem:
    """Shapes are N C H W and K C/groups R S, whatever the layout."""

    input_shape: tuple[int, ...]
    weight_shape: tuple[int, ...]
    dtype: str = "float32"
    bias: bool = False
    residual: bool = False
    options: dict[str, Any] = field(default_factory=dict)  # of conv2d

    @property
    def terms(self) -> int:
        """How many products make one output."""
        return int(np.prod(self.weight_shape[1:]))

    def __str__(self) -> str:
        options = ", ".join(f"{name}={value!r}" for name, value in self.options.items())
        extras = " + bias" * self.bias + " + residual" * self.residual
        shapes = f"{self.input_shape} * {self.weight_shape}"
        return f"{self.dtype} {shapes}{extras} {options}".rstrip()

    def arrays(self) -> dict[str, Any]:
        """The tensors, as conv2d's arguments: normal numbers, the same every time."""
        rng = np.random.default_rng(0)

        def array(*shape: int) -> np.ndarray[Any, Any]:
            normal = np.asarray(rng.standard_normal(shape)).astype(numpy_dtype(self.dtype))
            if len(shape) > 1 and self.options.get("layout") == "NHWC":
                return np.ascontiguousarray(np.moveaxis(normal, -3, -1))
            return normal

        arrays: dict[str, Any] = {"input": array(*self.input_shape)}
        arrays["weight"] = array(*self.weight_shape)
        if self.bias:
            arrays["bias"] = array(self.weight_shape[0])
        if self.residual:
            output = reference.conv2d(**arrays, **self.options)
            residual = np.asarray(rng.standard_normal(output.shape))
            arrays["residual"] = residual.astype(numpy_dtype(self.dtype))
        return arrays


def problems(dtypes: tuple[str, ...]) -> list[Problem]:
    """Windows, tile edges, groups, epilogues, mostly in float32; samples in every dtype."""
    spread = [*_windows(), *_tile_edges(), *_groups(), *_depthwise(), *_epilogues()]
    for dtype in dtypes:
        for layout in ("NCHW", "NHWC"):
            spread.extend(_sample(dtype, layout))
    return spread


def _windows() -> Iterator[Problem]:
    for kernel in ((1, 1), (1, 7), (3, 1), (2, 2), (3, 3), (5, 5), (7, 7), (11, 11)):
        for stride in (1, 2, (3, 1), 4):
            yield Problem((2, 3, 23, 29), (5, 3, *kernel), options={"stride": stride})
        padding = ((kernel[0], 0), (1, kernel[1]))
        yield Problem((2, 3, 14, 13), (5, 3, *kernel), options={"padding": padding, "stride": 2})
        yield Problem((1, 2, 24, 23), (4, 2, *kernel), options={"dilation": (1, 2)})
        yield Problem((1, 2, 25, 31), (4, 2, *kernel), options={"dilation": 2, "padding": "same"})
    yield Problem((0, 3, 9, 9), (4, 3, 3, 3))
    yield Problem((3, 9, 9), (4, 3, 3, 3))
    yield Problem((1, 1, 3, 3), (1, 1, 3, 3))


def _tile_edges() -> Iterator[Problem]:
    for size in _TILE_EDGES:
        yield Problem((1, 4, 6, 10), (size, 4, 3, 3))  # filters
        yield Problem((1, size, 6, 7), (6, size, 3, 3))  # channels
        yield Problem((1, 4, 5, size + 2), (6, 4, 3, 3))  # columns of the output
        yield Problem((size, 2, 5, 4), (3, 2, 3, 3))  # images


def _groups() -> Iterator[Problem]:
    for groups, channels, filters in ((2, 4, 6), (3, 3, 9), (8, 8, 8), (4, 64, 128)):
        weight = (filters, channels // groups, 3, 3)
        for options in ({}, {"stride": 2, "padding": 1}):
            yield Problem((2, channels, 9, 11), weight, options={"groups": groups, **options})


def _depthwise() -> Iterator[Problem]:
    for kernel in (3, 5):
        for stride in (1, 2):
            options = {"groups": 40, "stride": stride, "padding": kernel // 2}
            for dtype in ("float32", "float16"):
                yield Problem((2, 40, 19, 21), (40, 1, kernel, kernel), dtype, options=options)
                nhwc = {**options, "layout": "NHWC"}
                yield Problem((2, 40, 19, 21), (40, 1, kernel, kernel), dtype, True, options=nhwc)
            small = {**options, "groups": 3}
            yield Problem((5, 3, 7, 7), (6, 1, kernel, kernel), options=small)  # two for a channel


def _epilogues() -> Iterator[Problem]:
    for activation in (None, *_ACTIVATIONS, ("leaky_relu", 0.3), ("clamp", -0.5, 1.5)):
        for bias, residual in ((False, False), (True, False), (True, True)):
            yield Problem(
                (2, 5, 9, 11),
                (7, 5, 3, 3),
                bias=bias,
                residual=residual,
                options={"activation": activation},
            )
    for mode in ("ieee", "tf32"):
        yield Problem((2, 16, 9, 11), (8, 16, 3, 3), options={"math": mode})


def _sample(dtype: str, layout: str) -> Iterator[Problem]:
    rest = {"layout": layout}
    yield Problem((2, 3, 17, 19), (8, 3, 3, 3), dtype, options={"padding": 1, **rest})
    yield Problem((2, 16, 12, 13), (33, 16, 5, 5), dtype, bias=True, options={"stride": 2, **rest})
    yield Problem((1, 6, 12, 13), (9, 2, 3, 2), dtype, options={"groups": 3, "dilation": 2, **rest})
    yield Problem((2, 8, 7, 7), (8, 8, 1, 1), dtype, residual=True, options=rest)
    yield Problem((3, 8, 9), (4, 3, 3, 3), dtype, bias=True, options={"activation": "silu", **rest})
