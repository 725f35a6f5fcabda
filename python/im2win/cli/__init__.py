"""The command `im2win`: what is here, whether it is right, how fast, and by which algorithm."""

import typer

from im2win.cli.bench import bench
from im2win.cli.check import check
from im2win.cli.machine import info
from im2win.cli.tune import tune

app = typer.Typer(
    name="im2win",
    help="Convolution by windows, on CPU and CUDA.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
for command in (info, check, bench, tune):
    app.command()(command)
