"""A study's tables, in Markdown."""

from collections.abc import Callable, Sequence
from statistics import mean

from im2win.layers import Layer
from paper_rows import ABLATION, LABELS, PRINTED_PICKS, Row, Study
from report import refusal_lines
from tables import table

_MIB = 2**20
_COPY_BYTES_PER_SECOND = 4.2e12  # read and written, of an H200
_COMPARED = ("im2win", "mec", "im2win_fused", "im2win_fused_packed")
# The paper's averages, of speeds and of % memory, over what it compares with.
_PRINTED_AVERAGES = {
    "im2col_cublas": ("3.5", "23.1"),
    "unfold_cupy": ("", ""),
    "cudnn_pick": ("1.1", "32.8"),
    "pytorch": ("", ""),
}
Cell = Callable[[Layer, str], float | None]
Show = Callable[[list[float]], str]
Values = Callable[[str, str], list[float]]  # of ours and a peer


def report(study: Study) -> str:
    """All that there is to say of the study, in the paper's order."""
    unit = rate_unit(study)
    sections = {
        f"Figure 2: {unit}, by the {clock(study)}": rates(study),
        f"The same by the {other_clock(study)}": other_rates(study),
        "Figure 3: MiB of tensors and of all that a call needs": memory(study),
    }
    if study.device == "cuda":
        sections = {"Table 3: what cuDNN picks": picks(study), **sections}
        if any(name in study.algorithms for name in ABLATION):
            sections[f"Figure 4: {unit} without one technique"] = ablation(study)
        sections["The paper's claims"] = claims(study)
    sections["Not measured"] = not_measured(study)
    title = f"{study.device}, {study.dtype}, batch {study.batch}, commit {study.machine['commit']}"
    return "\n\n".join([f"# {title}", *(f"## {name}\n\n{text}" for name, text in sections.items())])


def clock(study: Study) -> str:
    """What rates() are by."""
    return "median time on the device" if study.device == "cuda" else "best wall-clock time"


def other_clock(study: Study) -> str:
    return "best wall-clock time" if study.device == "cuda" else "median wall-clock time"


def rate_unit(study: Study) -> str:
    return "TFLOP/s" if study.device == "cuda" else "GFLOP/s"


def rate(study: Study, layer: Layer, algorithm: str) -> float | None:
    """In that unit."""
    rate = study.flops_per_second(layer, algorithm)
    return None if rate is None else rate / (1e12 if study.device == "cuda" else 1e9)


def rates(study: Study) -> str:
    return _by_layer(study, study.algorithms, lambda *at: rate(study, *at))


def other_rates(study: Study) -> str:
    def cell(layer: Layer, algorithm: str) -> float | None:
        row, known = study.row(layer, algorithm), rate(study, layer, algorithm)
        if row is None or known is None:
            return None
        other = row.wall_best_ms if study.device == "cuda" else row.wall_median_ms
        return known * row.milliseconds / other

    return _by_layer(study, study.algorithms, cell)


def ablation(study: Study) -> str:
    return _by_layer(study, list(ABLATION), lambda *at: rate(study, *at))


def memory(study: Study) -> str:
    """First what the tensors take, and what the paper's formula adds."""
    bare = study.tensor_bytes
    by_formula = "tensors and im2win tensor, by the paper's formula"
    rows = [
        ["the tensors alone", *(_number(bare(x) / _MIB) for x in study.layers)],
        [by_formula, *(_number((bare(x) + _formula_bytes(study, x)) / _MIB) for x in study.layers)],
    ]
    return _by_layer(study, study.algorithms, lambda *at: _memory_mib(study, *at), rows)


def picks(study: Study) -> str:
    """What the paper's cuDNN chose, what this one does, and which algorithm is the fastest."""
    printed = dict(zip((f"conv{i}" for i in range(1, 13)), PRINTED_PICKS, strict=True))
    named = [name for name in study.algorithms if LABELS[name].startswith("cuDNN ")]
    rows = []
    for layer in study.layers:
        found = [row for row in (study.row(layer, name) for name in named) if row]
        best = min(found, key=lambda row: row.milliseconds, default=None)
        fastest = LABELS[best.algorithm].removeprefix("cuDNN ") if best else ""
        rows.append([layer.name, printed[layer.name], study.picks.get(layer.name, ""), fastest])
    return table(["layer", "printed: RTX 3090, cuDNN 8.0.1", "cuDNN here", "fastest here"], rows)


def claims(study: Study) -> str:
    """The paper's figures, as printed, beside those of this run; averages are arithmetic."""

    def speeds(ours: str, peer: str) -> list[float]:
        return [a.milliseconds / b.milliseconds for a, b in _both(study, peer, ours)]

    def savings(ours: str, peer: str) -> list[float]:
        taken = [[study.memory_bytes(x, name) for name in (ours, peer)] for x in study.layers]
        return [100 * (1 - a / b) for a, b in taken if a is not None and b is not None]

    def line(name: str, printed: str, show: Show, values: Values, peer: str) -> list[str]:
        return [name, printed, *(show(values(ours, peer)) for ours in _COMPARED)]

    rows = [
        line("speed over direct", "5 to 155", _span, speeds, "direct"),
        line("speed over cuDNN's pick, at most", "1.8", _most, speeds, "cudnn_pick"),
    ]
    for peer, (printed_speed, printed_saving) in _PRINTED_AVERAGES.items():
        rows.append(line(f"speed over {LABELS[peer]}", printed_speed, _mean, speeds, peer))
        rows.append(line(f"% memory below {LABELS[peer]}", printed_saving, _mean, savings, peer))
    header = ["on average", "printed: RTX 3090", *(f"{LABELS[name]} here" for name in _COMPARED)]
    return table(header, rows)


def not_measured(study: Study) -> str:
    """What is not installed, and what was refused or wrong."""
    lines = [f"{LABELS[peer]}: not installed: {why}" for peer, why in study.missing.items()]
    refusals = [{**each, "algorithm": LABELS[each["algorithm"]]} for each in study.refusals]
    lines += refusal_lines(refusals, len(study.layers))
    return "\n".join(f"- {line}" for line in lines) or "Nothing."


def traffic(study: Study) -> str:
    """What it costs im2win that its tensor is written and read, at the rate of a copy."""
    rows = []
    for layer in study.layers:
        row = study.row(layer, "im2win")
        if row is not None:
            moved = 2 * _formula_bytes(study, layer)
            least = moved / _COPY_BYTES_PER_SECOND * 1e3
            numbers = (moved / 2**30, least, row.milliseconds, 100 * least / row.milliseconds)
            rows.append([layer.name, *map(_number, numbers)])
    return table(["layer", "GiB moved", "ms at least", "ms of im2win", "%"], rows)


def _memory_mib(study: Study, layer: Layer, algorithm: str) -> float | None:
    measured = study.memory_bytes(layer, algorithm)
    return None if measured is None else measured / _MIB


def _formula_bytes(study: Study, layer: Layer) -> int:
    """Of an im2win tensor: N x C x P x W x R elements (the paper's section 3.1)."""
    n, c, _, w = layer.input_shape(study.batch)
    return n * c * layer.output_size * w * layer.kernel * study.element_bytes


def _both(study: Study, first: str, second: str) -> list[tuple[Row, Row]]:
    """Of the layers that both have."""
    pairs = [(study.row(layer, first), study.row(layer, second)) for layer in study.layers]
    return [(a, b) for a, b in pairs if a and b]


def _by_layer(
    study: Study, algorithms: Sequence[str], cell: Cell, before: Sequence[list[str]] = ()
) -> str:
    rows = [
        [LABELS[name], *(_number(cell(layer, name)) for layer in study.layers)]
        for name in algorithms
    ]
    return table(["", *(layer.name for layer in study.layers)], [*before, *rows])


def _number(value: float | None) -> str:
    return "" if value is None else f"{value:.3g}" if value < 100 else f"{value:.0f}"


def _mean(values: list[float]) -> str:
    return f"{mean(values):.2f}" if values else ""


def _most(values: list[float]) -> str:
    return f"{max(values):.2f}" if values else ""


def _span(values: list[float]) -> str:
    return f"{min(values):.1f} to {max(values):.1f}" if values else ""
