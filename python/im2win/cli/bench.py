"""`im2win bench`: the twelve layers of the paper on this machine."""

import json
from collections.abc import Sequence
from dataclasses import asdict
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated

import typer
from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

from im2win._info import Info, algorithms
from im2win._info import info as find_info
from im2win.cli.machine import chosen, chosen_devices, console, print_machine
from im2win.cli.measure import Case, Measurement, Refusal, checked_images
from im2win.cli.plot import save_plot
from im2win.layers import LAYERS, Layer

_CPU_BATCH, _CUDA_BATCH = 1, 128
Results = Sequence[Measurement | Refusal]


def bench(
    device: Annotated[str | None, typer.Option(help="Such as cuda; a GPU by default.")] = None,
    batch: Annotated[
        int | None, typer.Option(min=1, help="Images; 1 on the CPU and 128 on CUDA by default.")
    ] = None,
    layers: Annotated[
        str | None, typer.Option(help="Such as conv1,conv12; all by default.")
    ] = None,
    algorithm_names: Annotated[
        str | None, typer.Option("--algorithms", help="Such as im2win,direct; all by default.")
    ] = None,
    repeats: Annotated[
        int, typer.Option(min=1, help="Samples of each, fewer if they take long.")
    ] = 20,
    json_file: Annotated[
        Path | None, typer.Option("--json", metavar="FILE", help="Write the results as JSON.")
    ] = None,
    plot_file: Annotated[
        Path | None, typer.Option("--plot", metavar="FILE.png", help="Draw the results.")
    ] = None,
) -> None:
    """Check, then time the twelve layers of the im2win paper on the best backend here."""
    if plot_file is not None and find_spec("matplotlib") is None:
        raise typer.BadParameter("--plot needs matplotlib: pip install 'im2win[plot]'")
    found = find_info()
    best = list(found.devices)[min(1, len(found.devices) - 1)]
    device, *others = chosen_devices(device or best, found)
    if others:
        raise typer.BadParameter(f"--device {device} and {', '.join(others)}: expected one")
    batch = batch or (_CPU_BATCH if device == "cpu" else _CUDA_BATCH)
    picked_names = chosen("--layers", layers, tuple(layer.name for layer in LAYERS))
    picked = [layer for layer in LAYERS if layer.name in picked_names]
    names = chosen("--algorithms", algorithm_names, algorithms(device))
    print_machine(found)
    results = _run(picked, names, device, batch, repeats)
    if algorithm_names is None:  # those that nobody asked for may refuse in silence
        results = [each for each in results if not isinstance(each, Refusal)]
    _print(results, device, batch)
    if json_file is not None:
        _write_json(json_file, results, found, device, batch)
    if plot_file is not None:
        _draw(plot_file, results, found, device, batch)
    if any(map(_is_wrong, results)):
        raise typer.Exit(1)


def _run(
    layers: Sequence[Layer], names: Sequence[str], device: str, batch: int, repeats: int
) -> Results:
    results: list[Measurement | Refusal] = []
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
    )
    with Progress(*columns, console=console, transient=True) as progress:
        task = progress.add_task("", total=len(layers) * len(names))
        for layer in layers:
            progress.update(task, description=f"{layer.name} reference")
            case = Case(layer, batch, device)
            for name in names:
                progress.update(task, description=f"{layer.name} {name}")
                results.append(case.measure(name, repeats))
                progress.advance(task)
    return results


def _print(results: Results, device: str, batch: int) -> None:
    console.print(_table(results, device, batch))
    for reason in dict.fromkeys(each.reason for each in results if isinstance(each, Refusal)):
        console.print(f"refused: {escape(reason)}", soft_wrap=True)
    if any(map(_is_wrong, results)):
        console.print("[red]failed[/red]: an error is above its bound")


def _table(results: Results, device: str, batch: int) -> Table:
    images = [image + 1 for image in checked_images(batch)]
    which = "all images" if len(images) == batch else f"images {images[0]} and {images[-1]}"
    table = Table(
        title=f"The paper's twelve layers in float32 on {device}, batch {batch}",
        caption="Times are medians of whole calls; GFLOP/s count 2 for each multiplication with "
        f"its addition. Errors are the largest |y - reference| / (sum |x||w| + |y|) of {which}, "
        "against float64 NumPy.",
        caption_justify="left",
    )
    table.add_column("layer")
    table.add_column("algorithm")
    for heading in ("time, ms", "GFLOP/s", "extra, MiB", "error"):
        table.add_column(heading, justify="right")
    layer = ""
    for each in results:
        if layer not in ("", each.layer):
            table.add_section()
        name, layer = ("" if each.layer == layer else each.layer), each.layer
        table.add_row(name, each.algorithm, *_cells(each), style="red" if _is_wrong(each) else None)
    return table


def _cells(result: Measurement | Refusal) -> tuple[str, ...]:
    if isinstance(result, Refusal):
        return "refused", "", "", ""
    return (
        f"{result.median_seconds * 1e3:.3f}",
        f"{result.gflops:,.1f}",
        f"{result.workspace_bytes / 2**20:,.1f}",
        f"{result.error:.1e}",
    )


def _is_wrong(result: Measurement | Refusal) -> bool:
    return isinstance(result, Measurement) and result.error > result.error_bound


def _draw(path: Path, results: Results, found: Info, device: str, batch: int) -> None:
    title = f"im2win {found.version}, batch {batch}: {found.devices[device]}"
    save_plot(path, [each for each in results if isinstance(each, Measurement)], title)


def _write_json(path: Path, results: Results, found: Info, device: str, batch: int) -> None:
    document = {
        "version": found.version,
        "device": device,
        "description": found.devices[device],
        "batch": batch,
        "dtype": "float32",
        "checked_images": checked_images(batch),
        "results": [asdict(each) for each in results],
    }
    path.write_text(json.dumps(document, indent=2) + "\n", encoding="utf-8")
