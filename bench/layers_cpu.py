"""The paper's twelve layers and ResNet-50's on a CPU: im2win beside its peers, in one run.

    python bench/layers_cpu.py --json bench/results/FILE.json
    python bench/layers_cpu.py --dtype bfloat16 --cap avx512

Random data, all threads. Each result is checked against float64 before it is timed; 2 * MACs count
as FLOP. im2win, and ONNX Runtime where it is installed (for float32), write to an output that is
given; PyTorch's oneDNN allocates it in memory that is mapped already. im2win rearranges the weight
in every call, as oneDNN does in PyTorch; "packed" is im2win with a weight rearranged beforehand, as
ONNX Runtime has it, "capped" im2win without the instructions above those of --cap.
"""

import json
import math
import os
from collections.abc import Callable
from itertools import product
from pathlib import Path
from statistics import geometric_mean
from typing import Annotated, Any

import torch
import typer
from rich.console import Console
from rich.progress import track
from rich.table import Table

import cpu_peers
import im2win
import machine
from cpu_time import fastest
from im2win import reference
from im2win.layers import LAYERS, RESNET50, Layer

_FORMATS = {"NCHW": torch.contiguous_format, "NHWC": torch.channels_last}
# As they treat the weight.
_COMPARED = {"oneDNN": "im2win", "ONNX Runtime": "packed", "capped": "im2win"}
_ALL_LAYERS = (*LAYERS, *RESNET50)
Call = Callable[[], Any]  # returns a tensor, or an array


def main(
    batches: Annotated[str, typer.Option(help="images in a batch")] = "1,4,16",
    layouts: Annotated[str, typer.Option(help="of input and output")] = "NCHW,NHWC",
    layers: Annotated[str, typer.Option(help="comma-separated beginnings of names")] = "",
    dtype: Annotated[str, typer.Option(help="float32 or bfloat16")] = "float32",
    cap: Annotated[str, typer.Option(help="a value of IM2WIN_CPU_ISA to compare with")] = "",
    json_file: Annotated[Path | None, typer.Option("--json", help="write the results here")] = None,
) -> None:
    cpu_peers.reuse_freed_memory()
    torch.manual_seed(0)
    chosen = [layer for layer in _ALL_LAYERS if layer.name.startswith(tuple(layers.split(",")))]
    cases = list(product(layouts.split(","), map(int, batches.split(",")), chosen))
    console = Console()
    rows = [
        measure(layer, batch, layout, dtype, cap)
        for layout, batch, layer in track(cases, description="layers", console=console)
    ]
    for layout, batch in product(layouts.split(","), map(int, batches.split(","))):
        some = [row for row in rows if (row["layout"], row["batch"]) == (layout, batch)]
        console.print(
            _table(some, f"{dtype}, {layout}, batch {batch}: milliseconds, and im2win's GFLOP/s")
        )
    if json_file is not None:
        results = {
            "machine": machine.describe(),
            "threads": torch.get_num_threads(),
            "dtype": dtype,
            "cap": cap or None,
            "layers": rows,
        }
        json_file.write_text(json.dumps(results, indent=1) + "\n")


def measure(layer: Layer, batch: int, layout: str, dtype: str, cap: str) -> dict[str, Any]:
    """Milliseconds of each candidate."""

    def laid_out(tensor: torch.Tensor) -> torch.Tensor:
        return tensor.to(getattr(torch, dtype), memory_format=_FORMATS[layout])

    input = laid_out(torch.randn(layer.input_shape(batch)))
    weight = laid_out(torch.randn(layer.weight_shape))
    out = laid_out(torch.empty(batch, layer.filters, layer.output_size, layer.output_size))
    padding = layer.padding
    calls = _ours(input, weight, out, layout, cap, {"stride": layer.stride, "padding": padding})
    calls["oneDNN"] = cpu_peers.pytorch(input, weight, layer.stride, padding)
    peer = "ONNX Runtime"
    if (layout, dtype) == ("NCHW", "float32") and cpu_peers.missing(peer) is None:
        calls[peer] = cpu_peers.PEERS[peer](input.numpy(), weight.numpy(), layer.stride, padding)
    errors = _errors(calls, input, weight, layer.stride, padding)
    seconds = fastest(calls)
    return {
        "layer": layer.name,
        "layout": layout,
        "batch": batch,
        "flops": layer.flops(batch),
        "milliseconds": {name: 1e3 * value for name, value in seconds.items()},
        "largest_errors": errors,
    }


def _ours(
    input: torch.Tensor,
    weight: torch.Tensor,
    out: torch.Tensor,
    layout: str,
    cap: str,
    geometry: Any,
) -> dict[str, Call]:
    """They return `out`."""
    tensors = [input, weight, out]
    if layout == "NHWC":  # in shape too, as a plan takes tensors that are dense in their shape
        tensors = [tensor.permute(0, 2, 3, 1) for tensor in tensors]
    x, w, y = tensors
    geometry = geometry | {"layout": layout, "dtype": str(out.dtype).removeprefix("torch.")}
    plan = im2win.Conv2dPlan(x.shape, w.shape, **geometry)
    packed = plan.pack(w)

    def call(convolve: Callable[[], Any]) -> Call:
        return lambda: (convolve(), out)[1]

    calls = {
        "im2win": call(lambda: plan(x, w, out=y)),
        "packed": call(lambda: packed(x, out=y)),
    }
    if cap:
        os.environ["IM2WIN_CPU_ISA"] = cap
        capped = im2win.Conv2dPlan(x.shape, w.shape, **geometry)
        del os.environ["IM2WIN_CPU_ISA"]
        calls["capped"] = call(lambda: capped(x, w, out=y))
    return calls


def _errors(
    calls: dict[str, Call],
    input: torch.Tensor,
    weight: torch.Tensor,
    stride: int,
    padding: int,
) -> dict[str, float]:
    """The largest |y - reference| / (sum |x||w| + |reference|) of the first and the last image.

    Fails above what sums in float32 of so many products may err by, rounded to the dtype.
    """
    ends = sorted({0, len(input) - 1})
    images, filters = input[ends].double(), weight.double()
    conv2d = torch.nn.functional.conv2d
    expected = conv2d(images, filters, stride=stride, padding=padding).numpy()
    scale = conv2d(images.abs(), filters.abs(), stride=stride, padding=padding).numpy()
    bound = reference.bound(str(input.dtype).removeprefix("torch."), weight[0].numel())
    errors = {}
    for name, call in calls.items():
        output = torch.as_tensor(call())
        actual = output[ends].double().numpy()
        error = float(reference.relative_error(actual, expected, scale).max())
        if not error <= bound:
            raise SystemExit(f"{name} is wrong: its largest relative error is {error}")
        errors[name] = error
        output.fill_(math.nan)  # for the next one that writes to it
    return errors


def _table(rows: list[dict[str, Any]], title: str) -> Table:
    """A row a layer; the last one has the geometric means of the ratios."""
    names = list(rows[0]["milliseconds"])
    pairs = [(peer, own) for peer, own in _COMPARED.items() if peer in names]
    table = Table(title=title)
    table.add_column("layer", no_wrap=True)
    table.add_column("GFLOP/s", justify="right")
    for name in (*names, *(f"{peer} / {own}" for peer, own in pairs)):
        table.add_column(name, justify="right")
    ratios: list[list[float]] = []
    for row in rows:
        times = row["milliseconds"]
        ratios.append([times[peer] / times[own] for peer, own in pairs])
        table.add_row(
            row["layer"],
            f"{row['flops'] / times['im2win'] / 1e6:.0f}",
            *(f"{ms:.3f}" for ms in times.values()),
            *(f"{ratio:.2f}" for ratio in ratios[-1]),
        )
    table.add_section()
    means = [f"{geometric_mean(column):.2f}" for column in zip(*ratios, strict=True)]
    table.add_row("geometric mean", "", *("" for _ in names), *means)
    return table


if __name__ == "__main__":
    typer.run(main)
