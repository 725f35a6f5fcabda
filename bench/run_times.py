"""The times of single calls, by the wall's clock and by the device's."""

from collections.abc import Callable, Sequence
from itertools import pairwise
from time import perf_counter
from typing import Any

RUNS = 100  # as in the paper
_FEWEST = 5  # of what takes long
_HEAD_START_CYCLES = 10_000_000


def affordable_runs(seconds: float, budget: float) -> int:
    """How many calls of so many seconds to make."""
    return max(_FEWEST, min(RUNS, int(budget / max(seconds, 1e-9))))


def wall_seconds(
    call: Callable[[Any], Any],
    inputs: Sequence[Any],
    runs: int,
    synchronize: Callable[[], Any] = lambda: None,
) -> list[float]:
    """Each from an idle device to the end of the call's work; inputs take turns."""
    times = []
    for i in range(runs):
        synchronize()
        begin = perf_counter()
        call(inputs[i % len(inputs)])
        synchronize()
        times.append(perf_counter() - begin)
    return times


def device_seconds(call: Callable[[Any], Any], inputs: Sequence[Any], runs: int) -> list[float]:
    """Back to back, each between two events. The device first waits, for the host to get ahead."""
    import torch

    event: Any = torch.cuda.Event
    sleep: Any = torch.cuda._sleep
    events = [event(enable_timing=True) for _ in range(runs + 1)]
    torch.cuda.synchronize()
    sleep(_HEAD_START_CYCLES)
    events[0].record()
    for i in range(runs):
        call(inputs[i % len(inputs)])
        events[i + 1].record()
    events[-1].synchronize()
    return [begin.elapsed_time(end) / 1e3 for begin, end in pairwise(events)]
