"""`im2win check`: this machine's algorithms against the float64 reference."""

from dataclasses import dataclass, field
from importlib.util import find_spec
from typing import Annotated, Any

import numpy as np
import typer
from rich.markup import escape
from rich.progress import track
from rich.table import Table

from im2win import reference
from im2win._info import algorithms
from im2win._info import info as find_info
from im2win.cli.machine import chosen_devices, console, print_machine
from im2win.cli.problems import Problem, problems
from im2win.conv import conv2d

_FAILURES_SHOWN = 10


@dataclass
class Tally:
    """What became of the problems that one algorithm of one device was given."""

    run: int = 0
    refused: int = 0
    worst: float = 0.0  # largest error, relative to its bound
    failures: list[str] = field(default_factory=list)


def check(
    device: Annotated[
        str | None, typer.Option(help="Devices to check, such as cpu,cuda; all by default.")
    ] = None,
) -> None:
    """Check all algorithms against float64 on a spread of problems; the exit status says."""
    found = find_info()
    print_machine(found)
    devices = chosen_devices(device, found)
    has_bfloat16 = find_spec("ml_dtypes") is not None
    if not has_bfloat16:
        console.print("bfloat16: [yellow]not checked[/yellow]: pip install ml_dtypes")
    dtypes = ("float64", "float32", "float16") + ("bfloat16",) * has_bfloat16
    spread = problems(dtypes)
    tallies = {(name, each): Tally() for name in devices for each in algorithms(name)}
    for problem in track(spread, f"{len(spread)} problems", console=console, transient=True):
        _check_problem(problem, tallies)
    console.print(_table(tallies, len(spread)))
    failures = [failure for tally in tallies.values() for failure in tally.failures]
    for failure in failures[:_FAILURES_SHOWN]:
        console.print(f"[red]failed[/red]: {escape(failure)}", soft_wrap=True)
    if failures:
        raise typer.Exit(1)


def _check_problem(problem: Problem, tallies: dict[tuple[str, str], Tally]) -> None:
    arrays = problem.arrays()
    options = {name: value for name, value in problem.options.items() if name != "math"}
    expected = reference.conv2d(**arrays, **options)
    scale = reference.magnitude(**arrays, **options)
    bound = reference.bound(problem.dtype, problem.terms, problem.options.get("math"))
    for (device, algorithm), tally in tallies.items():
        try:
            actual = _convolve(problem, arrays, expected.shape, device, algorithm)
        except (RuntimeError, ValueError) as refusal:
            if getattr(refusal, "status", None) == "IM2WIN_UNSUPPORTED":
                tally.refused += 1
            else:
                tally.failures.append(f"{device} {algorithm}: {problem}: {refusal}")
            continue
        error = float(reference.relative_error(actual, expected, scale).max(initial=0.0)) / bound
        tally.run += 1
        tally.worst = max(tally.worst, error)
        if error > 1:
            tally.failures.append(f"{device} {algorithm}: {problem}: {error:.3g} x the bound")


def _convolve(
    problem: Problem,
    arrays: dict[str, Any],
    shape: tuple[int, ...],
    device: str,
    algorithm: str,
) -> np.ndarray[Any, Any]:
    """The output, into memory full of NaN, so that what is not written shows."""
    out = np.full(shape, np.nan, arrays["input"].dtype)
    output: np.ndarray[Any, Any] = conv2d(
        **arrays, **problem.options, out=out, device=device, algorithm=algorithm
    )
    return output


def _table(tallies: dict[tuple[str, str], Tally], count: int) -> Table:
    table = Table(
        caption=f"{count} problems against float64 NumPy. Errors are relative to the bound for "
        "sums of products in the dtype's arithmetic: right is at most 1.",
        caption_justify="left",
    )
    table.add_column("device")
    table.add_column("algorithm")
    for heading in ("run", "refused", "failed", "largest error"):
        table.add_column(heading, justify="right")
    for (device, algorithm), tally in tallies.items():
        failed = len(tally.failures)
        style = "red" if failed else None
        counts = map(str, (tally.run, tally.refused, failed))
        table.add_row(device, algorithm, *counts, f"{tally.worst:.3f}", style=style)
    return table
