"""Bias, residual and activation on a GPU: here in the convolution's kernel, in PyTorch after it.

    python bench/epilogues_gpu.py --json bench/results/FILE.json

Layers of ResNet-50, random data. Each result is checked against float64 before it is timed.
"""

import json
from collections.abc import Callable
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
from case import DEVICE, DTYPES, MEMORY_FORMATS, Case
from device_time import rotating_inputs, seconds_per_call
from im2win.layers import Layer
from measurement import BOUNDS_OF_PEERS

LAYERS = (
    Layer("64x56-256k1", 64, 56, 256, 1, 1),
    Layer("128x28-128k3", 128, 28, 128, 3, 1, 1),
    Layer("512x14-512k3s2", 512, 14, 512, 3, 2, 1),
    Layer("3x224-64k7s2", 3, 224, 64, 7, 2, 3),
)
FORMS = tuple(product(("fp32", "tf32", "fp16"), MEMORY_FORMATS))
_identity: Callable[[Any], Any] = lambda x: x  # noqa: E731


class Epilogue(NamedTuple):
    activation: str | None
    function: Callable[[Any], Any]  # PyTorch's
    has_residual: bool


EPILOGUES = {
    "none": Epilogue(None, _identity, False),
    "ReLU": Epilogue("relu", torch.relu, False),
    "residual, ReLU": Epilogue("relu", torch.relu, True),
    "SiLU": Epilogue("silu", torch.nn.functional.silu, False),
}


def main(
    batch: Annotated[int, typer.Option(help="images in a batch")] = 128,
    json_file: Annotated[Path | None, typer.Option("--json", help="write the results here")] = None,
) -> None:
    torch.backends.cudnn.benchmark = True
    console = Console()
    cases = [
        (Case(layer, batch, *form), name)
        for layer in LAYERS
        for form in FORMS
        for name in EPILOGUES
    ]
    rows = [measure(*each) for each in track(cases, description="epilogues", console=console)]
    console.print(_table(rows, batch))
    if json_file is not None:
        results = {"machine": machine.describe(), "batch": batch, "layers": rows}
        json_file.write_text(json.dumps(results, indent=1) + "\n")


def measure(case: Case, name: str) -> dict[str, Any]:
    """Microseconds of both, with a bias unless the epilogue is none."""
    epilogue, layer, dtype = EPILOGUES[name], case.layer, DTYPES[case.dtype]
    torch.manual_seed(0)
    inputs = rotating_inputs(case.input_shape, case.input, dtype.itemsize)
    weight = case.weight() / float(layer.channels * layer.kernel**2) ** 0.5
    bias = None if name == "none" else torch.randn(layer.filters, device=DEVICE).to(dtype)
    residual = case.empty_output().normal_() if epilogue.has_residual else None
    window: dict[str, Any] = {"stride": layer.stride, "padding": layer.padding}

    def pytorch(input: Any, weight: Any, bias: Any, residual: Any) -> Any:
        output = torch.nn.functional.conv2d(input, weight, bias, **window)
        if residual is not None:
            output = output.add_(residual)
        return epilogue.function(output)

    torch.backends.cudnn.allow_tf32 = torch.backends.cuda.matmul.allow_tf32 = case.allows_tf32
    addends: dict[str, Any] = {"weight": weight, "bias": bias, "residual": residual}
    options = {
        **addends,
        **window,
        "activation": epilogue.activation,
        "math": "tf32" if case.allows_tf32 else "fp32",
    }

    def ours(input: Any) -> Any:
        return im2win.conv2d(input, **options)

    _check(ours(inputs[0]), inputs[0], addends, pytorch, case)
    times = {
        "im2win": seconds_per_call(ours, inputs),
        "pytorch": seconds_per_call(partial(pytorch, **addends), inputs),
    }
    about = {"layer": layer.name, "dtype": case.dtype, "layout": case.layout, "epilogue": name}
    return about | {who: seconds * 1e6 for who, seconds in times.items()}


def _check(
    output: Any, input: Any, addends: dict[str, Any], pytorch: Callable[..., Any], case: Case
) -> None:
    """That no output is further off than a correct one may be: sums are of magnitude one here."""
    wide = {name: x if x is None else x.double() for name, x in addends.items()}
    with torch.backends.cudnn.flags(enabled=False):
        expected = pytorch(input.double(), **wide)
    error = (output.double() - expected).abs() / (1 + expected.abs())
    if not float(error.max()) <= BOUNDS_OF_PEERS[case.dtype]:
        raise SystemExit(f"wrong result: {case}, off by {float(error.max())}")


def _table(rows: list[dict[str, Any]], batch: int) -> Table:
    table = Table(title=f"Epilogues, batch {batch}: microseconds")
    for column in ("layer", "dtype", "layout", "epilogue"):
        table.add_column(column)
    for column in ("im2win", "PyTorch", "PyTorch / im2win"):
        table.add_column(column, justify="right")
    for row in rows:
        ours, peer = row["im2win"], row["pytorch"]
        cells = (row["layer"], row["dtype"], row["layout"], row["epilogue"])
        table.add_row(*cells, f"{ours:.1f}", f"{peer:.1f}", f"{peer / ours:.2f}")
    return table


if __name__ == "__main__":
    typer.run(main)
