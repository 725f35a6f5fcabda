"""What libim2win is compared with: the same convolution by other libraries."""

from collections.abc import Callable
from functools import partial
from typing import Any

import torch

import cudnn
from case import Case

Convolution = Callable[[Any], Any]
Peer = Callable[[Case, Any], Convolution]  # of a case and its weight


def pytorch(case: Case, weight: Any) -> Convolution:
    """PyTorch's convolution, by the engine of cuDNN that it measures to be the fastest."""
    return _pytorch(case, weight, enabled=True, benchmark=True)


def im2col_cublas(case: Case, weight: Any) -> Convolution:
    """PyTorch's convolution without cuDNN: im2col, then a product by cuBLAS."""
    return _pytorch(case, weight, enabled=False, benchmark=False)


def _pytorch(case: Case, weight: Any, enabled: bool, benchmark: bool) -> Convolution:
    layer, tf32 = case.layer, case.allows_tf32
    flags = partial(
        torch.backends.cudnn.flags, enabled=enabled, benchmark=benchmark, allow_tf32=tf32
    )

    def convolve(input: Any) -> Any:
        torch.backends.cuda.matmul.allow_tf32 = tf32
        with flags():
            return torch.nn.functional.conv2d(
                input, weight, stride=layer.stride, padding=layer.padding
            )

    return convolve


PEERS: dict[str, Peer] = {"pytorch": pytorch, "im2col_cublas": im2col_cublas}
for _algorithm in cudnn.ALGORITHMS:
    PEERS[f"cudnn_{_algorithm.lower()}"] = partial(cudnn.Convolution, algorithm=_algorithm)


def missing(name: str) -> str | None:
    """Why a peer is not here; None if it is."""
    if name.startswith("cudnn_"):
        try:
            cudnn.load()
        except cudnn.CuDNNError as reason:
            return str(reason)
    backend: Any = torch.backends.cudnn
    if name == "pytorch" and not backend.is_available():
        return "this PyTorch has no cuDNN"
    return None
