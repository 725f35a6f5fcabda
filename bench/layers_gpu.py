"""Layers on a GPU: the algorithms of this library beside their peers, in one run.

    python bench/layers_gpu.py --dtype fp16 --layout NHWC --json bench/results/FILE.json

Random data. Every output of the whole batch is checked against float64 before it is timed; 2 * MACs
count as FLOP. Memory is what a call needs beyond input, filter and output.
"""

import json
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import torch
import typer
from rich.console import Console
from rich.progress import track

import im2win
import machine
import report
from candidates import our_candidates, peer_candidates
from case import DTYPES, MEMORY_FORMATS, Case, Expected
from device_time import rotating_inputs
from im2win.layers import NETWORKS
from measurement import compare_errors, measure
from options import require_known, some
from peers import PEERS, missing
from summary import Results, mean_speedup, network_speedup, pairs

_WIDTH_OF_LOGS = 120


def main(
    dtype: Annotated[str, typer.Option(help=f"of {', '.join(DTYPES)}")] = "fp32",
    layout: Annotated[str, typer.Option(help=f"of {', '.join(MEMORY_FORMATS)}")] = "NCHW",
    batch: Annotated[int, typer.Option(help="images in a batch")] = 128,
    layers: Annotated[str, typer.Option(help=f"of {', '.join(NETWORKS)}")] = "twelve",
    only: Annotated[str, typer.Option(help="comma-separated layers; all if empty")] = "",
    algorithms: Annotated[
        str, typer.Option(help="ours, comma-separated; if empty, all that take the layer")
    ] = "",
    peers: Annotated[str, typer.Option(help="comma-separated; all if empty")] = "",
    errors: Annotated[bool, typer.Option(help="compare errors on three kinds of data")] = False,
    json_file: Annotated[Path | None, typer.Option("--json", help="write the results here")] = None,
) -> None:
    require_known("--dtype", dtype, DTYPES)
    require_known("--layout", layout, MEMORY_FORMATS)
    require_known("--layers", layers, NETWORKS)
    names = some("--only", only, [layer.name for layer in NETWORKS[layers]])
    ours = some("--algorithms", algorithms, im2win.algorithms("cuda")) if algorithms else None
    console = Console(width=None if sys.stdout.isatty() else _WIDTH_OF_LOGS)
    installed = [n for n in some("--peers", peers, PEERS) if is_installed(n, console)]
    cases = [Case(each, batch, dtype, layout) for each in NETWORKS[layers] if each.name in names]
    results = Results()
    for case in track(cases, description="layers", console=console):
        measure_layer(case, ours, installed, errors, results)
    report.show(console, f"{layers}, {dtype}, {layout}, batch {batch}", results)
    if json_file is not None:
        about = {"layers": layers, "dtype": dtype, "layout": layout, "batch": batch}
        found = pairs(results.rows)
        speedups = {"geometric_mean": mean_speedup(found), "all_layers": network_speedup(found)}
        document = {"machine": machine.describe(), **about, "speedup": speedups, **asdict(results)}
        json_file.write_text(json.dumps(document, indent=1) + "\n")
    if results.is_wrong:
        raise typer.Exit(1)


def is_installed(peer: str, console: Console) -> bool:
    reason = missing(peer)
    if reason is not None:
        console.print(f"{peer}: not installed: {reason}")
    return reason is None


def measure_layer(
    case: Case, ours: list[str] | None, peers: list[str], errors: bool, results: Results
) -> None:
    """Adds what there is to say of one layer to the results."""
    torch.manual_seed(0)
    itemsize = DTYPES[case.dtype].itemsize
    inputs = rotating_inputs(case.input_shape, case.input, itemsize)
    weight = case.weight()
    candidates = [*our_candidates(case, ours, inputs[0], weight), *peer_candidates(case, peers)]
    expected = Expected(case.layer, inputs[0], weight)
    rows = []
    for candidate in candidates:
        try:
            rows.append(measure(case, candidate, inputs, weight, expected))
        except RuntimeError as error:  # of this library, of PyTorch and of cuDNN
            refused = getattr(error, "status", None) == "IM2WIN_UNSUPPORTED"
            results.is_wrong |= not candidate.is_peer and not refused
            reason = str(error).partition("\n")[0]
            refusal = {"layer": case.layer.name, "algorithm": candidate.name, "reason": reason}
            results.refusals.append(refusal)
    results.rows += rows
    del inputs, expected  # gigabytes
    if errors:
        compared = {row.algorithm for pair in pairs(rows) for row in (pair.ours, pair.peer) if row}
        results.errors += compare_errors(case, [c for c in candidates if c.name in compared])


if __name__ == "__main__":
    typer.run(main)
