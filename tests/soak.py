"""Random problems by the thousand, each against float64: is the error bound kept, always?

    PYTHONPATH=bench python tests/soak.py --problems 10000 --json bench/results/cpu/soak.json

Every algorithm that takes a problem convolves data of one of these kinds: Gaussian; of exponents
far apart; denormal; near the largest number of the dtype. Outputs are compared elementwise, as in
the tests, and a NaN or Inf put into the first image must not change a bit of the others. The seed
makes the problem: a failure's is printed, and `--first SEED --problems 1` runs it again.
"""

import json
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer

import capi
import im2win
import machine
from numerics import DTYPES, UNDERFLOW, Array, accumulator, convolution, growth, tolerance
from problems import Problem

Rng = np.random.Generator

SMALLEST_NORMAL = {
    "float64": 2.0**-1022,
    "float32": 2.0**-126,
    "float16": 2.0**-14,
    "bfloat16": 2.0**-126,
}
LARGEST = {
    "float64": (2 - 2.0**-52) * 2.0**1023,
    "float32": (2 - 2.0**-23) * 2.0**127,
    "float16": 65504.0,
    "bfloat16": (2 - 2.0**-7) * 2.0**127,
}


@dataclass
class Tally:
    """What became of the problems of a dtype that an algorithm took."""

    problems: int = 0
    outputs: int = 0
    worst: float = 0.0  # largest error, as a part of the error allowed
    worst_seed: int = -1
    wrong: int = 0  # problems with an output beyond it
    isolated: int = 0  # problems whose first image got NaN or Inf
    leaked: int = 0  # of which another image showed it

    def add(self, seed: int, error: Array, allowed: Array) -> bool:
        part = float(np.max(error / np.maximum(allowed, np.finfo(np.float64).tiny)))
        is_right = part <= 1  # not so of a NaN
        self.problems += 1
        self.outputs += error.size
        self.wrong += not is_right
        if not part <= self.worst:
            self.worst, self.worst_seed = part, seed
        return is_right

    def add_isolated(self, is_isolated: bool) -> bool:
        self.isolated += 1
        self.leaked += not is_isolated
        return is_isolated


def random_problem(rng: Rng) -> Problem:
    """Small, and of every kind: the edges of tiles are hit by numbers."""

    def axis() -> tuple[int, int, int, int, tuple[int, int]]:
        size, window, dilation = (int(rng.integers(1, high)) for high in (21, 6, 4))
        stride = int(rng.integers(1, 5))
        before, after = (int(rng.integers(0, 5)) for _ in range(2))
        missing = dilation * (window - 1) + 1 - (size + before + after)
        return size, window, dilation, stride, (before, after + max(missing, 0))

    h, r, dilation_h, stride_h, vertical = axis()
    w, s, dilation_w, stride_w, horizontal = axis()
    groups = int(rng.choice((1, 1, 2, 3, 17)))
    channels = 1 if rng.random() < 0.4 else int(rng.integers(1, 40 // groups + 2))
    return Problem(
        n=int(rng.integers(1, 4)),
        c=groups * channels,
        h=h,
        w=w,
        k=groups * int(rng.integers(1, 80 // groups + 2)),
        r=r,
        s=s,
        stride=(stride_h, stride_w),
        padding=(vertical, horizontal),
        dilation=(dilation_h, dilation_w),
        groups=groups,
    )


def _gaussian(rng: Rng, problem: Problem, dtype: str) -> tuple[Array, Array]:
    return rng.standard_normal(problem.input_shape), rng.standard_normal(problem.weight_shape)


def _wide(rng: Rng, problem: Problem, dtype: str) -> tuple[Array, Array]:
    x, weight = _gaussian(rng, problem, dtype)
    return x * np.exp2(rng.integers(-6, 7, x.shape)), weight * np.exp2(
        rng.integers(-6, 7, weight.shape)
    )


def _denormal(rng: Rng, problem: Problem, dtype: str) -> tuple[Array, Array]:
    x, weight = _gaussian(rng, problem, dtype)
    return x * SMALLEST_NORMAL[dtype] / 4, weight


def _largest(rng: Rng, problem: Problem, dtype: str) -> tuple[Array, Array]:
    """No sum of theirs overflows, in whatever order."""
    x, weight = (rng.uniform(-1, 1, s) for s in (problem.input_shape, problem.weight_shape))
    return x * LARGEST[dtype], weight / (2 * problem.taps)


KINDS: tuple[Callable[[Rng, Problem, str], tuple[Array, Array]], ...] = (
    _gaussian,
    _wide,
    _denormal,
    _largest,
)


def in_layout(array: Array, layout: int) -> Array:
    """An equal array: channels first, channels last, or backwards with gaps."""
    result = array
    if layout == 1:
        result = np.ascontiguousarray(array.transpose(0, 2, 3, 1)).transpose(0, 3, 1, 2)
    elif layout == 2:
        result = np.repeat(array[..., ::-1, None], 2, axis=4)[..., ::-1, 0]
    return result


class Soak:
    def __init__(self, device: str) -> None:
        self._device = capi.CPU if device == "cpu" else 0
        self._algorithms = im2win.algorithms(device)
        self.tallies: dict[str, Tally] = {}

    def try_problem(self, seed: int, dtype: str) -> None:
        rng = np.random.default_rng((seed, sorted(DTYPES).index(dtype)))
        problem = random_problem(rng)
        kind = KINDS[int(rng.integers(len(KINDS)))]
        x, weight = (a.astype(DTYPES[dtype]) for a in kind(rng, problem, dtype))
        layout = int(rng.integers(3))
        weight = in_layout(weight, int(rng.integers(3)))
        exact = convolution(x, weight, problem)
        magnitude = convolution(np.abs(x), np.abs(weight), problem)
        spoilt = x.copy()
        spoilt[0, int(rng.integers(problem.c))] = rng.choice((np.nan, np.inf, -np.inf))
        x, spoilt = in_layout(x, layout), in_layout(spoilt, layout)
        for algorithm in self._algorithms:
            if not capi.accepts(capi.descriptor(problem, dtype), self._device, algorithm):
                continue
            options: dict[str, Any] = {"device": self._device, "algorithm": algorithm}
            y = capi.run(problem, x, weight, **options)
            sums = accumulator(algorithm, dtype)
            allowed = tolerance(exact, magnitude, dtype, sums, problem.taps)
            allowed += growth(problem.taps) * UNDERFLOW[sums]  # of products that are denormal
            tally = self.tallies.setdefault(f"{dtype} {algorithm}", Tally())
            is_right = tally.add(seed, np.abs(y.astype(np.float64) - exact), allowed)
            if problem.n > 1:
                others = capi.run(problem, spoilt, weight, **options)[1:]
                is_right &= tally.add_isolated(others.tobytes() == y[1:].tobytes())
            if not is_right:
                print(f"seed {seed}, {dtype}, {algorithm}: {kind.__name__} {problem}", flush=True)


def main(
    problems: Annotated[int, typer.Option(help="of each dtype")] = 10_000,
    first: Annotated[int, typer.Option(help="seed of the first")] = 0,
    device: Annotated[str, typer.Option(help="cpu or cuda")] = "cpu",
    json_file: Annotated[Path | None, typer.Option("--json", help="write the results here")] = None,
) -> None:
    soak = Soak(device)
    for dtype in DTYPES:
        for seed in range(first, first + problems):
            soak.try_problem(seed, dtype)
        for name, tally in soak.tallies.items():
            if name.startswith(f"{dtype} "):
                print(f"{name:22} {tally}", flush=True)
    if json_file is not None:
        results = {
            "machine": machine.describe(),
            "first_seed": first,
            "problems_per_dtype": problems,
            "results": {name: asdict(tally) for name, tally in soak.tallies.items()},
        }
        json_file.write_text(json.dumps(results, indent=1) + "\n")
    raise SystemExit(any(tally.wrong or tally.leaked for tally in soak.tallies.values()))


if __name__ == "__main__":
    typer.run(main)
