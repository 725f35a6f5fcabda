"""One case by one candidate: first checked against float64, then timed."""

from collections.abc import Sequence
from typing import Any

import torch

from candidates import Candidate
from case import DISTRIBUTIONS, Case, Errors, Expected
from device_time import seconds_per_call
from im2win.reference import bound
from peers import Convolution
from summary import Row

# What no correct convolution, Winograd's included, comes near.
BOUNDS_OF_PEERS = {"fp32": 1e-4, "tf32": 2e-2, "fp16": 2e-2, "bf16": 1e-1}
_NAMES = {"fp32": "float32", "tf32": "float32", "fp16": "float16", "bf16": "bfloat16"}


class WrongResultError(RuntimeError):
    """An output that is not the convolution."""


def measure(
    case: Case, candidate: Candidate, inputs: Sequence[Any], weight: Any, expected: Expected
) -> Row:
    """`expected` is that of the first input; inputs are many, to take turns.

    Errors: those of checked().
    """
    convolve, errors = checked(case, candidate, inputs[0], weight, expected)
    seconds = seconds_per_call(convolve, inputs)
    return Row(
        layer=case.layer.name,
        count=case.layer.count,
        algorithm=candidate.name,
        is_peer=candidate.is_peer,
        is_automatic=candidate.is_automatic,
        milliseconds=seconds * 1e3,
        tflops=case.layer.flops(case.batch) / seconds / 1e12,
        extra_bytes=extra_bytes(convolve, inputs[0]),
        frobenius_error=errors.frobenius,
        largest_error=errors.largest,
    )


def checked(
    case: Case, candidate: Candidate, input: Any, weight: Any, expected: Expected
) -> tuple[Convolution, Errors]:
    """The candidate's convolution, once its result on the input has been found right.

    Errors: WrongResultError; RuntimeError where the candidate does not take the case.
    """
    convolve = candidate.make(weight)
    _poison(case)
    errors = expected.errors(convolve(input))
    allowed = _bound(case, candidate)
    if not errors.largest <= allowed:
        raise WrongResultError(f"the largest error is {errors.largest:.1e}, above {allowed:.1e}")
    return convolve, errors


def compare_errors(case: Case, candidates: Sequence[Candidate]) -> list[dict[str, Any]]:
    """A row for each distribution of the data and each candidate."""
    rows = []
    for distribution in DISTRIBUTIONS:
        input, weight = case.input(distribution), case.weight(distribution)
        expected = Expected(case.layer, input, weight)
        for candidate in candidates:
            errors: Errors = expected.errors(candidate.make(weight)(input))
            about = {"layer": case.layer.name, "data": distribution, "algorithm": candidate.name}
            rows.append({**about, "is_peer": candidate.is_peer, **errors._asdict()})
    return rows


def _bound(case: Case, candidate: Candidate) -> float:
    if candidate.is_peer:
        return BOUNDS_OF_PEERS[case.dtype]
    terms = case.layer.channels * case.layer.kernel**2
    return bound(_NAMES[case.dtype], terms, "tf32" if case.allows_tf32 else None)


def _poison(case: Case) -> None:
    """NaN in the memory that PyTorch's allocator gives next for an output of the case."""
    torch.cuda.empty_cache()
    case.empty_output().fill_(float("nan"))


def extra_bytes(convolve: Convolution, input: Any) -> int:
    """Peak memory of a call beyond what it returns: of PyTorch's allocator, and what has been taken
    from the device beside it. Not of the first call, which may try algorithms.
    """
    torch.cuda.synchronize()
    torch.cuda.empty_cache()
    beside = _bytes_beside_pytorch()
    torch.cuda.reset_peak_memory_stats()
    output = convolve(input)
    torch.cuda.synchronize()
    peak = torch.cuda.max_memory_allocated() - torch.cuda.memory_allocated()
    del output  # which has been allocated until here
    return int(peak + max(0, _bytes_beside_pytorch() - beside))


def _bytes_beside_pytorch() -> int:
    free, total = torch.cuda.mem_get_info()
    return int(total - free - torch.cuda.memory_reserved())
