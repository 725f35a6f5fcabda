"""How long a call takes."""

import math
import time
from collections.abc import Callable

from im2win._library import check, ffi, lib
from im2win._tensors.spec import CPU

_SECONDS_PER_SAMPLE = 0.01  # calls too short for the clock are timed in a row


def seconds_per_call(call: Callable[[], object], device: int, count: int = 1) -> float:
    """Of one of `count` calls in a row, from an idle device to an idle device."""
    wait(device)
    start = time.perf_counter()
    for _ in range(count):
        call()
    wait(device)
    return (time.perf_counter() - start) / count


def samples(
    call: Callable[[], object], device: int, first_seconds: float, most: int, seconds: float
) -> list[float]:
    """Seconds of a call, at most so often, and no longer than that in all.

    `first_seconds` is what a call took; it is the one sample if that was too long already.
    """
    if first_seconds > seconds:
        return [first_seconds]
    count = math.ceil(_SECONDS_PER_SAMPLE / seconds_per_call(call, device))
    found: list[float] = []
    end = time.perf_counter() + seconds
    while not found or (len(found) < most and time.perf_counter() < end):
        found.append(seconds_per_call(call, device, count))
    return found


def wait(device: int) -> None:
    """Until the device has done what it was given."""
    if device != CPU:
        check(lib.im2win_cuda_synchronize(device, ffi.NULL))
