"""Host time of a cached conv2d call on tiny CUDA tensors: what a caller pays before the GPU.

python bench/host_time.py --json bench/results/FILE.json
"""

import json
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import Annotated, Any

import typer
from rich.console import Console

import im2win
import machine

_CALLS = 100  # between synchronisations: few enough that the launch queue never fills
_ROUNDS = 21


def main(
    json_file: Annotated[Path | None, typer.Option("--json", help="write the results here")] = None,
) -> None:
    times = measure()
    for name, microseconds in times.items():
        Console().print(f"{name}: {microseconds:.1f} microseconds a call")
    if json_file is not None:
        results = {"machine": machine.describe(), "microseconds_per_call": times}
        json_file.write_text(json.dumps(results, indent=1) + "\n")


def measure() -> dict[str, float]:
    """Microseconds a call, by framework; those that are not installed are left out."""
    times: dict[str, float] = {}
    for name, prepare in (("torch", _torch_case), ("cupy", _cupy_case)):
        try:
            module = import_module(name)
        except ImportError:
            continue
        call, synchronize = prepare(module)
        times[name] = _microseconds(call, synchronize)
        if name == "torch":
            times["torch's own conv2d"] = _microseconds(*_torch_peer(module))
    return times


def _microseconds(call: Callable[[], Any], synchronize: Callable[[], Any]) -> float:
    def one_round() -> float:
        synchronize()
        begin = perf_counter()
        for _ in range(_CALLS):
            call()
        return (perf_counter() - begin) / _CALLS

    one_round()
    return median(one_round() for _ in range(_ROUNDS)) * 1e6


def _torch_case(torch: Any) -> tuple[Callable[[], Any], Callable[[], Any]]:
    input = torch.randn(1, 3, 8, 8, device="cuda")
    weight = torch.randn(4, 3, 3, 3, device="cuda")
    return lambda: im2win.conv2d(input, weight, padding=1), torch.cuda.synchronize


def _torch_peer(torch: Any) -> tuple[Callable[[], Any], Callable[[], Any]]:
    input = torch.randn(1, 3, 8, 8, device="cuda")
    weight = torch.randn(4, 3, 3, 3, device="cuda")
    return lambda: torch.nn.functional.conv2d(input, weight, padding=1), torch.cuda.synchronize


def _cupy_case(cupy: Any) -> tuple[Callable[[], Any], Callable[[], Any]]:
    input = cupy.random.standard_normal((1, 3, 8, 8)).astype("float32")
    weight = cupy.random.standard_normal((4, 3, 3, 3)).astype("float32")
    return lambda: im2win.conv2d(input, weight, padding=1), cupy.cuda.Device().synchronize


if __name__ == "__main__":
    typer.run(main)
