"""ResNet-50 over im2win.conv2d, beside PyTorch's convolutions: outputs, times and peak memory.

    python resnet50.py [--batch 8] [--size 224] [--device cuda] [--dtype float32] [--channels-last]

He et al., "Deep Residual Learning for Image Recognition", with the strides of implementations in
the 3x3 convolutions. Weights are random, and batch normalisation is folded into them, as it is for
inference. All but the convolutions is PyTorch's in both cases. Ends with an error if the outputs
differ. Peak memory is known on CUDA alone.
"""

import argparse
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

import im2win

STAGES = ((64, 3), (128, 4), (256, 6), (512, 3))  # channels inside of a block, blocks
EXPANSION = 4
CLASSES = 1000


@dataclass(eq=False)
class Conv:
    """A convolution with its batch normalisation."""

    weight: Tensor
    bias: Tensor
    stride: int
    padding: int


# activation(convolution + residual): of which activation is ReLU, or none.
Convolve = Callable[[Conv, Tensor, bool, Tensor | None], Tensor]


@dataclass(eq=False)
class Block:
    """A bottleneck."""

    reduce: Conv
    middle: Conv
    expand: Conv
    shortcut: Conv | None

    def __call__(self, x: Tensor, conv: Convolve) -> Tensor:
        shortcut = x if self.shortcut is None else conv(self.shortcut, x, False, None)
        y = conv(self.reduce, x, True, None)
        y = conv(self.middle, y, True, None)
        return conv(self.expand, y, True, shortcut)


class ResNet50:
    def __init__(self, **options: Any) -> None:
        """`options` are those of a tensor: device and dtype."""
        self._options = options
        self._stem = self._conv(3, 64, 7, 2)
        self._blocks = []
        channels = 64
        for stage, (width, count) in enumerate(STAGES):
            for index in range(count):
                stride = 2 if stage > 0 and index == 0 else 1
                self._blocks.append(self._block(channels, width, stride))
                channels = EXPANSION * width
        self._classes = torch.randn(CLASSES, channels, **options) * channels**-0.5

    def __call__(self, x: Tensor, conv: Convolve) -> Tensor:
        x = functional.max_pool2d(conv(self._stem, x, True, None), 3, 2, 1)
        for block in self._blocks:
            x = block(x, conv)
        return functional.linear(x.mean((2, 3)), self._classes)

    def _block(self, channels: int, width: int, stride: int) -> Block:
        out = EXPANSION * width
        return Block(
            reduce=self._conv(channels, width, 1),
            middle=self._conv(width, width, 3, stride),
            expand=self._conv(width, out, 1, gain=0.25),
            shortcut=self._conv(channels, out, 1, stride) if channels != out else None,
        )

    def _conv(self, channels: int, out: int, size: int, stride: int = 1, gain: float = 1) -> Conv:
        """Weights that keep magnitudes about as they are."""
        scale = gain * (2 / (channels * size * size)) ** 0.5
        weight = torch.randn(out, channels, size, size, **self._options) * scale
        bias = torch.randn(out, **self._options) * 0.1
        return Conv(weight, bias, stride, size // 2)


def by_im2win(conv: Conv, x: Tensor, relu: bool, residual: Tensor | None) -> Tensor:
    output: Tensor = im2win.conv2d(
        x,
        conv.weight,
        conv.bias,
        conv.stride,
        conv.padding,
        residual=residual,
        activation="relu" if relu else None,
    )
    return output


class ByPackedIm2win:
    """With each weight rearranged once, when it is first used."""

    def __init__(self) -> None:
        self._packed: dict[Conv, im2win.PackedConv] = {}

    def __call__(self, conv: Conv, x: Tensor, relu: bool, residual: Tensor | None) -> Tensor:
        if conv not in self._packed:
            plan = im2win.Conv2dPlan.like(
                x,
                conv.weight,
                conv.bias,
                residual,
                stride=conv.stride,
                padding=conv.padding,
                activation="relu" if relu else None,
            )
            self._packed[conv] = plan.pack(conv.weight)
        output: Tensor = self._packed[conv](x, conv.bias, residual)
        return output


def by_pytorch(conv: Conv, x: Tensor, relu: bool, residual: Tensor | None) -> Tensor:
    output = functional.conv2d(x, conv.weight, conv.bias, conv.stride, conv.padding)
    if residual is not None:
        output += residual
    return functional.relu_(output) if relu else output


def measure(call: Callable[[], Tensor], device: str, repeats: int) -> tuple[float, int | None]:
    """Milliseconds, the least of all, and the peak of what was allocated meanwhile."""
    is_cuda = torch.device(device).type == "cuda"
    call()
    times, before = [], 0
    if is_cuda:
        torch.cuda.synchronize()
        torch.cuda.reset_peak_memory_stats()
        before = torch.cuda.memory_allocated()
    for _ in range(repeats):
        start = time.perf_counter()
        call()
        if is_cuda:
            torch.cuda.synchronize()
        times.append(1e3 * (time.perf_counter() - start))
    peak = torch.cuda.max_memory_allocated() - before if is_cuda else None
    return min(times), peak


def main() -> None:
    parser = argparse.ArgumentParser(description="ResNet-50 by im2win and by PyTorch.")
    parser.add_argument("--batch", type=int, default=8)
    parser.add_argument("--size", type=int, default=224)
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--dtype", default="float32", choices=["float32", "float16", "bfloat16"])
    parser.add_argument("--channels-last", action="store_true")
    parser.add_argument("--repeats", type=int, default=10)
    arguments = parser.parse_args()
    torch.manual_seed(0)
    torch.backends.cudnn.allow_tf32 = False  # as im2win has it
    torch.backends.cudnn.benchmark = True
    dtype = getattr(torch, arguments.dtype)
    network = ResNet50(device=arguments.device, dtype=dtype)
    shape = (arguments.batch, 3, arguments.size, arguments.size)
    x = torch.randn(shape, device=arguments.device, dtype=dtype)
    if arguments.channels_last:
        x = x.to(memory_format=torch.channels_last)

    with torch.no_grad():
        expected = network(x, by_pytorch)
        for name, conv in (
            ("PyTorch", by_pytorch),
            ("im2win", by_im2win),
            ("im2win, weights packed", ByPackedIm2win()),
        ):
            output = network(x, conv)
            error = ((output - expected).abs().max() / expected.abs().max()).item()
            if not error <= 500 * torch.finfo(dtype).eps:
                raise SystemExit(f"{name}: outputs differ by {error:.1e} of the largest")

            def call(conv: Convolve = conv) -> Tensor:
                return network(x, conv)

            milliseconds, peak = measure(call, arguments.device, arguments.repeats)
            memory = "" if peak is None else f", {peak / 2**20:.0f} MiB at the peak"
            print(f"{name}: {milliseconds:.1f} ms{memory}, outputs within {error:.1e}")


if __name__ == "__main__":
    main()
