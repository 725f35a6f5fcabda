"""Hundreds of layers of known networks beside PyTorch's convolution (cuDNN, or oneDNN on the CPU).

    python bench/networks.py --dtype fp16 --layout NHWC --json bench/results/FILE.json
    python bench/networks.py --device cpu --batch 1
    python bench/networks.py --layers bench/more_networks.txt    # of other networks

Random data; outputs of the first images are checked against float64 before they are timed. On a
GPU times are a call's in a CUDA graph, for as many images, up to --batch, as make 60 million
elements of input and output. The table has each network's mean, and the layers where PyTorch is
furthest ahead.
"""

import json
import re
from collections import defaultdict
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from statistics import geometric_mean
from typing import Annotated, Any

import torch
import typer
from rich.console import Console
from rich.progress import track
from rich.table import Table

import cpu_time
import device_time
import im2win
import machine
from case import DTYPES, MEMORY_FORMATS
from options import require_known, some

_LAYERS = Path(__file__).with_name("networks.txt")
_MOST_ELEMENTS = 60_000_000
_CHECKED_IMAGES = 2
_ROUNDING = {torch.float32: 2**-17, torch.float16: 2**-9, torch.bfloat16: 2**-6}  # of the largest
_TF32_ROUNDING = 2**-8
_SLOWEST = 20


@dataclass(frozen=True)
class Layer:
    network: str
    text: str
    channels: int
    size: tuple[int, int]
    filters: int
    kernel: tuple[int, int]
    stride: tuple[int, int] = (1, 1)
    padding: tuple[int, int] = (0, 0)
    dilation: tuple[int, int] = (1, 1)
    groups: int = 1

    @property
    def options(self) -> tuple[None, tuple[int, int], tuple[int, int], tuple[int, int], int]:
        """What follows input and weight in conv2d, here and in PyTorch."""
        return None, self.stride, self.padding, self.dilation, self.groups

    @property
    def image_elements(self) -> int:
        """Of input and output."""
        per_axis = zip(
            self.size, self.kernel, self.stride, self.padding, self.dilation, strict=True
        )
        height, width = ((n + 2 * p - d * (r - 1) - 1) // s + 1 for n, r, s, p, d in per_axis)
        return self.channels * self.size[0] * self.size[1] + self.filters * height * width


def layers(file: Path = _LAYERS) -> list[Layer]:
    lines = [line for line in file.read_text().splitlines() if not line.startswith("#")]
    networks = re.split(r"\n(?=\S)", "\n".join(lines))
    return [
        parse(network, " ".join(text.split()))
        for network, texts in (each.split(":") for each in networks)
        for text in texts.split(";")
    ]


def parse(network: str, text: str) -> Layer:
    """Such as "64 56 128 1x3 s2 p0x1"."""
    channels, size, filters, kernel, *options = text.split()
    names = {"s": "stride", "p": "padding", "d": "dilation"}
    per_axis = {names[o[0]]: pair(o[1:]) for o in options if o[0] != "g"}
    groups = next((int(o[1:]) for o in options if o[0] == "g"), 1)
    return Layer(
        network,
        text,
        int(channels),
        pair(size),
        int(filters),
        pair(kernel),
        **per_axis,
        groups=groups,
    )


def pair(text: str) -> tuple[int, int]:
    first, _, second = text.partition("x")
    return int(first), int(second or first)


def main(
    device: Annotated[str, typer.Option(help="cuda or cpu")] = "cuda",
    dtype: Annotated[str, typer.Option(help=f"of {', '.join(DTYPES)}")] = "fp32",
    layout: Annotated[str, typer.Option(help=f"of {', '.join(MEMORY_FORMATS)}")] = "NCHW",
    batch: Annotated[int, typer.Option(help="images at most")] = 128,
    layers_file: Annotated[Path, typer.Option("--layers", help="a list of layers")] = _LAYERS,
    only: Annotated[str, typer.Option(help="comma-separated networks; all if empty")] = "",
    json_file: Annotated[Path | None, typer.Option("--json", help="write the results here")] = None,
) -> None:
    require_known("--device", device, ("cuda", "cpu"))
    require_known("--dtype", dtype, DTYPES)
    require_known("--layout", layout, MEMORY_FORMATS)
    listed = layers(layers_file)
    networks = some("--only", only, {layer.network: None for layer in listed})
    torch.backends.cudnn.benchmark = True
    torch.backends.cudnn.allow_tf32 = dtype == "tf32"
    console = Console()
    picked = [layer for layer in listed if layer.network in networks]
    progress = track(picked, description="layers", console=console)
    rows = [measure(layer, device, dtype, layout, batch) for layer in progress]
    console.print(_of_networks(rows))
    console.print(_slowest(rows))
    if json_file is not None:
        about = {"device": device, "dtype": dtype, "layout": layout, "batch": batch}
        mean = geometric_mean(row["pytorch"] / row["im2win"] for row in rows)
        results = {"machine": machine.describe(), **about, "speedup": mean, "layers": rows}
        json_file.write_text(json.dumps(results, indent=1) + "\n")


def measure(layer: Layer, device: str, dtype: str, layout: str, batch: int) -> dict[str, Any]:
    """Microseconds of a call of either."""
    images = 1
    while 2 * images <= batch and 2 * images * layer.image_elements <= _MOST_ELEMENTS:
        images *= 2

    def random(*shape: int) -> torch.Tensor:
        values = torch.randn(shape, device=device).to(DTYPES[dtype])
        return values.contiguous(memory_format=MEMORY_FORMATS[layout])

    per_filter = (layer.channels // layer.groups, *layer.kernel)
    shape = (images, layer.channels, *layer.size)
    weight = random(layer.filters, *per_filter) / torch.Size(per_filter).numel() ** 0.5
    math = "tf32" if dtype == "tf32" else "fp32"

    def ours(input: Any) -> Any:
        return im2win.conv2d(input, weight, *layer.options, math=math)

    def pytorch(input: Any) -> Any:
        return torch.nn.functional.conv2d(input, weight, *layer.options)

    torch.manual_seed(0)
    itemsize = weight.element_size()
    is_gpu = device == "cuda"
    inputs = (
        device_time.rotating_inputs(shape, lambda: random(*shape), itemsize)
        if is_gpu
        else [random(*shape)]
    )
    _check(layer, ours(inputs[0]), inputs[0], weight, dtype)
    calls = {"im2win": ours, "pytorch": pytorch}
    seconds = (
        {name: device_time.seconds_per_call(call, inputs) for name, call in calls.items()}
        if is_gpu
        else cpu_time.fastest({name: partial(call, inputs[0]) for name, call in calls.items()})
    )
    _, stride, padding, dilation, groups = layer.options
    plan = im2win.Conv2dPlan.like(
        inputs[0],
        weight,
        stride=stride,
        padding=padding,
        dilation=dilation,
        groups=groups,
        math=math,
    )
    about = {"network": layer.network, "layer": layer.text, "images": images}
    times = {name: time * 1e6 for name, time in seconds.items()}
    return {**about, "algorithm": plan.algorithm, **times}


def _check(layer: Layer, output: Any, input: Any, weight: Any, dtype: str) -> None:
    images = input[:_CHECKED_IMAGES].double()
    with torch.backends.cudnn.flags(enabled=False):
        expected = torch.nn.functional.conv2d(images, weight.double(), *layer.options)
    error = (output[:_CHECKED_IMAGES].double() - expected).abs().max()
    rounding = _TF32_ROUNDING if dtype == "tf32" else _ROUNDING[output.dtype]
    if not bool(error <= rounding * expected.abs().max()):
        raise SystemExit(f"wrong result: {layer.network}, {layer.text}")


def _of_networks(rows: list[dict[str, Any]]) -> Table:
    speedups = defaultdict(list)
    for row in rows:
        speedups[row["network"]].append(row["pytorch"] / row["im2win"])
    table = Table(title="PyTorch's time over im2win's, geometric mean and range")
    for column in ("network", "layers", "mean", "least", "most"):
        table.add_column(column, justify="left" if column == "network" else "right")
    everything = [speedup for each in speedups.values() for speedup in each]
    for network, each in (*speedups.items(), ("all", everything)):
        numbers = (f"{x:.2f}" for x in (geometric_mean(each), min(each), max(each)))
        table.add_row(network, str(len(each)), *numbers, end_section=network == "all")
    return table


def _slowest(rows: list[dict[str, Any]]) -> Table:
    table = Table(title="where PyTorch is furthest ahead, microseconds")
    for column in ("network", "layer", "images", "algorithm", "im2win", "PyTorch"):
        table.add_column(column, justify="right" if column in ("im2win", "PyTorch") else "left")
    for row in sorted(rows, key=lambda row: row["pytorch"] / row["im2win"])[:_SLOWEST]:
        about = (row["network"], row["layer"], str(row["images"]), row["algorithm"])
        table.add_row(*about, f"{row['im2win']:.1f}", f"{row['pytorch']:.1f}")
    return table


if __name__ == "__main__":
    typer.run(main)
