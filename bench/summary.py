"""From measured rows to what they say: our time on each layer beside that of the fastest peer."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from statistics import geometric_mean
from typing import Any


@dataclass(frozen=True)
class Row:
    """One layer by one algorithm, ours or a peer's."""

    layer: str
    count: int  # of such layers in the network
    algorithm: str
    is_peer: bool
    is_automatic: bool  # ours, chosen where nobody names one
    milliseconds: float
    tflops: float
    extra_bytes: int
    frobenius_error: float
    largest_error: float


@dataclass
class Results:
    """Of one run."""

    rows: list[Row] = field(default_factory=list)
    refusals: list[dict[str, str]] = field(default_factory=list)  # layer, algorithm, reason
    errors: list[dict[str, Any]] = field(default_factory=list)
    is_wrong: bool = False  # whether one of ours failed, or computed something else


@dataclass(frozen=True)
class Pair:
    """Our row of a layer and its fastest peer's; None where there is none."""

    ours: Row | None
    peer: Row | None

    @property
    def speedup(self) -> float | None:
        if self.ours is None or self.peer is None:
            return None
        return self.peer.milliseconds / self.ours.milliseconds


def pairs(rows: Iterable[Row]) -> list[Pair]:
    """One for each layer. Ours is what is chosen automatically; without that, the fastest."""
    found = []
    for _, group in groupby(rows, key=lambda row: row.layer):
        layer = list(group)
        automatic = [row for row in layer if row.is_automatic]
        ours = automatic or [row for row in layer if not row.is_peer]
        found.append(Pair(_fastest(ours), _fastest([row for row in layer if row.is_peer])))
    return found


def mean_speedup(found: Sequence[Pair]) -> float | None:
    """The geometric mean over the layers that have one."""
    speedups = [pair.speedup for pair in found if pair.speedup is not None]
    return geometric_mean(speedups) if speedups else None


def network_speedup(found: Sequence[Pair]) -> float | None:
    """Of all layers together, each as often as the network has it; None unless all have a pair."""
    complete = [(pair.ours, pair.peer) for pair in found if pair.ours and pair.peer]
    if not complete or len(complete) < len(found):
        return None
    ours = sum(row.count * row.milliseconds for row, _ in complete)
    return sum(row.count * row.milliseconds for _, row in complete) / ours


def _fastest(rows: Sequence[Row]) -> Row | None:
    return min(rows, key=lambda row: row.milliseconds, default=None)
