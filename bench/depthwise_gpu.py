"""Depthwise layers on a GPU beside cuDNN and a copy of as many bytes, which bounds them.

Each by itself and with SiLU, which cuDNN's convolutions have to be followed by.

    python bench/depthwise_gpu.py --json bench/results/FILE.json

Layers of MobileNet and EfficientNet, padding (kernel - 1) / 2, batch 128, random data. Each result
is checked against float64 before it is timed.
"""

import json
from functools import partial
from itertools import product
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import torch
import typer
from rich.console import Console
from rich.progress import track
from rich.table import Table

import im2win
import machine
from device_time import rotating_inputs, seconds_per_call

_BATCH = 128
_CHECKED_IMAGES = 2
_ROUNDING = {torch.float32: 2**-24, torch.float16: 2**-11}
_FORMATS = {"NCHW": torch.contiguous_format, "NHWC": torch.channels_last}


class Layer(NamedTuple):
    channels: int
    size: int
    kernel: int
    stride: int

    def __str__(self) -> str:
        return f"{self.channels} x {self.size}², {self.kernel}x{self.kernel}, stride {self.stride}"


LAYERS = (
    Layer(32, 112, 3, 1),
    Layer(96, 112, 3, 2),
    Layer(144, 56, 3, 1),
    Layer(144, 56, 5, 2),
    Layer(240, 28, 5, 1),
    Layer(240, 28, 3, 2),
    Layer(480, 14, 3, 1),
    Layer(672, 14, 5, 1),
    Layer(960, 7, 3, 1),
    Layer(1152, 7, 5, 1),
)


def main(
    json_file: Annotated[Path | None, typer.Option("--json", help="write the results here")] = None,
) -> None:
    torch.backends.cudnn.allow_tf32 = False
    torch.backends.cudnn.benchmark = True
    console = Console()
    cases = list(product(LAYERS, _ROUNDING, _FORMATS))
    rows = [measure(*case) for case in track(cases, description="layers", console=console)]
    console.print(_table(rows))
    if json_file is not None:
        results = {"machine": machine.describe(), "batch": _BATCH, "layers": rows}
        json_file.write_text(json.dumps(results, indent=1) + "\n")


def measure(layer: Layer, dtype: torch.dtype, layout: str) -> dict[str, Any]:
    """Microseconds of a copy of the input's and the output's bytes, of cuDNN and of depthwise."""
    c, size, kernel, stride = layer

    def random(*shape: int) -> torch.Tensor:
        values = torch.randn(shape, device="cuda").to(dtype)
        return values.contiguous(memory_format=_FORMATS[layout])

    def ours(input: Any, activation: str | None = None) -> Any:
        window = (stride, kernel // 2, 1, c)
        return im2win.conv2d(
            input, weight, None, *window, activation=activation, algorithm="depthwise"
        )

    def cudnn(input: Any) -> Any:
        return torch.nn.functional.conv2d(input, weight, None, stride, kernel // 2, 1, c)

    def cudnn_silu(input: Any) -> Any:
        return torch.nn.functional.silu(cudnn(input), inplace=True)

    shape = (_BATCH, c, size, size)
    inputs = rotating_inputs(shape, lambda: random(*shape))
    weight = torch.randn(c, 1, kernel, kernel, device="cuda").to(dtype)
    ours_silu = partial(ours, activation="silu")
    output = ours(inputs[0])
    _check(output, inputs[0], weight, layer)
    _check_silu(ours_silu(inputs[0]), output)
    half = (inputs[0].numel() + output.numel()) // 2  # a copy reads and writes each byte
    sources = [torch.randn(half, device="cuda").to(dtype) for _ in inputs]
    target = torch.empty_like(sources[0])
    times = {
        "copy": seconds_per_call(target.copy_, sources),
        "cudnn": seconds_per_call(cudnn, inputs),
        "depthwise": seconds_per_call(ours, inputs),
        "cudnn_silu": seconds_per_call(cudnn_silu, inputs),
        "depthwise_silu": seconds_per_call(ours_silu, inputs),
    }
    microseconds = {name: seconds * 1e6 for name, seconds in times.items()}
    return {"layer": str(layer), "dtype": str(dtype).split(".")[1], "layout": layout} | microseconds


def _check(output: Any, input: Any, weight: Any, layer: Layer) -> None:
    """Every sum of the first images, each product and addition rounding once."""

    def convolve(images: Any, filters: Any) -> Any:
        with torch.backends.cudnn.flags(enabled=False):
            return torch.nn.functional.conv2d(
                images, filters, None, layer.stride, layer.kernel // 2, 1, layer.channels
            )

    images, filters = input[:_CHECKED_IMAGES].double(), weight.double()
    expected, scale = convolve(images, filters), convolve(images.abs(), filters.abs())
    error = (output[:_CHECKED_IMAGES].double() - expected).abs()
    sums = layer.kernel**2 * 2.0**-24 * scale
    if not bool((error <= sums + _ROUNDING[output.dtype] * expected.abs()).all()):
        raise SystemExit(f"wrong result: {layer}, {output.dtype}")


def _check_silu(output: torch.Tensor, sums: torch.Tensor) -> None:
    """Of sums that are right, and rounded; the function is no steeper than 1.1."""
    expected = torch.nn.functional.silu(sums[:_CHECKED_IMAGES].double())
    error = (output[:_CHECKED_IMAGES].double() - expected).abs()
    allowed = 4 * _ROUNDING[output.dtype] * (1 + sums[:_CHECKED_IMAGES].double().abs())
    if not bool((error <= allowed).all()):
        raise SystemExit(f"wrong SiLU of {tuple(output.shape)}, {output.dtype}")


def _table(rows: list[dict[str, Any]]) -> Table:
    table = Table(title=f"Depthwise layers, batch {_BATCH}: microseconds")
    for column in ("layer", "dtype", "layout"):
        table.add_column(column)
    for column in ("copy", "depthwise", "/ copy", "cuDNN / it", "with SiLU", "cuDNN / it"):
        table.add_column(column, justify="right")
    for row in rows:
        time, time_silu = row["depthwise"], row["depthwise_silu"]
        table.add_row(
            row["layer"],
            row["dtype"],
            row["layout"],
            f"{row['copy']:.1f}",
            f"{time:.1f}",
            f"{time / row['copy']:.2f}",
            f"{row['cudnn'] / time:.2f}",
            f"{time_silu:.1f}",
            f"{row['cudnn_silu'] / time_silu:.2f}",
        )
    return table


if __name__ == "__main__":
    typer.run(main)
