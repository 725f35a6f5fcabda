"""Who convolves a case: the algorithms of this library, and their peers."""

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import im2win
from case import Case
from peers import PEERS, Convolution


class Candidate(NamedTuple):
    name: str
    is_peer: bool
    is_automatic: bool  # ours, chosen where nobody names one
    make: Callable[[Any], Convolution]  # of a weight


def our_candidates(case: Case, names: list[str] | None, input: Any, weight: Any) -> list[Candidate]:
    """The named ones, or all that take the case."""
    plan = im2win.Conv2dPlan.like(input, weight, **our_options(case))
    if names is None:
        names = [name for name, refusal in plan.algorithms().items() if refusal is None]
    return [Candidate(name, False, name == plan.algorithm, ours(case, name)) for name in names]


def ours(case: Case, algorithm: str, **options: Any) -> Callable[[Any], Convolution]:
    """One of this library's algorithms, for Candidate.make."""
    options |= {"algorithm": algorithm, **our_options(case)}
    return lambda weight: partial(im2win.conv2d, weight=weight, **options)


def our_options(case: Case) -> dict[str, Any]:
    """Those of im2win.conv2d and of plans."""
    return {
        "stride": case.layer.stride,
        "padding": case.layer.padding,
        "math": "tf32" if case.allows_tf32 else "fp32",
    }


def peer_candidates(case: Case, names: list[str]) -> list[Candidate]:
    return [Candidate(name, True, False, partial(PEERS[name], case)) for name in names]
