"""Device time of a CUDA call, without the host's: replays of a graph of back-to-back calls.

A single call timed by events counts the host's time on small layers. A graph of many calls does
not, and calls that take turns among several inputs do not find theirs in the L2 cache.
"""

from collections.abc import Callable, Sequence
from statistics import median
from typing import Any

import torch

_GRAPH_SECONDS = 0.02  # of calls in a graph
_REPLAYS = 7
_L2_MULTIPLE = 4  # bytes of inputs to rotate, in L2 caches
_MOST_INPUTS = 1000  # more of the smallest take longer to make than to time


def rotating_inputs(shape: Sequence[int], make: Callable[[], Any], itemsize: int = 4) -> list[Any]:
    """Enough inputs of this shape to pass the L2 cache, or a thousand; one where one is enough."""
    one = itemsize * torch.Size(shape).numel()
    l2 = torch.cuda.get_device_properties("cuda").L2_cache_size
    return [make() for _ in range(min(max(1, -(-_L2_MULTIPLE * l2 // one)), _MOST_INPUTS))]


def seconds_per_call(call: Callable[[Any], Any], inputs: Sequence[Any]) -> float:
    """The median over replays of the mean time of call(input), inputs taking turns."""
    new_stream: Any = torch.cuda.Stream
    stream = new_stream()
    with torch.cuda.stream(stream):
        call(inputs[0])  # plans, handles and choices of algorithm are made here
        single = elapsed(lambda: call(inputs[0]))
        calls = max(1, round(_GRAPH_SECONDS / single))
        calls = -(-calls // len(inputs)) * len(inputs) if calls > 1 else 1
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, stream=stream):
            for i in range(calls):
                call(inputs[i % len(inputs)])
        graph.replay()
        replays = _REPLAYS if single < 10 * _GRAPH_SECONDS else 1
        return median(elapsed(graph.replay) for _ in range(replays)) / calls


def elapsed(run: Callable[[], Any]) -> float:
    """Seconds between what was enqueued before and what follows."""
    event: Any = torch.cuda.Event
    begin, end = event(enable_timing=True), event(enable_timing=True)
    begin.record()
    run()
    end.record()
    end.synchronize()
    return float(begin.elapsed_time(end)) / 1e3
