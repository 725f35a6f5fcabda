"""Drawings of how im2win lays an input out, made from what the library itself computes."""

import io
from collections.abc import Iterator
from typing import Any

import matplotlib as mpl
import numpy as np
from matplotlib.figure import Figure
from matplotlib.patches import FancyBboxPatch, Rectangle

import im2win
from im2win.layers import LAYERS

mpl.use("svg")

_HEIGHT, _WIDTH, _R, _S = 4, 5, 3, 3
_ROW_COLOURS = ("#c5cae9", "#b2dfdb", "#ffe0b2", "#f8bbd0")
_WINDOW_COLOURS = ("#303f9f", "#00796b", "#e64a19")


def all_drawings() -> dict[str, str]:
    """SVG by name."""
    return {"layout": svg(_layout()), "shifts": svg(_shifts()), "memory": svg(_memory())}


def svg(figure: Figure) -> str:
    buffer = io.StringIO()
    figure.savefig(buffer, format="svg", bbox_inches="tight")
    return buffer.getvalue()


def _canvas(width: float, height: float) -> tuple[Figure, Any]:
    """Axes in units of cells, from the top left."""
    figure = Figure(figsize=(0.32 * width, 0.32 * height))
    axes = figure.add_axes((0, 0, 1, 1))
    axes.set(xlim=(0, width), ylim=(height, 0), aspect="equal")
    axes.axis("off")
    return figure, axes


def _cells(axes: Any, values: Any, x: float, y: float) -> None:
    """Rows of cells; a cell's colour is that of its row of the input."""
    for (row, column), value in np.ndenumerate(np.atleast_2d(values)):
        colour = _ROW_COLOURS[int(value) // _WIDTH]
        axes.add_patch(Rectangle((x + column, y + row), 1, 1, fc=colour, ec="white", lw=1))
        axes.text(x + column + 0.5, y + row + 0.5, f"{value:.0f}", ha="center", va="center", size=8)


def _frame(axes: Any, window: int, x: float, y: float, width: float, height: float) -> None:
    style = "round,pad=0,rounding_size=0.25"
    colour = _WINDOW_COLOURS[window]
    axes.add_patch(
        FancyBboxPatch((x, y), width, height, boxstyle=style, fc="none", ec=colour, lw=2)
    )


def _layout() -> Figure:
    """An input, its im2win tensor with the windows of one row, and its im2col matrix."""
    image = np.arange(_HEIGHT * _WIDTH, dtype=np.float32).reshape(1, 1, _HEIGHT, _WIDTH)
    rows = im2win.transform(image, (_R, _S))[0, 0]
    figure, axes = _canvas(24, 16)
    axes.text(0, 0.6, f"input: {image.size} elements", size=10)
    _cells(axes, image[0, 0], 0, 1)
    for q in range(3):
        _frame(axes, q, q + 0.08 * q, 1 + 0.08 * q, 2.84, 2.84)

    axes.text(7, 0.6, f"im2win: {rows.size} elements, a row for each row of outputs", size=10)
    for p, row in enumerate(rows):
        axes.text(6.8, 1.55 + 3 * p, f"p={p}", ha="right", va="center", size=9)
        _cells(axes, row, 7, 1 + 3 * p)
    for q in range(3):
        begin, end, y = 7 + q * _R, 7 + q * _R + _R * _S, 2.3 + 0.4 * q
        axes.plot((begin, end), (y, y), color=_WINDOW_COLOURS[q], lw=4, solid_capstyle="butt")
        axes.text(end + 0.2, y, f"q={q}", size=8, va="center")

    matrix = list(_windows(image[0, 0]))
    copies = sum(window.size for window in matrix)
    axes.text(7, 7.2, f"im2col: {copies} elements, a row for each output", size=10)
    for i, window in enumerate(matrix):
        _cells(axes, window.reshape(1, -1), 7, 7.6 + 1.3 * i)
        p, q = divmod(i, _WIDTH - _S + 1)
        axes.text(6.8, 8.15 + 1.3 * i, f"p={p}, q={q}", ha="right", va="center", size=9)
        if p == 0:
            _frame(axes, q, 7.04, 7.64 + 1.3 * i, _R * _S - 0.08, 0.92)
    return figure


def _windows(image: Any) -> Iterator[Any]:
    for p in range(_HEIGHT - _R + 1):
        for q in range(_WIDTH - _S + 1):
            yield image[p : p + _R, q : q + _S]


def _shifts() -> Figure:
    """Rows of an input that follow each other in shared memory, read by three taps."""
    pitch, columns = 8, 14
    figure, axes = _canvas(26, 9)
    for i, (r, s) in enumerate([(0, 0), (0, 1), (1, 2)]):
        y, shift = 1.2 + 2.7 * i, r * pitch + s
        axes.text(0, y + 0.55, f"r={r}, s={s}", va="center", size=9)
        for position in range(24):
            colour = _ROW_COLOURS[position // pitch]
            cell = Rectangle((2 + position, y), 1, 1, fc=colour, ec="white", lw=1)
            axes.add_patch(cell)
            axes.text(2.5 + position, y + 0.55, position, ha="center", va="center", size=7)
        _frame(axes, i, 2 + shift + 0.04, y - 0.12, columns - 0.08, 1.24)
        axes.text(2 + shift, y - 0.3, f"{shift} positions on", size=8)
    return figure


def _memory() -> Figure:
    """What the paper's layers take, beside their inputs."""
    figure = Figure(figsize=(8, 3))
    axes = figure.add_subplot()
    names = [layer.name for layer in LAYERS]
    at = np.arange(len(LAYERS))
    im2win_sizes = [x.output_size * x.size * x.kernel / x.size**2 for x in LAYERS]
    im2col_sizes = [(x.output_size * x.kernel) ** 2 / x.size**2 for x in LAYERS]
    for name, sizes, offset, colour in (
        ("im2win tensor", im2win_sizes, -0.2, _WINDOW_COLOURS[0]),
        ("im2col matrix", im2col_sizes, 0.2, _WINDOW_COLOURS[2]),
    ):
        axes.bar(at + offset, sizes, 0.4, label=name, color=colour)
    axes.set_xticks(at, names, rotation=45, size=8)
    axes.set_ylabel("times the input")
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(frameon=False)
    return figure
