"""The times of single calls, by the wall's clock and by the device's."""

from collections.abc import Callable, Sequence
from time import perf_counter
from typing import Any

_MOST_RUNS = 100  # as in the paper
_FEWEST_RUNS = 5  # of what takes long
_CYCLES_PER_SECOND = 2e9  # of a GPU, about


def wall_seconds(
    call: Callable[[Any], Any],
    inputs: Sequence[Any],
    budget: float,
    synchronize: Callable[[], Any] = lambda: None,
) -> list[float]:
    """Each from an idle device to the end of the call's work; inputs take turns. As many as the
    budget of seconds allows."""
    times: list[float] = []
    while len(times) < _FEWEST_RUNS or (len(times) < _MOST_RUNS and sum(times) < budget):
        synchronize()
        begin = perf_counter()
        call(inputs[len(times) % len(inputs)])
        synchronize()
        times.append(perf_counter() - begin)
    return times


def device_seconds(call: Callable[[Any], Any], inputs: Sequence[Any], runs: int) -> list[float]:
    """Each between two events, once the device has waited for the host to enqueue the call."""
    import torch

    event: Any = torch.cuda.Event
    sleep: Any = torch.cuda._sleep
    torch.cuda.synchronize()
    begin = perf_counter()
    call(inputs[0])
    head_start = int(2 * (perf_counter() - begin) * _CYCLES_PER_SECOND)
    pairs = [(event(enable_timing=True), event(enable_timing=True)) for _ in range(runs)]
    for i, (before, after) in enumerate(pairs):
        sleep(head_start)
        before.record()
        call(inputs[i % len(inputs)])
        after.record()
    torch.cuda.synchronize()
    return [before.elapsed_time(after) / 1e3 for before, after in pairs]
