"""One layer on the GPU, in a precision and a memory order: its tensors and the right result."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch

from im2win.layers import Layer

DEVICE = "cuda"
DTYPES = {
    "fp32": torch.float32,
    "tf32": torch.float32,
    "fp16": torch.float16,
    "bf16": torch.bfloat16,
}
MEMORY_FORMATS = {"NCHW": torch.contiguous_format, "NHWC": torch.channels_last}

Sampler = Callable[..., Any]


def _relu_normal(*shape: int, **options: Any) -> Any:
    return torch.randn(*shape, **options).clamp_(min=0)


# How input and weight are distributed. Sums of uniform numbers, which are all positive, show errors
# that cancel out in the others.
DISTRIBUTIONS: dict[str, tuple[Sampler, Sampler]] = {
    "gaussian": (torch.randn, torch.randn),
    "uniform": (torch.rand, torch.rand),
    "relu": (_relu_normal, torch.randn),
}


@dataclass(frozen=True)
class Case:
    """Inputs, weights and outputs have PyTorch's shapes, N C H W, whatever the memory order."""

    layer: Layer
    batch: int
    dtype: str  # of DTYPES
    layout: str  # of MEMORY_FORMATS

    @property
    def allows_tf32(self) -> bool:
        return self.dtype == "tf32"

    @property
    def input_shape(self) -> tuple[int, int, int, int]:
        return self.layer.input_shape(self.batch)

    @property
    def output_shape(self) -> tuple[int, int, int, int]:
        size = self.layer.output_size
        return self.batch, self.layer.filters, size, size

    def input(self, distribution: str = "gaussian") -> Any:
        return self._random(DISTRIBUTIONS[distribution][0], self.input_shape)

    def weight(self, distribution: str = "gaussian") -> Any:
        return self._random(DISTRIBUTIONS[distribution][1], self.layer.weight_shape)

    def empty_output(self) -> Any:
        format = MEMORY_FORMATS[self.layout]
        dtype = DTYPES[self.dtype]
        return torch.empty(self.output_shape, dtype=dtype, device=DEVICE, memory_format=format)

    def _random(self, sample: Sampler, shape: tuple[int, ...]) -> Any:
        values = sample(*shape, device=DEVICE).to(DTYPES[self.dtype])
        return values.contiguous(memory_format=MEMORY_FORMATS[self.layout])


class Errors(NamedTuple):
    """Against float64."""

    frobenius: float  # the norm of the error over that of the result
    largest: float  # |y - ref| / (sum |x||w| + |ref|)


class Expected:
    """The convolution in float64, and that of the absolute values."""

    def __init__(self, layer: Layer, input: Any, weight: Any) -> None:
        self._exact = _convolve(layer, input.double(), weight.double())
        scale = _convolve(layer, input.double().abs_(), weight.double().abs_())
        self._scale = scale.add_(self._exact.abs()).clamp_(min=torch.finfo(torch.double).tiny)

    def errors(self, output: Any) -> Errors:
        """NaN where the output is not finite, as where nobody wrote to poison."""
        error = output.double() - self._exact
        frobenius = float(error.norm() / self._exact.norm())
        return Errors(frobenius, float(error.abs_().div_(self._scale).max()))


def _convolve(layer: Layer, input: Any, weight: Any) -> Any:
    """PyTorch's convolution without cuDNN: im2col, then a product by cuBLAS."""
    with torch.backends.cudnn.flags(enabled=False):
        return torch.nn.functional.conv2d(
            input, weight, stride=layer.stride, padding=layer.padding
        ).contiguous()
