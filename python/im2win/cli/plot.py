"""The figure of `im2win bench --plot`."""

from collections.abc import Sequence
from pathlib import Path

from im2win.cli.measure import Measurement

# Okabe and Ito's palette, which colour-blind readers can tell apart.
_COLOURS = ("#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#D55E00", "#000000")
_GROUP_WIDTH = 0.8


def save_plot(path: Path, measurements: Sequence[Measurement], title: str) -> None:
    """Writes grouped bars: the layers, and in each the GFLOP/s of the algorithms."""
    from matplotlib.figure import Figure

    layers = list(dict.fromkeys(each.layer for each in measurements))
    algorithms = list(dict.fromkeys(each.algorithm for each in measurements))
    figure = Figure(figsize=(max(6.0, 1.1 * len(layers)), 4.5), layout="constrained")
    axes = figure.subplots()
    width = _GROUP_WIDTH / len(algorithms)
    for number, algorithm in enumerate(algorithms):
        own = [each for each in measurements if each.algorithm == algorithm]
        shift = (number - (len(algorithms) - 1) / 2) * width
        axes.bar(
            [layers.index(each.layer) + shift for each in own],
            [each.gflops for each in own],
            width,
            label=algorithm,
            color=_COLOURS[number % len(_COLOURS)],
        )
    axes.set_xticks(range(len(layers)), layers)
    axes.set_ylabel("GFLOP/s")
    axes.set_title(title, fontsize="medium")
    axes.spines[["top", "right"]].set_visible(False)
    axes.yaxis.grid(True, alpha=0.3)
    axes.set_axisbelow(True)
    figure.legend(loc="outside lower center", ncols=min(4, len(algorithms)), frameon=False)
    figure.savefig(path, dpi=150)
