"""A study's figures, numbered as the paper's: rates (2), memory (3) and ablation (4)."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

from im2win.layers import Layer
from paper_report import rate, rate_unit
from paper_rows import ABLATION, LABELS, Study

_GROUP_WIDTH = 0.84
_LAYERS_A_ROW = 6
_GIB = 2**30

# Colours of Okabe and Ito's palette, which colour-blind readers can tell apart; what is hatched is
# kin to what has the colour without. cuDNN's algorithms one by one are in the tables.
_STYLES = {
    "direct": ("#000000", ""),
    "im2col_cublas": ("#E69F00", ""),
    "im2col_numpy": ("#E69F00", ""),
    "unfold_cupy": ("#F0E442", ""),
    "cudnn_pick": ("#009E73", ""),
    "cudnn_micro_batches": ("#009E73", "////"),
    "pytorch": ("#56B4E9", ""),
    "onednn": ("#56B4E9", ""),
    "onnxruntime": ("#009E73", ""),
    "implicit_gemm": ("#000000", "////"),
    "im2win_basic": ("#CC79A7", "////"),
    "im2win": ("#CC79A7", ""),
    "im2win_no_prefetch": ("#E69F00", ""),
    "im2win_no_vector": ("#56B4E9", ""),
    "im2win_no_microkernel": ("#009E73", ""),
    "im2win_packed": ("#CC79A7", "////"),
    "mec": ("#0072B2", ""),
    "im2win_fused": ("#D55E00", ""),
}
_FIGURE_2_AND_3 = tuple(name for name in _STYLES if name not in ABLATION[1:])


def figures(study: Study) -> dict[str, Any]:
    """matplotlib's figures by file name, without its ending."""
    unit = rate_unit(study)
    found = {
        "figure2": _bars(study, _FIGURE_2_AND_3, unit, lambda *at: rate(study, *at)),
        "figure3": _bars(study, _FIGURE_2_AND_3, "GiB", lambda *at: _gib(study, *at), "log"),
    }
    if any(name in study.algorithms for name in ABLATION[1:]):
        found["figure4"] = _bars(study, ABLATION, unit, lambda *at: rate(study, *at))
    return found


def save(study: Study, folder: Path) -> list[Path]:
    """As PNG and as SVG."""
    paths = []
    for name, figure in figures(study).items():
        for ending in ("png", "svg"):
            path = folder / f"{name}.{ending}"
            # Neither a date nor random names: the same study gives the same file.
            metadata = {"Date": None} if ending == "svg" else None
            with _stable_names():
                figure.savefig(path, dpi=120, metadata=metadata)
            paths.append(path)
    return paths


def _stable_names() -> Any:
    import matplotlib as mpl

    return mpl.rc_context({"svg.hashsalt": "im2win"})


def _gib(study: Study, layer: Layer, algorithm: str) -> float | None:
    memory = study.memory_bytes(layer, algorithm)
    return None if memory is None else memory / _GIB


def _bars(
    study: Study,
    shown: tuple[str, ...],
    unit: str,
    value: Callable[[Layer, str], float | None],
    scale: str = "linear",
) -> Any:
    """Groups of bars, one for each layer, in two rows with a scale each."""
    from matplotlib.figure import Figure

    names = [name for name in shown if name in study.algorithms]
    layers = study.layers
    rows = [layers[i : i + _LAYERS_A_ROW] for i in range(0, len(layers), _LAYERS_A_ROW)]
    figure = Figure(figsize=(11, 1.2 + 3.2 * len(rows)), layout="constrained")
    panels = figure.subplots(len(rows), squeeze=False)[:, 0]
    for axes, row in zip(panels, rows, strict=True):
        _draw(axes, row, names, value)
        axes.set_ylabel(unit)
        axes.set_yscale(scale)
    handles, labels = panels[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=4, frameon=False)
    return figure


def _draw(
    axes: Any, layers: list[Layer], names: list[str], value: Callable[[Layer, str], float | None]
) -> None:
    width = _GROUP_WIDTH / len(names)
    for number, name in enumerate(names):
        shift = (number - (len(names) - 1) / 2) * width
        axes.bar(
            [at + shift for at in range(len(layers))],
            [value(layer, name) or 0 for layer in layers],
            width,
            label=LABELS[name],
            color=_STYLES[name][0],
            hatch=_STYLES[name][1],
            edgecolor="white",
            linewidth=0.5,
        )
    axes.set_xticks(range(len(layers)), [layer.name for layer in layers])
    axes.spines[["top", "right"]].set_visible(False)
    axes.yaxis.grid(True, alpha=0.3)
    axes.set_axisbelow(True)
