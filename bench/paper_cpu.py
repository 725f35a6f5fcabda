"""The evaluation of the paper on a CPU, layer by layer: float32 NumPy arrays, all threads."""

from collections.abc import Callable
from statistics import median
from time import sleep
from typing import Any

import numpy as np

import cpu_peers
import im2win
import unfold
from cpu_memory import peak_bytes
from cpu_peers import Array, Call
from im2win import reference
from im2win.layers import Layer
from paper_rows import LABELS, Row, Study
from run_times import wall_seconds

PEERS = {"im2col_numpy": None, "onednn": "oneDNN", "onnxruntime": "ONNX Runtime"}
_BUDGET_SECONDS = 1.0  # for a candidate on a layer
_PAUSE_SECONDS = 0.05  # for the threads of the last one's pool to stop spinning


def why_missing(peer: str) -> str | None:
    """None if it is there."""
    name = PEERS[peer]
    return None if name is None else cpu_peers.missing(name)


def measure_layer(study: Study, layer: Layer, peers: list[str]) -> None:
    """Adds the layer's rows to the study."""
    random = np.random.default_rng(0)
    input = random.standard_normal(layer.input_shape(study.batch), np.float32)
    weight = random.standard_normal(layer.weight_shape, np.float32)
    expected = reference.conv2d(input, weight, stride=layer.stride)
    scale = reference.magnitude(input, weight, None, layer.stride)
    for name in LABELS:
        if name not in (*peers, *im2win.algorithms("cpu"), "im2win_packed"):
            continue
        make = _maker(name, layer, input, weight)
        try:
            error = _checked(make(), expected, scale, weight[0].size)
        except RuntimeError as refusal:
            refused = getattr(refusal, "status", None) == "IM2WIN_UNSUPPORTED"
            study.is_wrong |= name not in peers and not refused
            about = {"layer": layer.name, "algorithm": name, "reason": str(refusal)}
            study.refusals.append(about)
            continue
        study.rows.append(_measure(name, layer, make, error))


def _maker(name: str, layer: Layer, input: Array, weight: Array) -> Callable[[], Call]:
    """Of a call that is prepared anew, with whatever the library keeps for it."""
    if name == "im2col_numpy":
        return lambda: lambda: unfold.convolve(np, input, weight, layer.stride)
    if name in PEERS:
        peer = cpu_peers.PEERS[str(PEERS[name])]
        return lambda: peer(input, weight, layer.stride, 0)
    output = np.empty((len(input), layer.filters, layer.output_size, layer.output_size), np.float32)

    def make() -> Call:
        algorithm = name.removesuffix("_packed")
        plan = im2win.Conv2dPlan(
            input.shape, weight.shape, stride=layer.stride, algorithm=algorithm
        )
        output.fill(np.nan)
        if name == algorithm:
            return lambda: plan(input, weight, out=output)
        packed = plan.pack(weight)
        return lambda: packed(input, out=output)

    return make


def _checked(call: Call, expected: Array, scale: Array, terms: int) -> float:
    error = float(reference.relative_error(call(), expected, scale).max())
    if not error <= reference.bound("float32", terms):
        raise RuntimeError(f"wrong: its largest relative error is {error}")
    return error


def _measure(name: str, layer: Layer, make: Callable[[], Call], error: float) -> Row:
    call = make()
    sleep(_PAUSE_SECONDS)
    call()
    times = wall_seconds(lambda _: call(), [None], _BUDGET_SECONDS)
    return Row(
        layer=layer.name,
        algorithm=name,
        runs=len(times),
        wall_best_ms=1e3 * min(times),
        wall_median_ms=1e3 * median(times),
        device_best_ms=None,
        device_median_ms=None,
        extra_bytes=_extra_bytes(make, call()),
        largest_error=error,
    )


def _extra_bytes(make: Callable[[], Call], output: Array) -> int | None:
    """Of a first call and of what was prepared for it, beside an output that it may return."""
    results: list[Any] = []
    peak = peak_bytes(lambda: results.append(make()()))
    if peak is None:
        return None
    is_new = not np.shares_memory(results[0], output)
    return max(0, peak - is_new * output.nbytes)
