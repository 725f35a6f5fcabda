"""`im2win tune`: measures algorithms, and keeps the fastest for the plans to come."""

from collections.abc import Iterator, Sequence
from typing import Annotated, Any, NamedTuple

import typer
from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

from im2win import _tuning
from im2win._arguments import Options
from im2win._info import info as find_info
from im2win._library import Im2winError
from im2win._native import new_options
from im2win._problem import describe
from im2win._shapes import Tensors
from im2win._tensors.spec import DTYPE_CODES, Shape, TensorSpec, dense_strides, parse_device
from im2win.cli.machine import chosen, chosen_devices, console, print_machine
from im2win.cli.trial import Trial, choose, describe_entry, title
from im2win.layers import NETWORKS, Layer


class Work(NamedTuple):
    """What is to be measured: an entry of the cache, on a device of its kind."""

    title: str
    entry: _tuning.Fields
    device: int


class Tuned(NamedTuple):
    problem: str
    default: str
    fastest: str
    seconds: dict[str, float]


def tune(
    layers: Annotated[
        str | None, typer.Option(help=f"Add layers, some of {','.join(NETWORKS)}.")
    ] = None,
    device: Annotated[str | None, typer.Option(help="Such as cpu,cuda; all by default.")] = None,
    batch: Annotated[int, typer.Option(min=1, help="Images of --layers.")] = 1,
    dtype: Annotated[str, typer.Option(help="Of --layers, such as float32,float16.")] = "float32",
    layout: Annotated[str, typer.Option(help="Memory order of --layers, or both.")] = "NCHW",
    again: Annotated[bool, typer.Option(help="Measure what has been measured, too.")] = False,
) -> None:
    """Measure the algorithms on problems recorded with IM2WIN_LOG=problems, and keep the fastest.

    Plans that are made from then on take it, where no algorithm is named.
    """
    found = find_info()
    print_machine(found)
    devices = [parse_device(name) for name in chosen_devices(device, found)]
    dtypes = chosen("--dtype", dtype, tuple(DTYPE_CODES))
    layouts = chosen("--layout", layout, ("NCHW", "NHWC"))
    for network in () if layers is None else chosen("--layers", layers, tuple(NETWORKS)):
        for layer in NETWORKS[network]:
            _add(layer, batch, devices, dtypes, layouts)
    console.print(f"tuning cache: {escape(str(_tuning.folder()))}", soft_wrap=True)
    work = sorted(_work(devices, again), key=lambda each: each.title)
    if not work:
        console.print(
            "nothing to measure: give --layers, or run a program with IM2WIN_LOG=problems"
        )
        return
    console.print(_table(_measure(work)))


def _add(
    layer: Layer, batch: int, devices: Sequence[int], dtypes: Sequence[str], layouts: Sequence[str]
) -> None:
    """Adds a layer to the problems of the cache."""

    def spec(shape: Shape, layout: str, dtype: str, device: int) -> TensorSpec:
        if layout == "NHWC":
            shape = (shape[0], *shape[2:], shape[1])
        return TensorSpec(shape, dense_strides(shape), dtype, device, readonly=False)

    for device in devices:
        for dtype in dtypes:
            for layout in layouts:
                source = spec(layer.input_shape(batch), layout, dtype, device)
                weight = spec(layer.weight_shape, layout, dtype, device)
                options = Options(2, layout, layer.stride, layer.padding)
                desc, _ = describe(Tensors(source, weight, None, None, None), options)
                _tuning.add(desc, new_options(device))


def _work(devices: Sequence[int], again: bool) -> Iterator[Work]:
    """Each problem once that was seen on such a device, with whichever library and driver."""
    kinds = {_tuning.device_description(device): device for device in reversed(devices)}
    seen = set()
    for entry in _tuning.entries():
        device = kinds.get(entry["key"].get("device"))
        if device is None:
            continue
        try:
            desc, options = describe_entry(entry, device)
        except (TypeError, ValueError, LookupError):  # of another version, or corrupt
            continue
        name = _tuning.file_name(_tuning.key(desc, options))
        if name not in seen and (again or _tuning.measured(desc, options) is None):
            seen.add(name)
            yield Work(title(desc, options), entry, device)


def _measure(work: Sequence[Work]) -> list[Tuned]:
    columns: Any = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn())
    tuned = []
    with Progress(*columns, TimeElapsedColumn(), console=console, transient=True) as progress:
        task = progress.add_task("", total=len(work))
        for each in work:
            progress.update(task, description=escape(each.title))
            try:
                tuned.append(_measure_one(each))
            except (Im2winError, MemoryError, ValueError) as error:
                message = f"{each.title}: {error}"
                console.print(f"[yellow]not measured[/yellow]: {escape(message)}", soft_wrap=True)
            progress.advance(task)
    return tuned


def _measure_one(work: Work) -> Tuned:
    """Measures and stores. Its tensors are gone before the next one's are made."""
    trial = Trial(*describe_entry(work.entry, work.device))
    times = {name: trial.seconds(name) for name in trial.algorithms}
    seconds = {name: time for name, time in times.items() if time is not None}
    fastest = choose(trial.default, seconds)
    trial.store(fastest, seconds)
    return Tuned(work.title, trial.default, fastest, seconds)


def _table(tuned: Sequence[Tuned]) -> Table:
    table = Table(
        caption="Milliseconds of the fastest call, memory and plan made before.",
        caption_justify="left",
    )
    for heading in ("problem", "by default", "fastest"):
        table.add_column(heading, overflow="fold")
    for heading in ("ms by default", "ms", "ratio"):
        table.add_column(heading, justify="right")
    for problem, default, fastest, seconds in tuned:
        before, after = seconds[default], seconds[fastest]
        style = "green" if fastest != default else None
        times = f"{before * 1e3:.3f}", f"{after * 1e3:.3f}", f"{before / after:.2f}"
        table.add_row(escape(problem), default, fastest, *times, style=style)
    return table
