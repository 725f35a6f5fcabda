"""Tables of what bench/ has measured, from bench/results."""

import json
import sys
from collections.abc import Iterable
from pathlib import Path
from statistics import geometric_mean
from typing import Any

BENCH = Path(__file__).parents[2] / "bench"
sys.path.insert(0, str(BENCH))
from summary import Row, mean_speedup, pairs  # noqa: E402
from tables import table  # noqa: E402

_NETWORKS = {
    "twelve": "The paper's twelve layers",
    "resnet50": "ResNet-50",
    "vgg16": "VGG-16",
}
_GPUS = ("h200", "h100")
_MIB = 2**20
_CPU_RUNS = (
    "cpu/amd_epyc_fp32.json",
    "cpu/amd_epyc_zen5_fp32.json",
    "cpu/amd_epyc_zen5_bf16.json",
)


def glance() -> str:
    """Geometric means of all that has been measured."""
    rows = [
        [f"{title}, {kind}", machine, f"{mean:.2f}", f"{low:.2f} to {high:.2f}"]
        for title, kind, machine, (mean, low, high) in (*_gpu_means(), *_cpu_means())
    ]
    return table(["layers", "machine", "fastest peer's time / ours", "range"], rows)


def gpu_layers() -> str:
    """A section for each run of bench/layers_gpu.py."""
    return "\n\n".join(_gpu_section(run) for run in _gpu_runs())


def depthwise() -> str:
    runs = _load("h200/depthwise_batch128.json")
    rows = []
    for (dtype, layout), layers in _by(runs["layers"], "dtype", "layout"):
        peer = _spread(row["cudnn"] / row["depthwise"] for row in layers)
        copy = _spread(row["depthwise"] / row["copy"] for row in layers)
        silu = _spread(row["cudnn_silu"] / row["depthwise_silu"] for row in layers)
        rows.append([dtype, layout, *map(_spread_text, (peer, copy, silu))])
    header = [
        "dtype",
        "layout",
        "cuDNN's time / ours",
        "our time / a copy of the same bytes",
        "with SiLU, cuDNN's and PyTorch's time / ours",
    ]
    return f"{_machine(runs)}, batch {runs['batch']}.\n\n{table(header, rows)}"


def cpu_layers() -> str:
    """A section for each run of bench/layers_cpu.py."""
    return "\n\n".join(_cpu_section(_load(path)) for path in _CPU_RUNS)


def _cpu_section(runs: dict[str, Any]) -> str:
    rows = []
    for (layout, batch), layers in _by(runs["layers"], "layout", "batch"):
        spread = _spread(_cpu_speedup(row) for row in layers)
        rates = [row["flops"] / row["milliseconds"]["im2win"] / 1e6 for row in layers]
        rows.append([layout, batch, _spread_text(spread), f"{min(rates):.0f} to {max(rates):.0f}"])
    header = ["layout", "batch", "oneDNN's time / ours", "our GFLOP/s"]
    return f"{_machine(runs)}, {runs['dtype']}.\n\n{table(header, rows)}"


def host_time() -> str:
    runs = _load("h200/host_time.json")
    rows = [[name, f"{time:.1f}"] for name, time in runs["microseconds_per_call"].items()]
    return f"{_machine(runs)}.\n\n{table(['call', 'µs of host time'], rows)}"


def epilogues() -> str:
    runs = _load("h200/epilogues_batch128.json")
    rows = []
    for (dtype, layout, epilogue), layers in _by(runs["layers"], "dtype", "layout", "epilogue"):
        spread = _spread(row["pytorch"] / row["im2win"] for row in layers)
        rows.append([dtype, layout, epilogue, _spread_text(spread)])
    header = ["dtype", "layout", "after the convolution", "PyTorch / im2win"]
    return f"{_machine(runs)}.\n\n{table(header, rows)}"


def wheel() -> str:
    """What release/check_wheel.py has measured."""
    report = _load("wheel.json")
    rows = [
        [f"{kind} for {int(number) / 10:.1f}", f"{size / 1e6:.2f}"]
        for (kind, number), size in (
            (name.split(), size) for name, size in report["device_code_bytes"].items()
        )
    ]
    code = sum(report["device_code_bytes"].values())
    rows.append(
        ["code for CPUs, and the runtimes", f"{(report['library_bytes'] - code) / 1e6:.2f}"]
    )
    rows.append(["**the library**", f"{report['library_bytes'] / 1e6:.2f}"])
    rows.append(["**the wheel**, which is compressed again", f"{report['wheel_bytes'] / 1e6:.2f}"])
    return table(["part", "MB"], rows)


def _gpu_runs() -> list[dict[str, Any]]:
    folders = (BENCH / "results" / gpu for gpu in _GPUS)
    loaded = [_load(path) for folder in folders for path in sorted(folder.glob("*.json"))]
    runs = [run for run in loaded if "rows" in run]
    return sorted(runs, key=lambda run: (list(_NETWORKS).index(run["layers"]), run["dtype"]))


def _gpu(run: dict[str, Any]) -> str:
    name: str = run["machine"]["devices"]["cuda:0"]
    return next(gpu.upper() for gpu in _GPUS if gpu.upper() in name)


def _gpu_section(run: dict[str, Any]) -> str:
    found = pairs(Row(**row) for row in run["rows"])
    lines = []
    for pair in found:
        layer = next(row.layer for row in (pair.ours, pair.peer) if row)
        speedup = "" if pair.speedup is None else f"{pair.speedup:.2f}"
        rate = f"{pair.ours.tflops:.3g}" if pair.ours else ""
        lines.append([layer, *_cells(pair.ours), rate, *_cells(pair.peer), speedup])
    mean = mean_speedup(found)
    assert mean is not None
    header = ["layer", "ours", "ms", "MiB", "TFLOP/s", "fastest peer", "ms", "MiB"]
    return (
        f"### {_title(run)}, {_gpu(run)}\n\n{_machine(run)}. The fastest peer's time over ours is"
        f" {mean:.2f} in the geometric mean.\n\n{table([*header, 'peer / ours'], lines)}"
    )


def _title(run: dict[str, Any]) -> str:
    return f"{_NETWORKS[run['layers']]}, {run['dtype']}, {run['layout']}, batch {run['batch']}"


def _cells(row: Row | None) -> list[str]:
    if row is None:
        return [""] * 3
    name = row.algorithm.replace("_", " ") if row.is_peer else f"`{row.algorithm}`"
    return [name, f"{row.milliseconds:.3g}", f"{row.extra_bytes / _MIB:.0f}"]


def _gpu_means() -> Iterable[tuple[str, str, str, tuple[float, float, float]]]:
    for run in _gpu_runs():
        speedups = (pair.speedup for pair in pairs(Row(**row) for row in run["rows"]))
        kind = f"{run['dtype']}, {run['layout']}"
        yield _NETWORKS[run["layers"]], kind, _gpu(run), _spread(filter(None, speedups))
    for (dtype, layout), layers in _by(
        _load("h200/depthwise_batch128.json")["layers"], "dtype", "layout"
    ):
        spread = _spread(row["cudnn"] / row["depthwise"] for row in layers)
        yield "Depthwise layers", f"{dtype}, {layout}", "H200", spread


def _cpu_means() -> Iterable[tuple[str, str, str, tuple[float, float, float]]]:
    for run in map(_load, _CPU_RUNS):
        for (layout, batch), some in _by(run["layers"], "layout", "batch"):
            kind = f"{run['dtype']}, {layout}, batch {batch}"
            spread = _spread(_cpu_speedup(row) for row in some)
            yield "The twelve and ResNet-50", kind, "2 cores, AVX-512", spread


def _cpu_speedup(row: dict[str, Any]) -> float:
    return float(row["milliseconds"]["oneDNN"] / row["milliseconds"]["im2win"])


def _load(path: str | Path) -> dict[str, Any]:
    run: dict[str, Any] = json.loads((BENCH / "results" / path).read_text(encoding="utf-8"))
    return run


def _machine(run: dict[str, Any]) -> str:
    return machine_line(run["machine"])


def machine_line(machine: dict[str, Any]) -> str:
    """What was measured on what."""
    device = machine["devices"].get("cuda:0") or machine["devices"]["cpu"]
    versions = ", ".join(f"{name} {version}" for name, version in machine["packages"].items())
    return f"{device}; commit {machine['commit']}, {machine['date'][:10]}; {versions}"


def _by(rows: list[dict[str, Any]], *keys: str) -> Iterable[tuple[tuple[Any, ...], list[Any]]]:
    """The rows in groups of the same keys, in the order of their first ones."""

    groups: dict[tuple[Any, ...], list[Any]] = {}
    for row in rows:
        groups.setdefault(tuple(row[key] for key in keys), []).append(row)
    return groups.items()


def _spread(ratios: Iterable[float]) -> tuple[float, float, float]:
    """Geometric mean, smallest and largest."""
    values = list(ratios)
    return geometric_mean(values), min(values), max(values)


def _spread_text(spread: tuple[float, float, float]) -> str:
    mean, low, high = spread
    return f"{mean:.2f} ({low:.2f} to {high:.2f})"
