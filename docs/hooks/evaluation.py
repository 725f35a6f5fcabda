"""The evaluation of the paper: tables and figures of what bench/paper.py has measured."""

import json
from collections.abc import Callable
from functools import cache

import drawings
from results import BENCH, machine_line  # which makes bench/ known

# isort: split
import paper_figures
import paper_report
from paper_rows import Study

_FOLDERS = {"gpu": "h200/paper", "cpu": "cpu/paper"}


def all_figures() -> dict[str, str]:
    """SVG by name, such as gpu_figure2."""
    return {
        f"{kind}_{name}": drawings.svg(figure)
        for kind in _FOLDERS
        for name, figure in paper_figures.figures(_study(kind)).items()
    }


@cache
def _study(kind: str) -> Study:
    path = BENCH / "results" / _FOLDERS[kind] / "results.json"
    return Study.from_json(json.loads(path.read_text(encoding="utf-8")))


def _part(kind: str, make: Callable[[Study], str]) -> Callable[[], str]:
    return lambda: make(_study(kind))


def _about(study: Study) -> str:
    return f"{machine_line(study.machine)}. Batch {study.batch}, {study.dtype}."


PARTS = {
    "paper_about": _part("gpu", _about),
    "paper_picks": _part("gpu", paper_report.picks),
    "paper_rates": _part("gpu", paper_report.rates),
    "paper_other_rates": _part("gpu", paper_report.other_rates),
    "paper_memory": _part("gpu", paper_report.memory),
    "paper_ablation": _part("gpu", paper_report.ablation),
    "paper_claims": _part("gpu", paper_report.claims),
    "paper_not_measured": _part("gpu", paper_report.not_measured),
    "paper_traffic": _part("gpu", paper_report.traffic),
    "paper_cpu_about": _part("cpu", _about),
    "paper_cpu_rates": _part("cpu", paper_report.rates),
    "paper_cpu_memory": _part("cpu", paper_report.memory),
}
