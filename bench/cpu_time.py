"""The time of calls on a CPU that has other work too: the least of many, taken in turns."""

from collections.abc import Callable, Mapping
from math import inf
from time import perf_counter, sleep
from typing import Any

_TURN_SECONDS = 0.02
_TURNS = 5
_PAUSE_SECONDS = 0.03  # for the threads of the last turn's pool to stop spinning


def fastest(calls: Mapping[str, Callable[[], Any]]) -> dict[str, float]:
    """Seconds a call. A turn's first call does not count."""
    best = dict.fromkeys(calls, inf)
    for _ in range(_TURNS):
        for name, call in calls.items():
            sleep(_PAUSE_SECONDS)
            call()
            end = perf_counter() + _TURN_SECONDS
            start = perf_counter()
            while start < end:
                call()
                now = perf_counter()
                best[name] = min(best[name], now - start)
                start = now
    return best
