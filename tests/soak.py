"""Random problems by the thousand, each against float64: is the error bound kept, always?

    PYTHONPATH=bench python tests/soak.py --problems 10000 --json bench/results/cpu/soak.json
    PYTHONPATH=bench python tests/soak.py --problems 10000 --device cuda --jobs 16

Every algorithm that takes a problem convolves data of one of these kinds: Gaussian; of exponents
far apart; denormal; near the largest number of the dtype. Outputs are compared elementwise, as in
the tests, and so are those of the other images when a NaN or Inf is put into the first. The seed
makes the problem: a failure's is printed, and `--first SEED --problems 1` runs it again.
"""

import json
import os
from collections.abc import Iterable
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass
from multiprocessing import get_context
from pathlib import Path
from typing import Annotated

import numpy as np
import typer

import capi
import im2win
import machine
from board import Board
from numerics import DTYPES, UNDERFLOW, Array, accumulator, convolution, growth, tolerance
from problems import Problem
from soak_data import KINDS, in_layout, random_problem


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
    outside: int = 0  # problems where bytes beside the output were written

    def add(self, seed: int, error: Array, allowed: Array) -> bool:
        parts = error / np.maximum(allowed, np.finfo(np.float64).tiny)
        part = float(np.max(np.where(np.isnan(parts), np.inf, parts)))
        is_right = part <= 1
        self.problems += 1
        self.outputs += error.size
        self.wrong += not is_right
        if part > self.worst:
            self.worst, self.worst_seed = part, seed
        return is_right

    def merge(self, other: "Tally") -> None:
        self.problems += other.problems
        self.outputs += other.outputs
        self.wrong += other.wrong
        self.isolated += other.isolated
        self.leaked += other.leaked
        self.outside += other.outside
        if other.worst > self.worst:
            self.worst, self.worst_seed = other.worst, other.worst_seed

    def add_isolated(self, is_isolated: bool) -> bool:
        self.isolated += 1
        self.leaked += not is_isolated
        return is_isolated


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
        given = {"x": in_layout(x, layout), "spoilt": in_layout(spoilt, layout), "weight": weight}
        shift = x.itemsize * int(rng.integers(2))
        poisoned = capi.poisoned(problem.output_shape, DTYPES[dtype])
        output = in_layout(poisoned, int(rng.integers(3)))
        results, strayed = self._convolve(problem, given, output, shift)
        for algorithm, (y, with_spoilt) in results.items():
            sums = accumulator(algorithm, dtype)
            allowed = tolerance(exact, magnitude, dtype, sums, problem.taps)
            allowed += growth(problem.taps) * UNDERFLOW[sums]  # of products that are denormal
            tally = self.tallies.setdefault(f"{dtype} {algorithm}", Tally())
            is_right = tally.add(seed, np.abs(y.astype(np.float64) - exact), allowed)
            if problem.n > 1:
                error = np.abs(with_spoilt[1:].astype(np.float64) - exact[1:])
                is_right &= tally.add_isolated(bool((error <= allowed[1:]).all()))
            has_strayed = not strayed.isdisjoint({f"x {algorithm}", f"spoilt {algorithm}"})
            tally.outside += has_strayed
            if not is_right or has_strayed:
                print(f"seed {seed}, {dtype}, {algorithm}: {kind.__name__} {problem}", flush=True)

    def _convolve(
        self, problem: Problem, given: dict[str, Array], output: Array, shift: int
    ) -> tuple[dict[str, tuple[Array, Array]], set[str]]:
        """By each algorithm that takes the problem, the outputs of x and of spoilt; and those in or
        behind which other bytes were written.
        """
        desc = capi.descriptor(problem, output.dtype.name)
        for role, array in (("input", given["x"]), ("filter", given["weight"]), ("output", output)):
            capi.set_strides(desc, role, capi.Span(array))
        taken = [a for a in self._algorithms if capi.accepts(desc, self._device, a)]
        plans = {a: capi.create_plan(desc, self._device, a) for a in taken}
        calls = [(a, source) for a in taken for source in ("x", "spoilt")]
        arrays = given | {f"{source} {a}": output for a, source in calls}
        for algorithm, plan in plans.items():
            if size := capi.workspace_bytes(plan):
                arrays[f"workspace {algorithm}"] = np.full(size, capi.POISON, np.uint8)
        board = Board(self._device, arrays, shift)
        for a, source in calls:
            board.convolve(plans[a], source, "weight", f"{source} {a}", f"workspace {a}")
        written, strayed = board.read([f"{source} {a}" for a, source in calls])
        assert strayed.isdisjoint(given), f"{strayed} were written"
        return {a: (written[f"x {a}"], written[f"spoilt {a}"]) for a in taken}, strayed


def soak(device: str, dtype: str, seeds: range) -> dict[str, Tally]:
    """What became of these, by dtype and algorithm."""
    worker = Soak(device)
    for seed in seeds:
        worker.try_problem(seed, dtype)
    return worker.tallies


def merged(parts: Iterable[dict[str, Tally]]) -> dict[str, Tally]:
    tallies: dict[str, Tally] = {}
    for part in parts:
        for name, tally in part.items():
            tallies.setdefault(name, Tally()).merge(tally)
    return tallies


def main(
    problems: Annotated[int, typer.Option(help="of each dtype")] = 10_000,
    first: Annotated[int, typer.Option(help="seed of the first")] = 0,
    device: Annotated[str, typer.Option(help="cpu or cuda")] = "cpu",
    jobs: Annotated[int, typer.Option(help="processes that share the work")] = 1,
    json_file: Annotated[Path | None, typer.Option("--json", help="write the results here")] = None,
) -> None:
    if jobs > 1:
        os.environ.setdefault("OMP_NUM_THREADS", "1")
    end = first + problems
    ranges = [range(begin, min(begin + 100, end)) for begin in range(first, end, 100)]
    with ProcessPoolExecutor(jobs, get_context("spawn")) as pool:
        parts = [pool.submit(soak, device, dtype, r) for dtype in DTYPES for r in ranges]
        tallies = merged(part.result() for part in parts)
    for name, tally in tallies.items():
        print(f"{name:22} {tally}", flush=True)
    if json_file is not None:
        results = {
            "machine": machine.describe(),
            "first_seed": first,
            "problems_per_dtype": problems,
            "results": {name: asdict(tally) for name, tally in tallies.items()},
        }
        json_file.write_text(json.dumps(results, indent=1) + "\n")
    raise SystemExit(any(t.wrong or t.leaked or t.outside for t in tallies.values()))


if __name__ == "__main__":
    typer.run(main)
