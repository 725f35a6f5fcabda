"""The evaluation of the paper on a GPU, layer by layer."""

from dataclasses import replace
from functools import partial
from importlib.util import find_spec
from statistics import median
from typing import Any

import torch

import cudnn
import im2win
import micro_batches
import unfold
from candidates import Candidate, our_options, ours
from case import DTYPES, Case, Expected
from device_time import rotating_inputs
from im2win.layers import Layer
from measurement import checked, extra_bytes
from paper_rows import LABELS, Row, Study
from peers import PEERS as PEERS_OF_LAYERS
from peers import missing
from run_times import device_seconds, wall_seconds

PEERS = {
    **PEERS_OF_LAYERS,
    "unfold_cupy": unfold.by_cupy,
    "cudnn_micro_batches": micro_batches.fastest,
}
_BUDGET_SECONDS = 0.4  # of each clock, for a candidate on a layer


def why_missing(peer: str) -> str | None:
    """None if it is there."""
    if peer == "unfold_cupy":
        return None if find_spec("cupy") else "no CuPy"
    return missing(peer)


def measure_layer(study: Study, layer: Layer, peers: list[str]) -> None:
    """Adds the layer's rows to the study."""
    case = Case(layer, study.batch, study.dtype, "NCHW")
    torch.manual_seed(0)
    inputs = rotating_inputs(case.input_shape, case.input, DTYPES[case.dtype].itemsize)
    weight = case.weight()
    expected = Expected(layer, inputs[0], weight)
    for candidate in _candidates(case, peers, inputs[0], weight):
        try:
            study.rows.append(_measure(case, candidate, inputs, weight, expected))
        except (RuntimeError, MemoryError) as error:
            refused = getattr(error, "status", None) == "IM2WIN_UNSUPPORTED"
            study.is_wrong |= not candidate.is_peer and not refused
            reason = str(error).partition("\n")[0]
            refusal = {"layer": layer.name, "algorithm": candidate.name, "reason": reason}
            study.refusals.append(refusal)
    if any(peer.startswith("cudnn_") for peer in peers):
        _add_pick(study, case)


def _add_pick(study: Study, case: Case) -> None:
    """cuDNN's, and its row once more if it has one."""
    try:
        algorithm = cudnn.fastest(case)
    except cudnn.CuDNNError:
        return
    study.picks[case.layer.name] = algorithm
    row = study.row(case.layer, f"cudnn_{algorithm.lower()}")
    if row is not None:
        study.rows.append(replace(row, algorithm="cudnn_pick"))


def _candidates(case: Case, peers: list[str], input: Any, weight: Any) -> list[Candidate]:
    """In the paper's order."""
    make: dict[str, Any] = {name: partial(PEERS[name], case) for name in peers}
    for name in im2win.algorithms("cuda"):
        if name in LABELS:
            make[name] = ours(case, name)
    limit = micro_batches.WORKSPACE_LIMIT
    make["im2win_micro_batches"] = ours(case, "im2win", workspace_limit=limit)
    plan = im2win.Conv2dPlan.like(input, weight, **our_options(case))
    taken = [name for name, refusal in plan.algorithms().items() if refusal is None]
    fused = next((name for name in taken if "fused" in name), "im2win_fused")
    make["im2win_fused"] = ours(case, fused)

    def packed(weight: Any) -> Any:
        options = our_options(case) | {"algorithm": fused}
        return im2win.Conv2dPlan.like(input, weight, **options).pack(weight)

    make["im2win_fused_packed"] = packed
    names = [name for name in LABELS if name in make]
    return [Candidate(name, name in peers, False, make[name]) for name in names]


def _measure(
    case: Case, candidate: Candidate, inputs: list[Any], weight: Any, expected: Expected
) -> Row:
    convolve, errors = checked(case, candidate, inputs[0], weight, expected)
    on_wall = wall_seconds(convolve, inputs, _BUDGET_SECONDS, torch.cuda.synchronize)
    on_device = device_seconds(convolve, inputs, len(on_wall))
    return Row(
        layer=case.layer.name,
        algorithm=candidate.name,
        runs=len(on_wall),
        wall_best_ms=1e3 * min(on_wall),
        wall_median_ms=1e3 * median(on_wall),
        device_best_ms=1e3 * min(on_device),
        device_median_ms=1e3 * median(on_device),
        extra_bytes=extra_bytes(convolve, inputs[0]),
        largest_error=errors.largest,
    )
