"""What is right: seeded data, the convolution by its definition in float64, and the error allowed.

Written apart from im2win.reference, so that each checks the other.
"""

import zlib
from typing import Any

import ml_dtypes  # gives NumPy its "bfloat16"
import numpy as np
import numpy.typing as npt

from problems import Problem

Array = npt.NDArray[Any]

DTYPES: dict[str, np.dtype[Any]] = {
    "float64": np.dtype(np.float64),
    "float32": np.dtype(np.float32),
    "float16": np.dtype(np.float16),
    "bfloat16": np.dtype(ml_dtypes.bfloat16),
}
# Unit roundoffs: half the distance from 1 to the next number.
ROUNDOFF = {"float64": 2.0**-53, "float32": 2.0**-24, "float16": 2.0**-11, "bfloat16": 2.0**-8}
# Half the distance between the smallest numbers, which is what rounding costs near zero.
UNDERFLOW = {"float64": 0.0, "float32": 2.0**-150, "float16": 2.0**-25, "bfloat16": 2.0**-134}


def generator(*what: object) -> np.random.Generator:
    """The same numbers on every run, and others for another problem."""
    return np.random.default_rng(zlib.crc32(repr(what).encode()))


def normal(shape: tuple[int, ...], dtype: str, *what: object) -> Array:
    """Gaussian data of both signs."""
    return generator(shape, *what).standard_normal(shape).astype(DTYPES[dtype])


def integers(shape: tuple[int, ...], dtype: str, *what: object) -> Array:
    """Integers so small that every sum of their products is exact, in float32 and by TF32 too."""
    return generator(shape, *what).integers(-2, 3, shape).astype(DTYPES[dtype])


def strided(array: Array, layout: str) -> Array:
    """An equal array with the channels first, last, or no two elements side by side."""
    result: Array = array
    if layout == "nhwc":
        result = np.ascontiguousarray(array.transpose(0, 2, 3, 1)).transpose(0, 3, 1, 2)
    elif layout == "apart":
        result = np.repeat(array[..., None], 2, axis=4)[..., 0]
    return result


def windows(x: Array, problem: Problem) -> Array:
    """[N, C, P, Q, R, S]: each output's window of the padded input."""
    padded = np.pad(x, ((0, 0), (0, 0), *problem.padding))
    (dilation_h, dilation_w), (stride_h, stride_w) = problem.dilation, problem.stride
    reach = (dilation_h * (problem.r - 1) + 1, dilation_w * (problem.s - 1) + 1)
    view = np.lib.stride_tricks.sliding_window_view(padded, reach, axis=(2, 3))
    return view[:, :, ::stride_h, ::stride_w, ::dilation_h, ::dilation_w]


def convolution(x: Array, weight: Array, problem: Problem) -> Array:
    """The definition, in float64."""
    groups = problem.groups
    seen = windows(x.astype(np.float64), problem)
    parts = [
        np.tensordot(inputs, filters, axes=((1, 4, 5), (1, 2, 3)))  # [N, P, Q, K / groups]
        for inputs, filters in zip(
            np.split(seen, groups, axis=1),
            np.split(weight.astype(np.float64), groups),
            strict=True,
        )
    ]
    return np.moveaxis(np.concatenate(parts, axis=3), 3, 1)


def accumulator(algorithm: str, dtype: str) -> str:
    """The dtype that the algorithm adds up in."""
    if dtype == "float64" or (algorithm == "direct" and dtype == "float32"):
        return "float64"
    return "float32"


def growth(taps: int) -> float:
    """How many roundoffs of sum |x w| a sum of `taps` products may be off by.

    Each of `taps` roundings errs by at most a roundoff of at most sum |x w|, which makes `taps` the
    rigorous bound. But errors of random data do not all point the same way: by Hoeffding, the sum
    of `taps` independent ones stays below a few sqrt(taps) (Higham and Mary, 2019). The worst
    output of all these tests is off by 1.3 sqrt(taps); 3 is allowed, so that a kernel that loses
    two bits fails. Two more are for bias and residual.
    """
    return float(min(taps, 3 * taps**0.5)) + 2


def tolerance(
    exact: Array, magnitude: Array, dtype: str, sums: str, taps: int, math: str = "fp32"
) -> Array:
    """The elementwise error allowed to an output of `dtype` added up in dtype `sums`.

    One rounding of the result, and those of the sum; `magnitude` is sum |x w|. The float64
    reference errs as much as a float64 result does. TF32 rounds both factors to 2^-11.
    """
    rounding = ROUNDOFF[dtype] * np.abs(exact) + UNDERFLOW[dtype]
    factors = 2.0**-10 if math == "tf32" and dtype == "float32" else 0.0
    summing = growth(taps) * (ROUNDOFF[sums] + ROUNDOFF["float64"]) + factors
    allowed: Array = (1 + 2.0**-10) * rounding + summing * magnitude
    return allowed


def assert_close(result: Array, exact: Array, allowed: Array) -> None:
    """Elementwise; NaN, as of a poisoned output that nobody wrote, is never close."""
    assert result.shape == exact.shape
    error = np.abs(result.astype(np.float64) - exact)
    wrong = ~(error <= allowed)
    if wrong.any():
        worst = tuple(np.argwhere(wrong)[0].tolist())
        raise AssertionError(
            f"{wrong.sum()} of {wrong.size} outputs are wrong; the first, {worst}, is "
            f"{result[worst]}, expected {exact[worst]} within {allowed[worst]}"
        )


class Expected:
    """The convolution of two arrays, to hold results of any algorithm against."""

    def __init__(self, x: Array, weight: Array, problem: Problem) -> None:
        self._dtype, self._taps = x.dtype, problem.taps
        self._exact = convolution(x, weight, problem)
        self._magnitude = convolution(np.abs(x), np.abs(weight), problem)

    def check(self, result: Array, algorithm: str = "", math: str = "fp32") -> None:
        """Asserts that `result` is right; "" allows what any algorithm may."""
        name = self._dtype.name
        sums = accumulator(algorithm, name)
        assert result.dtype == self._dtype
        allowed = tolerance(self._exact, self._magnitude, name, sums, self._taps, math)
        assert_close(result, self._exact, allowed)


def assert_convolved(
    result: Array,
    x: Array,
    weight: Array,
    problem: Problem,
    algorithm: str = "",
    math: str = "fp32",
) -> None:
    Expected(x, weight, problem).check(result, algorithm, math)
