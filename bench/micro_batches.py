"""The idea of u-cuDNN (Oyama et al., 2018) with cuDNN's algorithms: the batch in parts that keep
the workspace under a cap, by the algorithm that is the fastest so.

u-cuDNN itself may also give each part another algorithm.
"""

from dataclasses import replace
from functools import partial
from math import inf
from typing import Any

import cudnn
from case import Case, Expected
from device_time import elapsed
from measurement import BOUNDS_OF_PEERS

WORKSPACE_LIMIT = 64 * 2**20  # what u-cuDNN's authors gave a layer
_TRIALS = 3


class MicroBatches:
    """Of so many images each, which divide the batch."""

    def __init__(self, case: Case, convolve: cudnn.Convolution, images: int) -> None:
        self.case, self._convolve, self._images = case, convolve, images

    def __call__(self, input: Any) -> Any:
        output = self.case.empty_output()
        for part, result in zip(input.split(self._images), output.split(self._images), strict=True):
            self._convolve(part, result)
        return output


def fastest(case: Case, weight: Any) -> MicroBatches:
    """Errors: cudnn.CuDNNError where no algorithm takes even one image under the cap."""
    input = case.input()
    expected = Expected(case.layer, input, weight)
    found = (_largest(case, weight, algorithm) for algorithm in cudnn.ALGORITHMS)
    times = {each: _seconds(each, input, expected) for each in found if each is not None}
    best = min(times, key=lambda convolve: times[convolve], default=None)
    if best is None or times[best] == inf:
        raise cudnn.CuDNNError(f"no algorithm needs at most {WORKSPACE_LIMIT} bytes")
    return best


def _seconds(convolve: MicroBatches, input: Any, expected: Expected) -> float:
    """Infinite where cuDNN refuses, as some algorithms do only when they run, or is too far off."""
    try:
        if not expected.errors(convolve(input)).largest <= BOUNDS_OF_PEERS[convolve.case.dtype]:
            return inf
        return min(elapsed(partial(convolve, input)) for _ in range(_TRIALS))
    except cudnn.CuDNNError:
        return inf


def _largest(case: Case, weight: Any, algorithm: str) -> MicroBatches | None:
    """The algorithm on the largest parts that keep the cap."""
    divisors = (n for n in range(case.batch, 0, -1) if case.batch % n == 0)
    for images in divisors:
        try:
            convolve = cudnn.Convolution(replace(case, batch=images), weight, algorithm)
        except cudnn.CuDNNError:
            return None
        if convolve.workspace_bytes <= WORKSPACE_LIMIT:
            return MicroBatches(case, convolve, images)
    return None
