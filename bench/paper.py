"""The evaluation of the im2win paper, whole, on this machine: its GPU, or else its CPU.

    python bench/paper.py RESULTS_FOLDER

All systems that the paper names, on its twelve layers. Random data; every output is checked
against float64 before it is timed. 2 x MACs count as FLOP. Memory is measured. Writes results.json,
report.md and, with matplotlib, the paper's figures 2 to 4 as PNG and SVG. What is not installed is
a line. CUDA_VISIBLE_DEVICES="" asks for the CPU on a machine with a GPU.
"""

import json
import sys
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType
from typing import Annotated

import typer
from rich.console import Console
from rich.markup import escape
from rich.progress import track

import im2win
import machine
import paper_figures
import paper_report
from im2win.layers import LAYERS
from options import require_known, some
from paper_rows import Study

_DTYPES = ("fp32", "tf32", "fp16", "bf16")
_BATCHES = {"cuda": 128, "cpu": 4}
_WIDTH_OF_LOGS = 120


def main(
    folder: Annotated[Path, typer.Argument(help="for the results; made if need be")],
    layers: Annotated[str, typer.Option(help="such as conv1,conv12; all if empty")] = "",
    batch: Annotated[int, typer.Option(help="128 on a GPU and 4 on a CPU if 0")] = 0,
    dtype: Annotated[str, typer.Option(help=f"of {', '.join(_DTYPES)}; fp32 on a CPU")] = "fp32",
    peers: Annotated[str, typer.Option(help="comma-separated; all if empty")] = "",
) -> None:
    console = Console(width=None if sys.stdout.isatty() else _WIDTH_OF_LOGS)
    device, backend = _backend()
    require_known("--dtype", dtype, _DTYPES if device == "cuda" else _DTYPES[:1])
    picked = some("--layers", layers, [layer.name for layer in LAYERS])
    study = Study(device, dtype, batch or _BATCHES[device], machine=machine.describe())
    installed = []
    for peer in some("--peers", peers, backend.PEERS):
        reason = backend.why_missing(peer)
        if reason is None:
            installed.append(peer)
        else:
            study.missing[peer] = reason
    for layer in track([x for x in LAYERS if x.name in picked], "layers", console=console):
        backend.measure_layer(study, layer, installed)
        _save(study, folder)  # after each layer, in case it is all that there is time for
    _report(study, folder, console)
    if study.is_wrong:
        raise typer.Exit(1)


def _backend() -> tuple[str, ModuleType]:
    """The GPU's where this library and PyTorch both have one."""
    if len(im2win.info().devices) > 1 and find_spec("torch"):
        import torch

        if torch.cuda.is_available():
            import paper_gpu

            return "cuda", paper_gpu
    import cpu_peers
    import paper_cpu

    cpu_peers.reuse_freed_memory()
    return "cpu", paper_cpu


def _save(study: Study, folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    document = json.dumps(study.json(), indent=1)
    (folder / "results.json").write_text(document + "\n", encoding="utf-8")


def _report(study: Study, folder: Path, console: Console) -> None:
    text = paper_report.report(study)
    (folder / "report.md").write_text(text + "\n", encoding="utf-8")
    console.print(escape(text), soft_wrap=True)
    if find_spec("matplotlib") is None:
        console.print("no figures: matplotlib is not installed")
    else:
        for path in paper_figures.save(study, folder):
            console.print(f"wrote {path}")


if __name__ == "__main__":
    typer.run(main)
