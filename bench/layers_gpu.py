"""The paper's twelve layers on a GPU: every algorithm beside its peers, in one run.

    python bench/layers_gpu.py --batch 128 --json bench/results/FILE.json

float32, NCHW, random data. Each result is checked against float64 before it is timed; 2 * MACs
count as FLOP. Memory is what a call needs beyond input, filter and output.
"""

import json
from collections.abc import Callable
from itertools import groupby
from operator import itemgetter
from pathlib import Path
from typing import Annotated, Any

import torch
import typer
from rich.console import Console
from rich.progress import track
from rich.table import Table

import host_time
import im2win
import machine
from device_time import rotating_inputs, seconds_per_call
from im2win.layers import LAYERS, Layer
from peers import PEERS, Convolution

_CHECKED_IMAGES = 2


def main(
    batch: Annotated[int, typer.Option(help="images in a batch")] = 128,
    json_file: Annotated[Path | None, typer.Option("--json", help="write the results here")] = None,
    layers: Annotated[str, typer.Option(help="comma-separated names; all if empty")] = "",
) -> None:
    torch.backends.cuda.matmul.allow_tf32 = False
    wanted = [name for name in layers.split(",") if name]
    chosen = [layer for layer in LAYERS if not wanted or layer.name in wanted]
    console = Console()
    rows: list[dict[str, Any]] = []
    for layer in track(chosen, description="layers", console=console):
        rows += measure_layer(layer, batch)
    results = {
        "machine": machine.describe(),
        "batch": batch,
        "dtype": "float32",
        "layers": rows,
        "host_microseconds_per_call": host_time.measure(),
    }
    console.print(_table(rows))
    console.print(results["host_microseconds_per_call"])
    if json_file is not None:
        json_file.write_text(json.dumps(results, indent=1) + "\n")


def measure_layer(layer: Layer, batch: int) -> list[dict[str, Any]]:
    """A row for each algorithm of the library and each peer."""
    generator = torch.Generator("cuda").manual_seed(0)
    shape = layer.input_shape(batch)

    def random(sizes: tuple[int, ...]) -> torch.Tensor:
        return torch.randn(sizes, device="cuda", generator=generator)

    inputs = rotating_inputs(shape, lambda: random(shape))
    weight = random(layer.weight_shape)
    candidates: dict[str, Convolution] = {
        name: _ours(name, weight, layer.stride) for name in _algorithms(layer, batch)
    }
    candidates |= {name: make(weight, layer.stride) for name, make in PEERS.items()}
    expected, scale = _reference(inputs[0][:_CHECKED_IMAGES], weight, layer.stride)
    rows = []
    for name, convolve in candidates.items():
        error = _largest_error(convolve(inputs[0]), expected, scale)
        seconds = seconds_per_call(convolve, inputs)
        rows.append(
            {
                "layer": layer.name,
                "algorithm": name,
                "milliseconds": seconds * 1e3,
                "tflops": layer.flops(batch) / seconds / 1e12,
                "extra_bytes": _extra_bytes(convolve, inputs[0]),
                "largest_error": error,
            }
        )
    return rows


def _algorithms(layer: Layer, batch: int) -> list[str]:
    """Those that take the layer."""
    shapes = layer.input_shape(batch), layer.weight_shape
    plan = im2win.Conv2dPlan(*shapes, stride=layer.stride, device="cuda")
    return [name for name, refusal in plan.algorithms().items() if refusal is None]


def _ours(algorithm: str, weight: Any, stride: int) -> Convolution:
    return lambda input: im2win.conv2d(input, weight, stride=stride, algorithm=algorithm)


def _reference(images: Any, weight: Any, stride: int) -> tuple[Any, Any]:
    """The convolution in float64, and that of the absolute values, which errors are relative to."""
    make = PEERS["im2col+cublas"]
    images, weight = images.double(), weight.double()
    return make(weight, stride)(images), make(weight.abs(), stride)(images.abs())


def _largest_error(output: Any, expected: Any, scale: Any) -> float:
    """The largest |y - ref| / sum |x||w| of the checked images, every element of the rest finite.

    Fails above 1e-4, which no correct float32 convolution, Winograd's included, comes near.
    """
    error = float(((output[: len(expected)].double() - expected).abs() / scale).max())
    if not error < 1e-4 or not bool(torch.isfinite(output).all()):
        raise SystemExit(f"wrong result: the largest relative error is {error}")
    return error


def _extra_bytes(convolve: Callable[[Any], Any], input: Any) -> int:
    """Peak memory of a call beyond what it returns."""
    torch.cuda.synchronize()
    torch.cuda.empty_cache()
    before = torch.cuda.memory_allocated()
    torch.cuda.reset_peak_memory_stats()
    output = convolve(input)
    torch.cuda.synchronize()
    return int(torch.cuda.max_memory_allocated() - before - output.untyped_storage().nbytes())


def _table(rows: list[dict[str, Any]]) -> Table:
    """A row for each layer and algorithm, cuDNN's time over each one's beside it."""
    table = Table(title="float32, NCHW")
    for column in ("layer", "algorithm", "ms", "TFLOP/s", "cuDNN / it", "extra MiB", "error"):
        table.add_column(column, justify="left" if column in ("layer", "algorithm") else "right")
    for layer, group in groupby(rows, key=itemgetter("layer")):
        cells = list(group)
        cudnn = next(row["milliseconds"] for row in cells if row["algorithm"] == "cudnn")
        for row in cells:
            table.add_row(
                layer if row is cells[0] else "",
                row["algorithm"],
                f"{row['milliseconds']:.3f}",
                f"{row['tflops']:.1f}",
                f"{cudnn / row['milliseconds']:.2f}",
                f"{row['extra_bytes'] / 2**20:.1f}",
                f"{row['largest_error']:.1e}",
                end_section=row is cells[-1],
            )
    return table


if __name__ == "__main__":
    typer.run(main)
