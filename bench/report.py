"""The tables of layers_gpu.py."""

from collections.abc import Iterable, Sequence
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from summary import Pair, Results, Row, mean_speedup, network_speedup, pairs

_MIB = 2**20


def show(console: Console, title: str, results: Results) -> None:
    """A row for each layer, then means; what refused; errors, if they were compared."""
    found = pairs(results.rows)
    console.print(_table(title, found))
    for name, speedup in (
        ("geometric mean of the layers", mean_speedup(found)),
        ("all layers of the network together", network_speedup(found)),
    ):
        if speedup is not None:
            console.print(f"fastest peer's time / ours, {name}: {speedup:.3f}")
    for line in refusal_lines(results.refusals, len(found)):
        console.print(escape(line), soft_wrap=True)
    if results.errors:
        console.print(_errors_table(title, results.errors))


def _table(title: str, found: Sequence[Pair]) -> Table:
    table = Table(title=title, caption="* is chosen where nobody names an algorithm")
    columns = ("layer", "ours", "ms", "TFLOP/s", "MiB", "fastest peer", "ms", "MiB", "peer / ours")
    for column in columns:
        is_text = column in ("layer", "ours", "fastest peer")
        table.add_column(column, justify="left" if is_text else "right")
    for pair in found:
        ours, peer = _cells(pair.ours), _cells(pair.peer)
        layer = next(row.layer for row in (pair.ours, pair.peer) if row)
        speedup = "" if pair.speedup is None else f"{pair.speedup:.2f}"
        table.add_row(layer, *ours, peer[0], peer[1], peer[3], speedup)
    return table


def _cells(row: Row | None) -> tuple[str, str, str, str]:
    if row is None:
        return "", "", "", ""
    return (
        row.algorithm + "*" * row.is_automatic,
        f"{row.milliseconds:.3f}",
        f"{row.tflops:.1f}",
        f"{row.extra_bytes / _MIB:.1f}",
    )


def refusal_lines(refusals: Iterable[dict[str, str]], count: int) -> list[str]:
    """A line for each algorithm and reason; there are `count` layers."""
    layers: dict[tuple[str, str], list[str]] = {}
    for refusal in refusals:
        key = (refusal["algorithm"], refusal["reason"])
        layers.setdefault(key, []).append(refusal["layer"])
    return [
        f"{name} on {'every layer' if len(on) == count else ', '.join(on)}: {reason}"
        for (name, reason), on in layers.items()
    ]


def _errors_table(title: str, errors: Iterable[dict[str, Any]]) -> Table:
    table = Table(
        title=f"Errors against float64: {title}",
        caption="Frobenius norm of the error over that of the result; "
        "largest |y - ref| / (sum |x||w| + |ref|)",
    )
    for column in ("layer", "data", "algorithm"):
        table.add_column(column)
    for column in ("Frobenius", "largest"):
        table.add_column(column, justify="right")
    for row in errors:
        numbers = (f"{row['frobenius']:.1e}", f"{row['largest']:.1e}")
        table.add_row(row["layer"], row["data"], row["algorithm"], *numbers)
    return table
