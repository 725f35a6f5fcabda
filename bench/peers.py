"""What libim2win is compared with: the same convolution by other libraries, through PyTorch."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch

Convolution = Callable[[Any], Any]


@contextmanager
def _cudnn(**flags: Any) -> Iterator[None]:
    # allow_tf32 off: float32 stays float32 on both sides.
    with torch.backends.cudnn.flags(allow_tf32=False, **flags):
        yield


def cudnn(weight: Any, stride: int) -> Convolution:
    """The algorithm that cuDNN measures to be its fastest for the layer."""

    def convolve(input: Any) -> Any:
        with _cudnn(enabled=True, benchmark=True):
            return torch.nn.functional.conv2d(input, weight, stride=stride)

    return convolve


def im2col_cublas(weight: Any, stride: int) -> Convolution:
    """PyTorch's convolution without cuDNN: im2col, then a product by cuBLAS."""

    def convolve(input: Any) -> Any:
        with _cudnn(enabled=False):
            return torch.nn.functional.conv2d(input, weight, stride=stride)

    return convolve


PEERS: dict[str, Callable[[Any, int], Convolution]] = {
    "cudnn": cudnn,
    "im2col+cublas": im2col_cublas,
}
